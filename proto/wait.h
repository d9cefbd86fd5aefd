/*
 * How to wait: spin, then yield, then sleep. On a node with a core for every waiter, spinning is best (a wake-up costs 25 us);
 * with more waiters than cores it is ruinous (whoever has the data cannot run: 4 ms). Nobody can tell a process which of the two
 * it is in, but sched_yield() can:
 *   - it comes back at once: nobody else wants the core. Spin longer next time.
 *   - it takes a little: others look on this core, too. An engine spins shorter and goes on yielding, that hands the core round in
 *     microseconds. A client sleeps (gives_way): what it waits for needs the core, and whoever brings it will wake it.
 *   - it takes long: somebody computes, and a yield costs a whole slice of theirs. Sleep: a wake-up takes the core back at once.
 * After a sleep of either kind the next waits sleep without a yield, more and more of them, until a yield is free again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct waiter {
    /* limits, in ns; from TCA_SPIN_US and TCA_YIELD_US in clients, from tcad.conf in the engine */
    uint32_t spin_ns_max;
    uint32_t yield_ns_max;
    bool gives_way; /* clients */
    /* learnt */
    uint32_t spin_ns;      /* between 1/64 of the maximum and the maximum */
    uint32_t yield_free_ns; /* the shortest yield so far: what one costs when nobody else wants the core */
    uint32_t sleeps_left;  /* waits to come that go to sleep without a yield */
    uint32_t sleeps;       /* how many that were last time */
    /* of the current wait */
    uint32_t rounds;
    uint64_t started_ns;     /* first look at the clock; 0: none yet */
    uint64_t checked_ns;     /* last WAITER_CHECK */
    uint64_t yields_from_ns; /* end of spinning; 0: still spinning */
    uint64_t yielded_ns;     /* end of the last yield */
    bool shrunk;             /* a yield of this wait has shown somebody else */
};

enum waiter_advice {
    WAITER_AGAIN, /* look again at what you wait for */
    WAITER_CHECK, /* look again, and also at what is rarer: peers' deaths, the socket, the time-out */
    WAITER_SLEEP, /* arm, look once more, sleep */
};

void waiter_init(struct waiter *waiter, uint32_t spin_ns_max, uint32_t yield_ns_max, bool gives_way);

/* At the start of each wait, and in an engine whenever it found work. Inline: it is on the fast path. */
static inline void waiter_begin(struct waiter *waiter)
{
    waiter->rounds = 0;
    waiter->started_ns = 0;
    waiter->yields_from_ns = 0;
}

enum waiter_advice waiter_step_slow(struct waiter *waiter);

/* After each look that found nothing. The first rounds cost nothing but the look. */
static inline enum waiter_advice waiter_step(struct waiter *waiter)
{
    if (++waiter->rounds < 64)
        return WAITER_AGAIN;
    return waiter_step_slow(waiter);
}

/* CLOCK_MONOTONIC in ns. */
uint64_t clock_now_ns(void);
