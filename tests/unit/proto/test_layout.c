#include "proto/layout.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/unit/proto/layouts.h"

/* ---- shapes ---- */

Test(layout, contiguous)
{
    struct layout *l = bytes(4096);
    struct layout_strided s;
    expect_bounds(l, 4096, 1, 0, 4096, 4096);
    cr_assert_eq(l->op_count, 1);
    cr_assert(layout_as_strided(l, &s));
    cr_assert(s.count == 1 && s.block_bytes == 4096 && s.offset_bytes == 0);
    free(l);
}

Test(layout, block_stride)
{
    struct layout *l = repeat(bytes(256), 64, 4096);
    struct layout_strided s;
    expect_bounds(l, 64 * 256, 64, 0, 63 * 4096 + 256, 63 * 4096 + 256);
    cr_assert_eq(l->op_count, 2);
    cr_assert(layout_as_strided(l, &s));
    cr_assert(s.count == 64 && s.block_bytes == 256 && s.stride_bytes == 4096 &&
              s.offset_bytes == 0);
    free(l);
}

Test(layout, backwards)
{
    struct layout *l = repeat(bytes(8), 3, -100);
    struct layout_strided s;
    expect_bounds(l, 24, 3, -200, 8, 208);
    cr_assert(layout_as_strided(l, &s));
    cr_assert(s.count == 3 && s.stride_bytes == -100 && s.offset_bytes == 0);
    free(l);
    l = repeat(bytes(8), 3, -8); /* adjacent, but not in packed order: no single block */
    expect_bounds(l, 24, 3, -16, 8, 24);
    free(l);
}

Test(layout, same_place_again)
{
    struct layout *l = repeat(repeat(bytes(8), 3, 0), 5, 0);
    expect_bounds(l, 120, 15, 0, 8, 8);
    cr_assert_eq(l->op_count, 2);
    free(l);
}

Test(layout, the_place_of_a_shift_does_not_matter)
{
    struct layout *inside = repeat(shift(bytes(8), 40), 4, 64),
                  *outside = shift(repeat(bytes(8), 4, 64), 40);
    expect_bounds(inside, 32, 4, 40, 40 + 3 * 64 + 8, 3 * 64 + 8);
    cr_assert_eq(layout_bytes(inside), layout_bytes(outside));
    cr_assert_arr_eq((char *)inside, (char *)outside, layout_bytes(inside));
    free(inside);
    free(outside);
}

Test(layout, empty)
{
    struct layout *empties[] = {bytes(0), repeat(bytes(0), 7, 3), repeat(bytes(8), 0, 64),
                                shift(bytes(0), 99)};
    for (size_t i = 0; i < 4; i++) {
        struct layout_cursor cursor;
        struct layout_strided s;
        int64_t offset;
        uint64_t length;
        expect_bounds(empties[i], 0, 0, 0, 0, 0);
        cr_assert_eq(empties[i]->op_count, 0);
        cr_assert(layout_fits(empties[i], 0, 0));
        layout_cursor_init(&cursor, empties[i], 0);
        cr_assert_not(layout_cursor_next(&cursor, 100, &offset, &length));
        cr_assert(layout_as_strided(empties[i], &s));
        cr_assert_eq(s.count * s.block_bytes, 0);
        expect_text(empties[i], "empty");
    }
}

/* ---- normal form ---- */

Test(layout, normal_form)
{
    expect_text(repeat(bytes(16), 1, 999), "16 B");
    expect_text(repeat(bytes(16), 64, 16), "1024 B (1 KiB)");
    expect_text(repeat(repeat(bytes(16), 4, 16), 8, 64), "512 B");
    expect_text(repeat(repeat(bytes(8), 4, 64), 8, 256), "32 x 8 B every 64 B (256 B)");
    expect_text(repeat(repeat(bytes(8), 4, -64), 8, -256),
                "32 x 8 B every -64 B from -1984 (256 B)");
    expect_text(repeat(repeat(repeat(bytes(8), 2, 64), 3, 128), 4, 384),
                "24 x 8 B every 64 B (192 B)");
    expect_text(repeat(repeat(bytes(8), 4, 64), 8, 255),
                "8 x (4 x 8 B every 64 B) every 255 B (256 B)");
}

Test(layout, seventeen_loops_that_nest_are_one)
{
    struct layout *l = bytes(1);
    for (int i = 0; i < 17; i++)
        l = repeat(l, 2, (int64_t)3 << i);
    expect_text(l, "131072 x 1 B every 3 B (128 KiB)");
}

Test(layout, lists_are_normalised_too)
{
    struct layout *l = shift(with_list(), 0);
    cr_assert_eq(l->pair_count, 2); /* of 3 */
    expect_bounds(l, 29, 5, -20, 1115, 2000);
    expect_text(l, "5 blocks in 3 operations, -20 to 1115 (29 B)");
}

/* A block, an adjacent loop, and a loop of one iteration after that: one block. */
Test(layout, neighbours_merge)
{
    static const struct layout_op ops[] = {
        {.kind = LAYOUT_BLOCK, .count = 10},
        {.kind = LAYOUT_LOOP, .body = 1, .count = 4, .offset_bytes = 8, .stride_bytes = 5},
        {.kind = LAYOUT_BLOCK, .count = 5, .offset_bytes = 2},
        {.kind = LAYOUT_LOOP, .body = 2, .count = 1, .offset_bytes = 30, .stride_bytes = 1},
        {.kind = LAYOUT_BLOCK, .count = 3},
        {.kind = LAYOUT_LIST, .body = 0, .count = 1},
    };
    static const struct layout_pair pair = {3, 4};
    struct layout *l = shift(layout_of_parts(ops, 6, &pair, 1), 0);
    expect_bounds(l, 37, 1, 0, 37, 37);
    expect_text(l, "37 B");
}

Test(layout, dup)
{
    struct layout *l = with_list(), *copy;
    cr_assert_eq(layout_dup(l, &copy), 0);
    cr_assert_arr_eq((char *)l, (char *)copy, layout_bytes(l));
    free(l);
    free(copy);
}

/* ---- signatures ---- */

Test(layout, signatures_do_not_depend_on_how_copies_were_made)
{
    struct layout *l = bytes(8), *typed, *twelve, *again;
    cr_assert_eq(layout_dup(l, &typed), 0);
    typed->signature = 77;
    cr_assert_eq(layout_repeat(typed, 12, 64, &twelve), 0);
    again = shift(repeat(repeat(typed, 3, 8), 4, 100), 5);
    cr_assert_eq(twelve->signature, again->signature);
    free(again);
    again = repeat(l, 12, 64);
    cr_assert_eq(again->signature, 0, "plain bytes stay plain bytes");
    free(again);
    cr_assert_neq(twelve->signature, 77);
    cr_assert_neq(twelve->signature, 0);
    free(twelve);
}

/* ---- limits ---- */

Test(layout, too_large)
{
    struct layout *byte = bytes(1), *far, *none = NULL, *big = bytes(INT64_MAX);
    cr_assert_eq(layout_contiguous((uint64_t)INT64_MAX + 1, &none), -EOVERFLOW);
    cr_assert_eq(layout_repeat(byte, UINT64_MAX, 1, &none), -EOVERFLOW);
    cr_assert_eq(layout_repeat(byte, 3, INT64_MAX / 2 + 1, &none), -EOVERFLOW);
    cr_assert_eq(layout_repeat(byte, 3, INT64_MIN, &none), -EOVERFLOW);
    cr_assert_eq(layout_repeat(big, 3, 0, &none), -EOVERFLOW);
    cr_assert_eq(layout_repeat(big, 2, 1, &none), -EOVERFLOW);
    cr_assert_eq(layout_shift(big, 1, &none), -EOVERFLOW);
    cr_assert_eq(layout_shift(byte, INT64_MAX, &none), -EOVERFLOW);
    cr_assert_eq(layout_shift(byte, INT64_MIN, &far), 0);
    cr_assert_eq(layout_shift(far, -1, &none), -EOVERFLOW);
    cr_assert_null(none, "written on success only");
    free(far);
    far = shift(byte, INT64_MAX - 1);
    expect_bounds(far, 1, 1, INT64_MAX - 1, INT64_MAX, 1);
    free(far);
    free(big);
}

Test(layout, too_deep)
{
    struct layout *l = bytes(1), *none = NULL;
    for (int i = 0; i < LAYOUT_DEPTH_MAX; i++)
        l = repeat(l, 2, 5ll << 2 * i); /* strides that do not nest */
    cr_assert_eq(l->depth, LAYOUT_DEPTH_MAX);
    cr_assert_eq(layout_repeat(l, 2, 1, &none), -E2BIG);
    cr_assert_null(none);
    free(l);
}

Test(layout, fits)
{
    struct layout *l = shift(bytes(10), 5);
    cr_assert(layout_fits(l, 0, 15));
    cr_assert_not(layout_fits(l, 0, 14));
    cr_assert(layout_fits(l, 85, 100));
    cr_assert_not(layout_fits(l, 86, 100));
    cr_assert_not(layout_fits(l, UINT64_MAX, 100));
    cr_assert_not(layout_fits(l, UINT64_MAX - 2, UINT64_MAX));
    l = shift(l, -105); /* -100 to -90 */
    cr_assert_not(layout_fits(l, 99, 1000));
    cr_assert(layout_fits(l, 100, 10));
    cr_assert_not(layout_fits(l, 100, 9));
    cr_assert(layout_fits(l, 1090, 1000));
    cr_assert_not(layout_fits(l, 1091, 1000));
    cr_assert(layout_fits(l, UINT64_MAX, UINT64_MAX));
    l = shift(l, 90); /* -10 to 0 */
    cr_assert(layout_fits(l, 10, 10));
    cr_assert_not(layout_fits(l, 9, 10));
    cr_assert_not(layout_fits(l, 11, 10));
    l = shift(l, 3); /* -7 to 3 */
    cr_assert(layout_fits(l, 7, 10));
    cr_assert_not(layout_fits(l, 6, 100));
    cr_assert_not(layout_fits(l, 8, 10));
    free(l);
    l = shift(bytes(1), INT64_MIN);
    cr_assert(layout_fits(l, 1ull << 63, 1));
    cr_assert_not(layout_fits(l, (1ull << 63) - 1, UINT64_MAX));
    free(l);
}

/* ---- text ---- */

Test(layout, describe)
{
    expect_text(bytes(1000), "1000 B");
    expect_text(shift(bytes(1024), -3), "1024 B from -3 (1 KiB)");
    expect_text(bytes(1536), "1536 B (1.5 KiB)");
    expect_text(repeat(bytes(256), 64, 4096), "64 x 256 B every 4096 B (16 KiB)");
    expect_text(bytes(5ull << 60), "5764607523034234880 B (5 EiB)");

    struct layout *l = repeat(bytes(256), 64, 4096);
    char text[8] = "xxxxxxx";
    layout_describe(l, text, sizeof(text));
    cr_assert_str_eq(text, "64 x 25");
    layout_describe(l, text, 1);
    cr_assert_str_eq(text, "");
    layout_describe(l, NULL, 0);
    free(l);
}
