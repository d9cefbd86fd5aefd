/* Tests the policy, not its times, which depend on the machine's load. */
#include "proto/wait.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Steps until the advice is given. How many came before it, or -1 for more than `most`. */
static long steps_until(struct waiter *waiter, enum waiter_advice advice, long most)
{
    for (long steps = 0; steps <= most; steps++)
        if (waiter_step(waiter) == advice)
            return steps;
    return -1;
}

Test(wait, the_clock_runs)
{
    uint64_t before = clock_now_ns(), after;
    while ((after = clock_now_ns()) == before)
        ;
    cr_assert_gt(after, before);
}

Test(wait, neither_spin_nor_yield)
{
    struct waiter waiter;
    waiter_init(&waiter, 0, 0);
    for (int i = 0; i < 3; i++) {
        waiter_begin(&waiter);
        cr_assert_eq(steps_until(&waiter, WAITER_SLEEP, 1000), 63);
        cr_assert_eq(waiter_step(&waiter), WAITER_SLEEP, "and still so");
    }
}

Test(wait, spin_only)
{
    struct waiter waiter;
    waiter_init(&waiter, 50000000,
                0); /* longer than this process may be preempted in the first rounds */
    waiter_begin(&waiter);
    cr_assert_gt(steps_until(&waiter, WAITER_CHECK, 10000000), 63);
    cr_assert_gt(steps_until(&waiter, WAITER_SLEEP, 10000000), 0);
    cr_assert_eq(waiter.spin_ns, 50000000, "nothing was learnt without a yield");
}

Test(wait, a_long_spin_does_not_sleep)
{
    struct waiter waiter;
    waiter_init(&waiter, UINT32_MAX, 0);
    waiter_begin(&waiter);
    cr_assert_eq(steps_until(&waiter, WAITER_SLEEP, 100000), -1);
}

Test(wait, yield_only)
{
    struct waiter waiter;
    waiter_init(&waiter, 0, 200000);
    waiter_begin(&waiter);
    cr_assert_geq(steps_until(&waiter, WAITER_CHECK, 10000000), 63);
    cr_assert_geq(steps_until(&waiter, WAITER_SLEEP, 10000000), 0);
    cr_assert_eq(waiter.spin_ns, 0);
}

Test(wait, learns_within_its_limits)
{
    struct waiter waiter;
    waiter_init(&waiter, 6400, 100000);
    for (int i = 0; i < 200; i++) {
        waiter_begin(&waiter);
        cr_assert_neq(steps_until(&waiter, WAITER_SLEEP, 10000000), -1);
        cr_assert(waiter.spin_ns == 0 || (waiter.spin_ns >= 100 && waiter.spin_ns <= 6400), "%u",
                  waiter.spin_ns);
    }
}

Test(wait, each_wait_begins_anew)
{
    struct waiter waiter;
    waiter_init(&waiter, 1000, 1000);
    waiter_begin(&waiter);
    cr_assert_neq(steps_until(&waiter, WAITER_SLEEP, 10000000), -1);
    waiter_begin(&waiter);
    for (int i = 0; i < 63; i++)
        cr_assert_eq(waiter_step(&waiter), WAITER_AGAIN);
}

Test(wait, spins_again_after_something_moved)
{
    struct waiter waiter;
    waiter_init(&waiter, 1000, 0);
    waiter_begin(&waiter);
    cr_assert_neq(steps_until(&waiter, WAITER_SLEEP, 10000000), -1);
    const uint64_t started_ns = waiter.started_ns;
    waiter.spin_ns_max = waiter.spin_ns = UINT32_MAX;
    cr_assert_eq(waiter_step(&waiter), WAITER_SLEEP, "nothing has moved");
    cr_assert(!waiter_has_moved(&waiter));
    waiter_moved(&waiter);
    cr_assert(waiter_has_moved(&waiter));
    cr_assert_eq(steps_until(&waiter, WAITER_SLEEP, 100000), -1);
    cr_assert(!waiter_has_moved(&waiter), "it has stepped");
    cr_assert_eq(waiter.started_ns, started_ns, "time-outs count from there");
    waiter_begin(&waiter);
    cr_assert(!waiter_has_moved(&waiter));
}

/* Binds this process to one core and starts another there that computes or yields for ever. */
static pid_t share_processor(bool yields)
{
    cpu_set_t all, one;
    cr_assert_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    pid_t other = fork();
    cr_assert_geq(other, 0);
    if (other == 0)
        for (volatile long turns = 0;; turns++)
            if (yields)
                sched_yield();
    return other;
}

static void end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

Test(wait, who_shares_its_core_spins_no_more)
{
    struct waiter waiter;
    waiter_init(&waiter, 6400, 100000000);
    pid_t other = share_processor(true);
    for (int i = 0; i < 100000 && waiter.spin_ns > 0; i++) {
        waiter_begin(&waiter);
        for (int step = 0; step < 200; step++)
            waiter_step_dear(&waiter);
    }
    end_process(other);
    cr_assert_eq(waiter.spin_ns, 0);
}

Test(wait, who_has_its_core_back_spins_again)
{
    struct waiter waiter;
    waiter_init(&waiter, 6400, 100000);
    waiter.spin_ns = 0;
    for (int i = 0; i < 100000 && waiter.spin_ns == 0; i++) {
        waiter_begin(&waiter);
        cr_assert_neq(steps_until(&waiter, WAITER_SLEEP, 10000000), -1);
    }
    cr_assert_geq(waiter.spin_ns, 100);
}

Test(wait, beside_one_that_computes_it_sleeps)
{
    struct waiter waiter;
    waiter_init(&waiter, 6400, 1000000000);
    pid_t other = share_processor(false);
    for (int i = 0; i < 1000 && waiter.sleeps_left == 0; i++) {
        waiter_begin(&waiter);
        cr_assert_neq(steps_until(&waiter, WAITER_SLEEP, 100000000), -1);
    }
    end_process(other);
    uint32_t sleeps = waiter.sleeps_left;
    cr_assert_gt(sleeps, 0);
    waiter_begin(&waiter);
    cr_assert_neq(steps_until(&waiter, WAITER_SLEEP, 10000000), -1);
    cr_assert_eq(waiter.sleeps_left, sleeps - 1, "without a yield that costs a slice");
}
