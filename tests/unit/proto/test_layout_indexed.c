/* Blocks anywhere. */
#include <errno.h>
#include <stdlib.h>

#include "tests/unit/proto/layouts.h"

static struct layout *indexed(uint64_t count, uint64_t length, const int64_t *offsets)
{
    struct layout *byte = bytes(1), *made;
    cr_assert_eq(layout_indexed(&(struct layout_blocks){.count = count,
                                                        .inner = byte,
                                                        .length = length,
                                                        .offsets = offsets,
                                                        .unit_bytes = 1},
                                &made),
                 0);
    free(byte);
    return made;
}

Test(layout_indexed, regular_blocks_are_a_loop)
{
    int64_t offsets[1000];
    for (int i = 0; i < 1000; i++)
        offsets[i] = 5 + 24 * i;
    expect_text(indexed(1000, 8, offsets), "1000 x 8 B every 24 B from 5 (7.8 KiB)");
    expect_text(indexed(2, 8, offsets), "2 x 8 B every 24 B from 5 (16 B)");
    expect_text(indexed(1000, 24, offsets), "24000 B from 5 (23.4 KiB)");
    expect_text(indexed(1, 8, offsets), "8 B from 5");
    expect_text(indexed(0, 8, offsets), "empty");
}

/* Three anywhere, 500 regular ones, two more. */
Test(layout_indexed, what_is_regular_in_a_list_is_a_loop)
{
    int64_t offsets[505] = {9000, 100, 2000};
    for (int i = 3; i < 503; i++)
        offsets[i] = 10000 + 16 * i;
    offsets[503] = 1;
    offsets[504] = 50000;
    struct layout *l = indexed(505, 8, offsets);
    expect_bounds(l, 505 * 8, 505, 1, 50008, 50007);
    cr_assert_eq(l->op_count, 5); /* list, loop and its block, loop of two and its block */
    cr_assert_eq(l->ops[0].kind, LAYOUT_LIST);
    cr_assert_eq(l->ops[0].count, 3);
    cr_assert_eq(l->ops[1].kind, LAYOUT_LOOP);
    cr_assert_eq(l->ops[1].count, 500);
    cr_assert_eq(l->ops[3].count, 2);
    free(l);
}

Test(layout_indexed, lists_of_equal_blocks_say_so)
{
    static const int64_t offsets[] = {0, 100, 110, 300};
    struct layout *l = indexed(4, 8, offsets);
    cr_assert_eq(l->op_count, 1);
    cr_assert_eq(l->ops[0].each_bytes, 8);
    expect_text(l, "4 blocks of 8 B, 0 to 308");
    static const int64_t touching[] = {0, 100, 108, 300};
    l = indexed(4, 8, touching);
    cr_assert_eq(l->ops[0].each_bytes, 0);
    expect_text(l, "3 blocks, 0 to 308");
}

Test(layout_indexed, a_million_blocks_and_no_more)
{
    const uint64_t most = LAYOUT_OPS_MAX;
    int64_t *offsets = malloc((most + 1) * sizeof(*offsets));
    for (uint64_t i = 0; i <= most; i++)
        offsets[i] = (int64_t)(i * 20 + i * i % 7);
    struct layout *l = indexed(most, 8, offsets), *byte = bytes(8), *none = NULL;
    cr_assert_eq(l->pair_count, most);
    cr_assert_eq(layout_check(l, layout_bytes(l), NULL), 0);
    free(l);
    struct layout_blocks more = {
        .count = most + 1, .inner = byte, .length = 1, .offsets = offsets, .unit_bytes = 1};
    cr_assert_eq(layout_indexed(&more, &none), -E2BIG);
    cr_assert_null(none);
    for (uint64_t i = 0; i <= most; i++)
        offsets[i] = (int64_t)i * 20;
    l = indexed(most + 1, 8, offsets); /* regular ones are not counted */
    cr_assert_eq(l->op_count, 2);
    free(l);
    free(byte);
    free(offsets);
}
