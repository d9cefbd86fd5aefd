/*
 * Bounces (proto/segment.h): how memory that a process has attached is put from and into by this
 * daemon, which cannot reach it: beside it there is memory of ours, as long, and the process copies
 * between the two. Rails know only the latter.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/layout.h"
#include "proto/segment.h"

struct region;
struct session;

/* Before it is registered with a rail (region_register() makes the memory): counts it against the
 * user's quota. 0, also where nothing is to be done, or a negative errno; text says why. */
int bounce_admit(struct region *region, enum bounce_way way, char *text, size_t text_bytes);
/* Once it is registered: tells the process what will be asked of it. 0, -ESTALE (it has gone),
 * -ENOMEM. */
int bounce_new(struct region *region, enum bounce_way way, uint64_t offset_bytes,
               const struct layout *layout, uint32_t *ret_id);
/* It will not be asked for any more; the engine has none under way. */
void bounce_end(struct session *session, uint32_t id);
