#pragma once

#include <sys/eventfd.h>

#include "client/core/session.h"

/* After a store that an engine has to see: wakes it if it said that it sleeps. */
static inline void session_ring_engine(struct tca *session, _Atomic uint32_t *armed)
{
    /* our store before the load of `armed`; the engine sets it before its last look: segment.h */
    atomic_thread_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(armed, memory_order_relaxed) != 0, 0) &&
        atomic_exchange_explicit(armed, 0, memory_order_acq_rel) == 1)
        eventfd_write(session->engine_fd, 1);
}
