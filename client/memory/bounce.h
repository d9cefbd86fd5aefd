/*
 * Staging of attached memory (proto/segment.h). For puts in the daemon's seat and by other nodes,
 * the daemon requests copies between attached memory of this process and staging memory that both
 * have mapped. A thread of this process makes them while the process computes. It starts with the
 * first bounce, that is, the first layout to be staged; it sleeps when there is nothing to copy,
 * blocks all signals, and accesses only struct bounces of the session.
 */
#pragma once

#include "proto/frame.h"
#include "proto/tca.pb-c.h"

struct bounces;
struct tca;

/* Events of the daemon. May take descriptors from the frame. */
void bounce_add(struct tca *session, const Tca__Bounce *bounce, struct frame *frame);
void bounce_remove(struct tca *session, uint32_t id);

/* An attached region is freed: when this returns, the thread no longer accesses its memory. */
void bounce_forget(struct tca *session, uint64_t region);

/* The session ends: stops the thread, which a forked child does not have, and frees everything. */
void bounces_clear(struct tca *session);
