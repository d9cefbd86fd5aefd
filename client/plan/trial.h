/*
 * Plans that tune themselves: the first starts of a plan try the copy modes of its puts in the
 * client's seat, and the fastest stay (tune.h). Puts that copy between the same layouts, over the
 * same distance, try together. The kinds of puts of a plan try one after the other, so that a
 * difference between two starts is due to one kind.
 *
 * What one run has found, the next one uses without trials (client/core/wisdom.h).
 *
 * While a plan tries, its starts take the slow path of tca_start(). Afterwards nothing is measured
 * until the distance to a receiver has changed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct tca;
struct tca_plan;
struct trial;

/* Call after a commit. Has the plan try if there is something to try. Out of memory: it does not
 * try, and copies as predicted. */
void trial_begin(struct tca_plan *plan);
/* Call at each start of a plan with PLAN_TRIES. */
void trial_start(struct tca_plan *plan);
/* Frees plan->trial; NULL is a no-op. */
void trial_end(struct tca_plan *plan);

/* The session ends: adds what its plans have found to the user's wisdom, unless this process is a
 * forked child. */
void trials_keep(struct tca *session);

/* Call now and then, off the fast path: plans try again whose receivers have come nearer or gone
 * farther away. */
void trials_review(struct tca *session);
