/* Plans that are released together: those that their clients have freed while nothing of them ran.
 * A batch shares the engine's wake-ups, the flushes of links, messages to other daemons, and the
 * reply. Loop's thread. */
#pragma once

#include <stdint.h>

struct plan;
struct releases;
struct session;
struct tcad;

int releases_new(struct tcad *tcad, struct releases **ret_releases); /* -ENOMEM */
struct releases *releases_free(struct releases *releases); /* NULL is a no-op; returns NULL */

/* The plan, with release_asked set, is released within a millisecond. */
void releases_add(struct releases *releases, struct plan *plan);
/* It is being released; no effect if it does not wait here. */
void releases_remove(struct releases *releases, struct plan *plan);
/* Begins all of them: somebody may wait for what they hold. */
void releases_begin(struct releases *releases);

/* Of those that wait, by plan.next_released the next older one; NULL: none. */
struct plan *releases_newest(const struct releases *releases);

/* A plan that was added is gone: answers its session, for several plans at once. */
void releases_answer(struct session *session, uint32_t tag);
