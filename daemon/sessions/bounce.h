/*
 * Bounces (proto/segment.h). The daemon cannot access memory that a process has attached. It
 * allocates staging memory of the same size, which rails access, and the process copies between the
 * two. A bounce is one layout that the process copies.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/loop.h"
#include "daemon/sessions/client.h"
#include "proto/layout.h"
#include "proto/segment.h"

struct region;
struct session;

/* Bounces that have ended, of which the process is informed as fast as it reads. Zeroed: none. */
struct bounce_ends {
    uint32_t *ids;
    uint32_t count, told, room;
    bool telling;
    struct loop_job job;
    struct client_wait wait;
};

/* Call before registration with a rail (region_register() creates the staging memory): charges the
 * memory to the user's quota. 0, also if nothing is needed, or a negative errno; text describes the
 * error. */
int bounce_admit(struct region *region, enum bounce_way way, char *text, size_t text_bytes);
/* Call before bounce_new(): true if the process has not read so many messages that the next one has
 * to wait. wait->drained() then runs as after client_await_drained(). */
bool bounce_must_wait(struct session *session, struct client_wait *wait);
/* Call after registration: announces the bounce to the process. 0, -ESTALE (the process has ended). */
int bounce_new(struct region *region, enum bounce_way way, uint64_t offset_bytes,
               const struct layout *layout, uint32_t *ret_id);
/* Whether the process has not read its messages for so long that there can be no more BOUNCE_IN; text
 * describes that. */
bool bounce_refused(const struct region *region, char *text, size_t text_bytes);
/* Withdraws the bounce; the engine must have no request for it in flight. */
void bounce_end(struct session *session, uint32_t id);
void bounce_ends_deinit(struct bounce_ends *ends);
