#include "proto/wait.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

enum {
    CLOCK_EVERY = 32,       /* rounds of spinning between two looks at the clock */
    CHECK_EVERY_NS = 20000, /* WAITER_CHECK about that often */
    YIELD_FREE_NS = 1000,   /* what a free yield costs, before any was measured */
    YIELD_LONG_NS = 100000, /* a yield that took longer gave the core to somebody who computes */
    WAKE_UP_NS = 25000,     /* about what sleeping costs */
    SLEEPS_MAX = 256,       /* waits without a yield after a long one */
    SPIN_PARTS = 64,        /* one part of so many of the maximum is the least; else none */
};

uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void waiter_init(struct waiter *waiter, uint32_t spin_ns_max, uint32_t yield_ns_max)
{
    *waiter = (struct waiter){
        .spin_ns_max = spin_ns_max,
        .yield_ns_max = yield_ns_max,
        .spin_ns = spin_ns_max,
        .yield_free_ns = YIELD_FREE_NS,
    };
}

static void shrink_spin(struct waiter *waiter)
{
    uint32_t least = waiter->spin_ns_max / SPIN_PARTS;
    if (waiter->shrunk)
        return; /* once a wait */
    waiter->shrunk = true;
    waiter->spin_ns = waiter->spin_ns / 2 > least ? waiter->spin_ns / 2 : 0;
}

static void grow_spin(struct waiter *waiter)
{
    uint32_t least = waiter->spin_ns_max / SPIN_PARTS + 1;
    uint32_t step = waiter->spin_ns > 0 ? waiter->spin_ns / 16 + 1 : least;
    uint32_t room = waiter->spin_ns_max - waiter->spin_ns;
    waiter->spin_ns += step < room ? step : room;
}

/* How often this thread has lost its core without going to sleep. */
static long times_displaced(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) < 0 ? 0 : usage.ru_nivcsw;
}

/* Others were on this core a moment ago: that a slow yield went to them is believed without asking
 * the kernel, which would delay the look at what we wait for. */
static bool shares_core(const struct waiter *waiter)
{
    return waiter->shrunk || (waiter->spin_ns == 0 && waiter->spin_ns_max > 0);
}

/*
 * Did the yield hand the core to somebody? A quick one cannot have. A slow one may only have met an
 * interrupt or the hypervisor (1 in 500 on a quiet virtual machine, and a client that believed each
 * would soon always sleep): the kernel's count tells.
 */
static bool gave_core_away(struct waiter *waiter, uint64_t took_ns)
{
    if (took_ns < waiter->yield_free_ns)
        waiter->yield_free_ns = (uint32_t)took_ns;
    if (took_ns <= 2 * waiter->yield_free_ns + 100)
        return false;
    if (shares_core(waiter))
        return true;
    long displaced = times_displaced();
    bool away = displaced != waiter->displaced;
    waiter->displaced = displaced;
    return away;
}

/* What a yield has shown about who else wants this core. True: no more yields in this wait. */
static bool learn(struct waiter *waiter, uint64_t took_ns, bool first_of_wait)
{
    if (!gave_core_away(waiter, took_ns)) {
        if (first_of_wait)
            grow_spin(waiter);
        return false;
    }
    shrink_spin(waiter);
    if (took_ns <= YIELD_LONG_NS)
        return false;
    /* As many sleeps as cost what this yield did: whatever comes, that is within twice the best. */
    uint64_t sleeps = took_ns / WAKE_UP_NS;
    waiter->sleeps_left = sleeps < SLEEPS_MAX ? (uint32_t)sleeps : SLEEPS_MAX;
    return true;
}

static enum waiter_advice look_again(struct waiter *waiter, uint64_t now_ns)
{
    if (now_ns - waiter->checked_ns < CHECK_EVERY_NS)
        return WAITER_AGAIN;
    waiter->checked_ns = now_ns;
    return WAITER_CHECK;
}

static enum waiter_advice spin_on(struct waiter *waiter, uint64_t now_ns)
{
    core_pause();
    return look_again(waiter, now_ns);
}

static void begin_yields(struct waiter *waiter, uint64_t now_ns)
{
    waiter->yields_from_ns = waiter->yielded_ns = now_ns;
    waiter->shrunk = false;
    if (waiter->sleeps_left > 0) {
        waiter->sleeps_left--;
        waiter->yielded_ns += waiter->yield_ns_max; /* none */
    } else if (!shares_core(waiter)) {
        waiter->displaced = times_displaced();
    }
}

enum waiter_advice waiter_step_dear(struct waiter *waiter)
{
    if (waiter->yields_from_ns == 0) { /* spinning */
        uint64_t now_ns = clock_now_ns();
        if (waiter->started_ns == 0)
            waiter->started_ns = waiter->checked_ns = now_ns;
        if (now_ns - waiter->started_ns < waiter->spin_ns)
            return spin_on(waiter, now_ns);
        begin_yields(waiter, now_ns);
    }

    if (waiter->yielded_ns - waiter->yields_from_ns >= waiter->yield_ns_max)
        return WAITER_SLEEP;
    bool first = waiter->yielded_ns == waiter->yields_from_ns;
    uint64_t before_ns = clock_now_ns();
    sched_yield();
    waiter->yielded_ns = clock_now_ns();
    if (learn(waiter, waiter->yielded_ns - before_ns, first))
        waiter->yielded_ns =
            waiter->yields_from_ns + waiter->yield_ns_max; /* sleep, after one more look */
    return look_again(waiter, waiter->yielded_ns);
}

enum waiter_advice waiter_step_cheap(struct waiter *waiter)
{
    if (waiter->yields_from_ns == 0 && waiter->started_ns != 0 &&
        waiter->rounds % CLOCK_EVERY != 0) {
        core_pause();
        return WAITER_AGAIN;
    }
    return waiter_step_dear(waiter);
}
