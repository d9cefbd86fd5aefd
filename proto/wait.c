#include "proto/wait.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

enum {
    CLOCK_EVERY = 32,       /* spin rounds between two reads of the clock */
    CHECK_EVERY_NS = 20000, /* approximate period of WAITER_CHECK */
    YIELD_FREE_NS = 1000,   /* initial estimate of an uncontended yield */
    YIELD_LONG_NS = 100000, /* a longer yield gave the core to a thread that computes */
    WAKE_UP_NS = 25000,     /* approximate cost of a sleep and a wake-up */
    SLEEPS_MAX = 256,       /* most waits that skip yielding after a long yield */
    SPIN_PARTS = 64,        /* spin_ns is at least 1/64 of the maximum, or 0 */
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
        return; /* at most once per wait */
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

/* The number of involuntary context switches of this thread. */
static long times_displaced(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) < 0 ? 0 : usage.ru_nivcsw;
}

/* Whether other threads have recently run on this core. Then a slow yield is attributed to them
 * without a getrusage() call, which would delay the next check. */
static bool shares_core(const struct waiter *waiter)
{
    return waiter->shrunk || (waiter->spin_ns == 0 && waiter->spin_ns_max > 0);
}

/*
 * Whether the yield handed the core to another thread. A quick yield did not. A slow one may only
 * have been interrupted, or descheduled by the hypervisor (1 in 500 on an idle virtual machine;
 * counting those would soon make a client always sleep), so the kernel's count of context switches
 * decides.
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

/* Adapts the limits to the duration of a yield. True: stop yielding in this wait. */
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
    /* As many sleeps as together cost what this yield did: at most twice the optimum in any
     * case. */
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
        waiter->yielded_ns += waiter->yield_ns_max; /* skip yielding */
    } else if (!shares_core(waiter)) {
        waiter->displaced = times_displaced();
    }
}

enum waiter_advice waiter_step_dear(struct waiter *waiter)
{
    if (waiter->yields_from_ns == 0) { /* spinning */
        uint64_t now_ns = clock_now_ns();
        if (waiter->started_ns == 0)
            waiter->started_ns = waiter->spins_from_ns = waiter->checked_ns = now_ns;
        if (waiter->spins_from_ns == 0)
            waiter->spins_from_ns = now_ns;
        if (now_ns - waiter->spins_from_ns < waiter->spin_ns)
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
            waiter->yields_from_ns + waiter->yield_ns_max; /* sleep after one more check */
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
