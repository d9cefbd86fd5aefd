#pragma once

#include <sys/eventfd.h>

#include "client/core/session.h"

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
