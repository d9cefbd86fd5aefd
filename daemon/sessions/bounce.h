/*
 * Bounces (proto/segment.h). The daemon cannot access memory that a process has attached. It
 * allocates staging memory of the same size, which rails access, and the process copies between the
 * two. A bounce is one layout that the process copies.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/layout.h"
#include "proto/segment.h"

struct region;
struct session;

/* Call before registration with a rail (region_register() creates the staging memory): charges the
 * memory to the user's quota. 0, also if nothing is needed, or a negative errno; text describes the
 * error. */
int bounce_admit(struct region *region, enum bounce_way way, char *text, size_t text_bytes);
/* Call after registration: announces the bounce to the process. 0, -ESTALE (the process has ended). */
int bounce_new(struct region *region, enum bounce_way way, uint64_t offset_bytes,
               const struct layout *layout, uint32_t *ret_id);
/* Withdraws the bounce; the engine must have no request for it in flight. */
void bounce_end(struct session *session, uint32_t id);
