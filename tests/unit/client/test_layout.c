#include <criterion/criterion.h>
#include <errno.h>

#include <string.h>

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

/* After a call that failed, and whose result was ignored. */
Test(layout, of_a_layout_that_was_not_made_is_refused)
{
    struct tca_layout *inner = NULL, *made = NULL;
    const struct tca_layout *inners[] = {NULL};
    const uint64_t one[] = {1}, none[] = {0};
    const int64_t at[] = {0};
    cr_assert_eq(tca_layout_contiguous(UINT64_MAX, &inner), -EOVERFLOW);
    const int results[] = {
        tca_layout_array(inner, 2, &made),
        tca_layout_repeat(inner, 2, 8, &made),
        tca_layout_vector(inner, 2, 1, 8, &made),
        tca_layout_hvector(inner, 2, 1, 8, &made),
        tca_layout_indexed(inner, 1, one, at, &made),
        tca_layout_hindexed(inner, 1, one, at, &made),
        tca_layout_indexed_block(inner, 1, 1, at, &made),
        tca_layout_hindexed_block(inner, 1, 1, at, &made),
        tca_layout_struct(1, inners, one, at, &made),
        tca_layout_subarray(inner, 1, one, one, none, TCA_ORDER_C, &made),
        tca_layout_resized(inner, 0, 8, &made),
        tca_layout_shift(inner, 8, &made),
        tca_layout_dup(inner, &made),
    };
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        cr_expect_eq(results[i], -EINVAL, "%zu", i);
    cr_expect_not_null(strstr(tca_error_text(), "inner layout is NULL"), "%s", tca_error_text());
    cr_assert_null(made);
}

/* ---- types ---- */

static struct tca_layout *element(enum tca_type type)
{
    struct tca_layout *made;
    cr_assert_eq(tca_layout_element(type, &made), 0);
    return made;
}

static void expect(struct tca_layout *layout, const char *expected)
{
    char text[300];
    tca_layout_describe(layout, text, sizeof(text));
    cr_assert_str_eq(text, expected);
    tca_layout_free(layout);
}

Test(layout, types_are_described)
{
    struct tca_layout *number = element(TCA_TYPE_INT32), *real = element(TCA_TYPE_DOUBLE), *made,
                      *twice, *bytes;
    const struct tca_layout *parts[] = {number, real, real};
    static const uint64_t lengths[] = {1, 3, 1};
    static const int64_t offsets[] = {0, 8, 40};
    cr_assert_eq(tca_layout_vector(real, 64, 32, 512, &made), 0);
    expect(made, "64 x 256 B every 4096 B (16 KiB): 2048 x double");
    cr_assert_eq(tca_layout_struct(3, parts, lengths, offsets, &made), 0);
    cr_assert_eq(tca_layout_array(made, 5, &twice), 0);
    expect(made, "3 blocks, 0 to 48: 1 x int32, 4 x double");
    parts[0] = twice;
    cr_assert_eq(tca_layout_struct(2, parts, lengths, offsets, &made), 0);
    expect(made,
           "12 blocks in 3 operations, 0 to 240 (204 B): 5 x (1 x int32, 4 x double), 3 x double");
    tca_layout_free(twice);
    cr_assert_eq(tca_layout_contiguous(100, &bytes), 0);
    expect(bytes, "100 B");
    cr_assert_eq(tca_layout_element((enum tca_type)99, &made), -EINVAL);
    cr_assert_eq(tca_layout_element((enum tca_type) - 1, &made), -EINVAL);
    tca_layout_free(number);
    tca_layout_free(real);
}

Test(layout, long_types_are_cut)
{
    struct tca_layout *number = element(TCA_TYPE_INT32), *real = element(TCA_TYPE_FLOAT), *made;
    const struct tca_layout *parts[100];
    uint64_t lengths[100];
    int64_t offsets[100];
    char text[300];
    for (int i = 0; i < 100; i++) {
        parts[i] = i % 2 ? number : real;
        lengths[i] = 1 + (uint64_t)i;
        offsets[i] = 1000 * i;
    }
    cr_assert_eq(tca_layout_struct(100, parts, lengths, offsets, &made), 0);
    tca_layout_describe(made, text, sizeof(text));
    cr_assert_not_null(strstr(text, ": 1 x float, 2 x int32, "));
    cr_assert_not_null(strstr(text, "..."));
    tca_layout_free(made);
    tca_layout_free(number);
    tca_layout_free(real);
}

Test(layout, boxes_must_lie_inside)
{
    static const uint64_t sizes[] = {10, 20}, subsizes[] = {5, 5}, starts[] = {6, 0};
    struct tca_layout *real = element(TCA_TYPE_DOUBLE), *made = NULL;
    cr_assert_eq(tca_layout_subarray(real, 2, sizes, subsizes, starts, TCA_ORDER_C, &made),
                 -EINVAL);
    cr_assert_not_null(strstr(tca_error_text(), "dimension 0"));
    cr_assert_eq(tca_layout_subarray(real, 0, sizes, subsizes, starts, TCA_ORDER_C, &made),
                 -EINVAL);
    cr_assert_eq(tca_layout_subarray(real, 2, sizes, subsizes, starts, (enum tca_order)7, &made),
                 -EINVAL);
    cr_assert_null(made);
    tca_layout_free(real);
}

Test(layout, buffers_that_are_too_short)
{
    struct tca_layout *real = element(TCA_TYPE_DOUBLE);
    double value = 3.5, back = 0;
    uint8_t buffer[20];
    uint64_t position = 13;
    cr_assert_eq(tca_pack(real, &value, buffer, sizeof(buffer), &position), -ENOSPC);
    cr_assert_eq(position, 13);
    position = UINT64_MAX;
    cr_assert_eq(tca_unpack(real, &back, buffer, sizeof(buffer), &position), -ENOSPC);
    position = 12;
    cr_assert_eq(tca_pack(real, &value, buffer, sizeof(buffer), &position), 0);
    cr_assert_eq(position, 20);
    position = 12;
    cr_assert_eq(tca_unpack(real, &back, buffer, sizeof(buffer), &position), 0);
    cr_assert_eq(back, value);
    tca_layout_free(real);
}
