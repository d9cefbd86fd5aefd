#include <stdlib.h>

#include "tests/unit/proto/layouts.h"

Test(layout_cursor, walks_a_list)
{
    static const struct layout_pair expected[] = {
        {1005, 4}, {1009, 6}, {955, 1}, {1105, 4}, {1109, 6}, {1055, 1}, {-20, 7},
    };
    struct layout *l = with_list();
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t length;
    layout_cursor_init(&cursor, l, 0);
    for (size_t i = 0; i < 7; i++) {
        cr_assert(layout_cursor_next(&cursor, 100, &offset, &length));
        cr_assert_eq(offset, expected[i].offset_bytes);
        cr_assert_eq(length, expected[i].length_bytes);
    }
    cr_assert_not(layout_cursor_next(&cursor, 100, &offset, &length));
    layout_cursor_init(&cursor, l, 15); /* into the middle of the fifth */
    cr_assert(layout_cursor_next(&cursor, 2, &offset, &length));
    cr_assert(offset == 1109 && length == 2);
    cr_assert(layout_cursor_next(&cursor, 100, &offset, &length));
    cr_assert(offset == 1111 && length == 4);
    free(l);
}

/* 2^60 blocks: counting them one by one would never end. */
Test(layout_cursor, seeks_by_division)
{
    struct layout *l = repeat(repeat(bytes(2), 1ull << 30, 4), 1ull << 30, 5ll << 30);
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t length, iteration = 123456789, block = 987654321;
    layout_cursor_init(&cursor, l, (iteration << 31) + 2 * block + 1);
    cr_assert(layout_cursor_next(&cursor, 100, &offset, &length));
    cr_assert_eq(offset, (int64_t)(iteration * (5ull << 30) + 4 * block + 1));
    cr_assert_eq(length, 1);
    layout_cursor_init(&cursor, l, l->size_bytes);
    cr_assert_not(layout_cursor_next(&cursor, 100, &offset, &length));
    free(l);
}
