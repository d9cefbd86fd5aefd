/* Which of the times of a cache line the calibration takes. */
#include <criterion/criterion.h>

#include "daemon/rails/calibrate.h"
#include "tests/unit/proto/random.h"

enum { ROUNDS = 2000, LINE_NS = 60, QUANTILE = ROUNDS / 100 };

/* Rounds in random order: `shorter` below the line's time, `whole` of it, and the others
 * disturbed. */
static double taken(size_t shorter, size_t whole)
{
    struct random random = {random_seed()};
    int64_t ns[ROUNDS];

    for (size_t i = 0; i < ROUNDS; i++)
        ns[i] = i < shorter           ? (int64_t)random_below(&random, LINE_NS)
                : i < shorter + whole ? LINE_NS
                                      : LINE_NS + 1 + (int64_t)random_below(&random, 1000000);
    for (size_t i = ROUNDS; i-- > 1;) {
        size_t other = random_below(&random, i + 1);
        int64_t kept = ns[i];
        ns[i] = ns[other];
        ns[other] = kept;
    }
    return calibrate_undisturbed_ns(ns, ROUNDS);
}

Test(calibrate_line, most_rounds_are_disturbed)
{
    cr_assert_eq(taken(0, ROUNDS), LINE_NS);
    cr_assert_eq(taken(0, ROUNDS / 2), LINE_NS);
    cr_assert_eq(taken(0, QUANTILE + 1), LINE_NS);
    cr_assert_gt(taken(0, QUANTILE), LINE_NS);
}

Test(calibrate_line, the_clock_makes_some_short)
{
    cr_assert_eq(taken(1, ROUNDS / 2), LINE_NS);
    cr_assert_eq(taken(QUANTILE, ROUNDS / 2), LINE_NS);
    cr_assert_lt(taken(QUANTILE + 1, ROUNDS / 2), LINE_NS);
}

Test(calibrate_line, few_rounds)
{
    int64_t one[] = {70}, some[] = {90, 70, 80};

    cr_assert_eq(calibrate_undisturbed_ns(one, 1), 70);
    cr_assert_eq(calibrate_undisturbed_ns(some, 3), 70);
    cr_assert_gt(calibrate_undisturbed_ns(some, 0), 0);
}

/* On one processor, threads always take turns. */
Test(calibrate_line, no_two_threads_ran_at_the_same_time)
{
    cr_assert_eq(calibrate_way_ns(LINE_NS, 2), LINE_NS);
    cr_assert_eq(calibrate_way_ns(14000, 1), 14000);
    cr_assert_lt(calibrate_way_ns(14000, 2), 1000);
}

Test(calibrate_line, this_machine)
{
    cr_assert_gt(calibrate_line_ns(), 0);
}
