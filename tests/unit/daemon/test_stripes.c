/* How a put is divided among rails. */
#include "daemon/plans/stripes.h"

#include <criterion/criterion.h>

enum { MIB = 1 << 20 };

static uint64_t total(const struct stripe *stripes, unsigned count)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += stripes[i].bytes;
    return bytes;
}

Test(stripes, equal_rails_get_equal_shares)
{
    struct stripe stripes[] = {{1000, 1}, {1000, 1}, {1000, 1}, {1000, 1}};
    stripes_divide(stripes, 4, 4 * MIB);
    for (unsigned i = 0; i < 4; i++)
        cr_expect_eq(stripes[i].bytes, MIB);
}

Test(stripes, uncalibrated_rails_get_equal_shares)
{
    struct stripe stripes[] = {{0, 1}, {0, 1}};
    stripes_divide(stripes, 2, 2 * MIB);
    cr_expect_eq(stripes[0].bytes, MIB);
    cr_expect_eq(stripes[1].bytes, MIB);
}

Test(stripes, a_rail_of_three_times_the_rate_gets_three_quarters)
{
    struct stripe stripes[] = {{0, 1}, {0, 3}};
    stripes_divide(stripes, 2, 4 * MIB);
    cr_expect_eq(stripes[0].bytes, MIB);
    cr_expect_eq(stripes[1].bytes, 3 * MIB);
}

Test(stripes, a_late_rail_gets_less)
{
    struct stripe stripes[] = {{0, 1}, {100000, 1}};
    stripes_divide(stripes, 2, 4 * MIB);
    cr_expect_eq(total(stripes, 2), 4 * MIB);
    const double begin = (double)stripes[0].bytes - (double)stripes[1].bytes;
    cr_expect(begin >= 100000 && begin <= 100000 + 2 * STRIPE_ALIGN_BYTES);
}

Test(stripes, an_odd_size_is_all_there)
{
    struct stripe stripes[] = {{10, 1.3}, {20, 2.7}, {30, 0.9}};
    const uint64_t bytes = 7 * MIB + 12345;
    stripes_divide(stripes, 3, bytes);
    cr_expect_eq(total(stripes, 3), bytes);
    for (unsigned i = 0; i < 3; i++)
        cr_expect_geq(stripes[i].bytes, STRIPE_BYTES_MIN);
    cr_expect_eq(stripes[1].bytes % STRIPE_ALIGN_BYTES, 0);
    cr_expect_eq(stripes[2].bytes % STRIPE_ALIGN_BYTES, 0);
}

Test(stripes, a_slow_rail_gets_nothing_and_the_others_share)
{
    struct stripe stripes[] = {{100, 10}, {100, 0.01}, {100, 10}};
    stripes_divide(stripes, 3, 2 * MIB);
    cr_expect_eq(stripes[0].bytes, MIB);
    cr_expect_eq(stripes[1].bytes, 0);
    cr_expect_eq(stripes[2].bytes, MIB);
}

Test(stripes, what_does_not_pay_stays_whole)
{
    struct stripe late[] = {{1000, 10}, {200000, 10}}, small[] = {{0, 1}, {0, 1}};
    stripes_divide(late, 2, MIB);
    cr_expect_eq(late[0].bytes, MIB, "confirming takes longer than the rest of the put");
    stripes_divide(small, 2, STRIPE_BYTES_MIN);
    cr_expect_eq(small[0].bytes, STRIPE_BYTES_MIN, "no share would be long enough");
    cr_expect_eq(small[1].bytes, 0);
    struct stripe alone[] = {{0, 1}};
    stripes_divide(alone, 1, MIB);
    cr_expect_eq(alone[0].bytes, MIB);
}
