/* Shorthands for tests of layouts. They free the layouts passed to them. */
#pragma once

#include <criterion/criterion.h>

#include "tests/unit/proto/layout_parts.h"

static inline struct layout *bytes(uint64_t count)
{
    struct layout *made;
    cr_assert_eq(layout_contiguous(count, &made), 0);
    return made;
}

static inline struct layout *repeat(struct layout *inner, uint64_t count, int64_t stride)
{
    struct layout *made;
    cr_assert_eq(layout_repeat(inner, count, stride, &made), 0);
    free(inner);
    return made;
}

static inline struct layout *shift(struct layout *inner, int64_t offset)
{
    struct layout *made;
    cr_assert_eq(layout_shift(inner, offset, &made), 0);
    free(inner);
    return made;
}

static inline void expect_bounds(const struct layout *layout, uint64_t size, uint64_t blocks,
                                 int64_t lower, int64_t upper, int64_t extent)
{
    const char *why = "";
    cr_assert_eq(layout_check(layout, layout_bytes(layout), &why), 0, "%s", why);
    cr_assert_eq(layout->size_bytes, size);
    cr_assert_eq(layout->block_count, blocks);
    cr_assert_eq(layout->lower_bytes, lower);
    cr_assert_eq(layout->upper_bytes, upper);
    cr_assert_eq(layout_extent(layout), extent);
}

static inline void expect_text(struct layout *layout, const char *expected)
{
    char text[200];
    layout_describe(layout, text, sizeof(text));
    cr_assert_str_eq(text, expected);
    free(layout);
}

/* Three pieces of a list, two of them adjacent, twice; then one block. */
static inline struct layout *with_list(void)
{
    static const struct layout_op ops[] = {
        {.kind = LAYOUT_LOOP, .body = 1, .count = 2, .offset_bytes = 1000, .stride_bytes = 100},
        {.kind = LAYOUT_LIST, .body = 0, .count = 3, .offset_bytes = 5},
        {.kind = LAYOUT_BLOCK, .count = 7, .offset_bytes = -20},
    };
    static const struct layout_pair pairs[] = {{0, 4}, {4, 6}, {-50, 1}};
    struct layout *made = layout_of_parts(ops, 3, pairs, 3);
    cr_assert(made);
    made->lb_bytes = 0;
    made->ub_bytes = 2000;
    return made;
}
