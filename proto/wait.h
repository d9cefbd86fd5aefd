/*
 * Adaptive waiting: spin, then yield, then sleep. With a core for every waiter, spinning is best (a
 * wake-up costs 25 us). With more waiters than cores, spinning is ruinous: the thread that has the
 * data cannot run (4 ms). A process cannot know which case applies, but the duration of
 * sched_yield() shows it:
 *   - It returns at once: no other thread wants the core. Spin longer next time.
 *   - It returns after a short time: other waiters share the core. Spin less, in the end not at
 *     all, and keep yielding, which passes the core around within microseconds; each additional
 *     check before a yield delays all other waiters.
 *   - It returns after a long time: another thread computes, and each yield costs one of its time
 *     slices. Sleep, because a wake-up preempts that thread; and sleep in the following waits, too,
 *     until together they have cost as much as the yield.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct waiter {
    /* limits: from TCA_SPIN and TCA_YIELD in clients, from tcad.conf in the engine */
    uint32_t spin_ns_max;
    uint32_t yield_ns_max;
    /* learnt */
    uint32_t spin_ns;       /* 1/64 of the maximum to the maximum; 0: others want this core */
    uint32_t yield_free_ns; /* the shortest yield so far: the cost of an uncontended one */
    long displaced;         /* involuntary context switches when last read */
    uint32_t sleeps_left;   /* further waits that sleep without yielding first */
    /* of the current wait */
    uint32_t rounds;
    uint64_t started_ns;     /* first read of the clock; 0: not yet */
    uint64_t spins_from_ns;  /* the same, or first read after waiter_moved(); 0: not yet */
    uint64_t checked_ns;     /* last WAITER_CHECK */
    uint64_t yields_from_ns; /* end of spinning; 0: still spinning */
    uint64_t yielded_ns;     /* end of the last yield */
    bool shrunk;             /* a yield of this wait handed the core over */
};

enum waiter_advice {
    WAITER_AGAIN, /* check the awaited condition again */
    WAITER_CHECK, /* also check rarer conditions: dead peers, the socket, the time-out */
    WAITER_SLEEP, /* arm, check once more, sleep */
};

/* Pauses for some ten nanoseconds, in favour of the core's other hardware thread. */
static inline void core_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* `yield` does not delay on most cores */
#else
    __asm__ volatile("" ::: "memory");
#endif
}

void waiter_init(struct waiter *waiter, uint32_t spin_ns_max, uint32_t yield_ns_max);

/* Call at the start of each wait, and in an engine after each check that found work. */
static inline void waiter_begin(struct waiter *waiter)
{
    waiter->rounds = 0;
    waiter->started_ns = 0;
    waiter->yields_from_ns = 0;
}

/* Call when a check has found work, though not what is awaited: data is on its way, so that it is
 * worth spinning and yielding again. started_ns stays, for time-outs. */
static inline void waiter_moved(struct waiter *waiter)
{
    waiter->spins_from_ns = 0;
    waiter->yields_from_ns = 0;
}

/* Since the last step. */
static inline bool waiter_has_moved(const struct waiter *waiter)
{
    return waiter->started_ns != 0 && waiter->spins_from_ns == 0;
}

/* Call after each check that found nothing, if a check costs more than reading the clock (system
 * calls, many sessions). */
enum waiter_advice waiter_step_dear(struct waiter *waiter);
enum waiter_advice waiter_step_cheap(struct waiter *waiter); /* internal to waiter_step() */

/* Call after each check that found nothing. The first rounds add no cost to the check. */
static inline enum waiter_advice waiter_step(struct waiter *waiter)
{
    if (++waiter->rounds < 64)
        return WAITER_AGAIN;
    return waiter_step_cheap(waiter);
}

/* CLOCK_MONOTONIC in ns. */
uint64_t clock_now_ns(void);
