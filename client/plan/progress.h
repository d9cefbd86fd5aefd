#pragma once

#include <sys/eventfd.h>

#include "client/core/session.h"
#include "proto/notify.h"

/* Call after a store that an engine must see: wakes the engine if it sleeps. */
static inline void session_ring_engine(struct tca *session, _Atomic uint32_t *armed)
{
    /* orders the caller's store before the load of `armed`, which the engine sets before its last
     * check: segment.h */
    atomic_thread_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(armed, memory_order_relaxed) != 0, 0) &&
        atomic_exchange_explicit(armed, 0, memory_order_acq_rel) == 1)
        eventfd_write(session->engine_fd, 1);
}

/* Raises a notification within the node, and wakes who waits for it. */
static inline void session_raise(struct tca *session, const struct notify_target *target)
{
    struct notify_segment *segment = target->segment;
    notify_raise_direct_at(target);
    /* Plans in the daemon's seat may wait for it. notify_tell() orders the store and marks before
     * this load. */
    if (__builtin_expect(atomic_load(&segment->engine_armed) != 0, 0))
        session_ring_engine(session, &segment->engine_armed);
}
