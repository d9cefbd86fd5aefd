/* What tca-bench reports, from times. */
#include <criterion/criterion.h>

#include "tools/tca-bench/work.h"

/* All of it, half of it, none of it, and worse than one after the other. */
Test(work, hidden_share)
{
    cr_expect_eq(hidden_share(1000, 4000, 4000), 1.0);
    cr_expect_eq(hidden_share(1000, 4000, 4500), 0.5);
    cr_expect_eq(hidden_share(1000, 4000, 5000), 0.0);
    cr_expect_eq(hidden_share(1000, 4000, 5500), -0.5);
}

/* A transfer that takes longer than the computing is hidden as far as that goes. */
Test(work, hidden_share_of_a_long_transfer)
{
    cr_expect_eq(hidden_share(4000, 1000, 4000), 0.25);
    cr_expect_eq(hidden_share(4000, 1000, 5000), 0.0);
}

Test(work, medians)
{
    uint64_t times[] = {30, 10, 1000};
    double shares[] = {0.9, -0.5, 1.0, 0.95, 0.9};

    cr_expect_eq(median_of(times, 3), 30);
    cr_expect_eq(median_of_doubles(shares, 5), 0.9);
}
