#include <criterion/criterion.h>
#include <errno.h>

#include "client/include/tca.h"

Test(layout, sizes_and_bounds)
{
    struct tca_layout *row, *plane, *down, *moved;
    int64_t lower, upper;
    cr_assert_eq(tca_layout_strided(4, 8, 32, &row), 0);
    cr_assert_eq(tca_layout_size(row), 32);
    tca_layout_bounds(row, &lower, &upper);
    cr_assert_eq(lower, 0);
    cr_assert_eq(upper, 104);
    cr_assert_eq(tca_layout_repeat(row, 3, 1024, &plane), 0);
    cr_assert_eq(tca_layout_size(plane), 96);
    tca_layout_bounds(plane, &lower, &upper);
    cr_assert_eq(upper, 2048 + 104);
    cr_assert_eq(tca_layout_strided(4, 8, -32, &down), 0);
    tca_layout_bounds(down, &lower, &upper);
    cr_assert_eq(lower, -96);
    cr_assert_eq(upper, 8);
    cr_assert_eq(tca_layout_shift(down, 96, &moved), 0);
    tca_layout_bounds(moved, &lower, &upper);
    cr_assert_eq(lower, 0);
    cr_assert_eq(upper, 104);
    cr_assert_null(tca_layout_free(row));
    cr_assert_null(tca_layout_free(plane));
    cr_assert_null(tca_layout_free(down));
    cr_assert_null(tca_layout_free(moved));
    cr_assert_null(tca_layout_free(NULL));
}

Test(layout, what_does_not_fit_is_refused)
{
    struct tca_layout *layout = NULL, *big;
    cr_assert_eq(tca_layout_strided(UINT64_MAX, 8, 8, &layout), -EOVERFLOW);
    cr_assert_neq(tca_error_text()[0], 0);
    cr_assert_eq(tca_layout_contiguous(1ull << 62, &big), 0);
    cr_assert_eq(tca_layout_shift(big, INT64_MAX, &layout), -EOVERFLOW);
    cr_assert_null(layout);
    tca_layout_free(big);
}
