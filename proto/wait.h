/*
 * How to wait: spin, then yield, then sleep. On a node with a core for every waiter, spinning is best (a wake-up costs 25 us);
 * with more waiters than cores it is ruinous (whoever has the data cannot run: 4 ms). Nobody can tell a process which of the two
 * it is in, but sched_yield() can:
 *   - it comes back at once: nobody else wants the core. Spin longer next time.
 *   - it hands the core to somebody, shortly: others wait on this core, too. Spin shorter, in the end not at all, and go on
 *     yielding, that hands the core round in microseconds: whoever looks twice before it yields keeps all others waiting.
 *   - it hands it over for long: somebody computes, and a yield costs a whole slice of theirs. Sleep, a wake-up takes the core back
 *     at once; and so in the next waits, for as many as cost together what the yield did.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct waiter {
    /* limits, in ns; from TCA_SPIN and TCA_YIELD in clients, from tcad.conf in the engine */
    uint32_t spin_ns_max;
    uint32_t yield_ns_max;
    /* learnt */
    uint32_t spin_ns;       /* 1/64 of the maximum to the maximum; 0: others want this core */
    uint32_t yield_free_ns; /* the shortest yield so far: what one costs when nobody else wants the
                               core */
    long displaced; /* how often others had been given this thread's core, when the kernel was last
                       asked */
    uint32_t sleeps_left; /* waits to come that go to sleep without a yield */
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
    WAITER_CHECK, /* look again, and also at what is rarer: peers' deaths, the socket, the time-out
                   */
    WAITER_SLEEP, /* arm, look once more, sleep */
};

/* Lets the core do something else for some ten nanoseconds: the other thread of it, or nothing. */
static inline void core_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* `yield` is no delay on most cores */
#else
    __asm__ volatile("" ::: "memory");
#endif
}

void waiter_init(struct waiter *waiter, uint32_t spin_ns_max, uint32_t yield_ns_max);

/* At the start of each wait, and in an engine whenever it found work. Inline: it is on the fast
 * path. */
static inline void waiter_begin(struct waiter *waiter)
{
    waiter->rounds = 0;
    waiter->started_ns = 0;
    waiter->yields_from_ns = 0;
}

/* After each look that found nothing, where a look costs more than one at the clock: system calls,
 * many sessions. */
enum waiter_advice waiter_step_dear(struct waiter *waiter);
enum waiter_advice waiter_step_cheap(struct waiter *waiter); /* called by waiter_step() */

/* After each look that found nothing. The first rounds cost nothing but the look. */
static inline enum waiter_advice waiter_step(struct waiter *waiter)
{
    if (++waiter->rounds < 64)
        return WAITER_AGAIN;
    return waiter_step_cheap(waiter);
}

/* CLOCK_MONOTONIC in ns. */
uint64_t clock_now_ns(void);
