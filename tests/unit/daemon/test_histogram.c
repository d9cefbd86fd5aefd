#include <criterion/criterion.h>

#include "daemon/engine/engine.h"

static void expect_near(uint64_t got, uint64_t wanted)
{
    /* four buckets per octave: accurate to an eighth of an octave, and a little */
    cr_assert(got >= wanted * 3 / 4 && got <= wanted * 5 / 4 + 1, "%lu instead of about %lu", got,
              wanted);
}

Test(histogram, empty)
{
    struct engine_histogram histogram = {0};
    cr_assert_eq(engine_histogram_quantile(&histogram, 0.5), 0);
}

Test(histogram, quantiles)
{
    struct engine_histogram histogram = {0};
    for (uint64_t i = 1; i <= 10000; i++)
        engine_histogram_add(&histogram, i * 100);
    expect_near(engine_histogram_quantile(&histogram, 0.5), 500000);
    expect_near(engine_histogram_quantile(&histogram, 0.99), 990000);
    expect_near(engine_histogram_quantile(&histogram, 0.01), 10000);
}

Test(histogram, every_magnitude)
{
    for (int log = 2; log < 39; log++) {
        struct engine_histogram histogram = {0};
        engine_histogram_add(&histogram, 1ull << log);
        expect_near(engine_histogram_quantile(&histogram, 1), 1ull << log);
    }
}

Test(histogram, the_largest_values_stay_inside)
{
    struct engine_histogram histogram = {0};
    engine_histogram_add(&histogram, UINT64_MAX);
    engine_histogram_add(&histogram, 0);
    cr_assert(engine_histogram_quantile(&histogram, 1) > 1ull << 38);
}
