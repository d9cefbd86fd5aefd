/*
 * Layout programs from a hostile peer. Input: one byte, then the program. An odd byte means that
 * the header is made to tell the truth about the operations behind it, so that the fuzzer gets past
 * the check more often than by guessing sums.
 *
 * What is accepted is walked, all of it or the beginning and a piece of the middle, and must be
 * what its header says.
 */
#include <string.h>

#include "proto/layout_internal.h"
#include "tests/fuzz/fuzz.h"

enum { WALK_MAX = 2000 };

static void tell_the_truth(struct layout *layout, size_t bytes)
{
    struct layout_sum sum;
    const char *why;
    size_t behind = bytes - sizeof(*layout);
    layout->magic = LAYOUT_MAGIC;
    layout->version = PROTO_VERSION;
    if ((uint64_t)layout->pair_count * sizeof(struct layout_pair) > behind)
        layout->pair_count = 0;
    layout->op_count = (uint32_t)((behind - layout->pair_count * sizeof(struct layout_pair)) /
                                  sizeof(struct layout_op));
    if (layout_sum(layout->ops, layout->op_count, layout_pairs(layout), layout->pair_count, &sum,
                   &why) < 0)
        return;
    layout->depth = sum.depth;
    layout->size_bytes = sum.size_bytes;
    layout->block_count = sum.block_count;
    layout->lower_bytes = sum.lower_bytes;
    layout->upper_bytes = sum.upper_bytes;
    if (!layout_type_valid(layout)) {
        layout->lb_bytes = layout->marked = 0;
        layout->ub_bytes = 100;
        layout->alignment = 8;
    }
}

/* At most WALK_MAX pieces from a position on, inside the bounds; true when that reached the end. */
static bool walk(const struct layout *layout, uint64_t from, uint64_t max)
{
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t length, at = from;
    layout_cursor_init(&cursor, layout, from);
    for (int i = 0; i < WALK_MAX; i++) {
        if (!layout_cursor_next(&cursor, max, &offset, &length)) {
            FUZZ_REQUIRE(at == layout->size_bytes);
            return true;
        }
        FUZZ_REQUIRE(length > 0 && length <= max && length <= layout->size_bytes - at);
        FUZZ_REQUIRE(offset >= layout->lower_bytes && offset < layout->upper_bytes);
        FUZZ_REQUIRE(length <= (uint64_t)layout->upper_bytes - (uint64_t)offset);
        at += length;
    }
    return false;
}

/* All blocks: number, size and bounds are those of the header. */
static void walk_all(const struct layout *layout)
{
    struct layout_cursor cursor;
    int64_t offset, lower = INT64_MAX, upper = INT64_MIN;
    uint64_t length, blocks = 0, size = 0;
    layout_cursor_init(&cursor, layout, 0);
    for (; layout_cursor_next(&cursor, UINT64_MAX, &offset, &length); blocks++) {
        size += length;
        lower = offset < lower ? offset : lower;
        upper = offset + (int64_t)length > upper ? offset + (int64_t)length : upper;
    }
    FUZZ_REQUIRE(blocks == layout->block_count && size == layout->size_bytes);
    FUZZ_REQUIRE(blocks == 0 || (lower == layout->lower_bytes && upper == layout->upper_bytes));
}

/* Both programs yield the same bytes in the same order. */
static void walk_both(const struct layout *a, const struct layout *b)
{
    struct layout_cursor at_a, at_b;
    int64_t offset_a, offset_b;
    uint64_t length_a, length_b;
    layout_cursor_init(&at_a, a, 0);
    layout_cursor_init(&at_b, b, 0);
    /* b has the larger blocks */
    for (int i = 0; i < WALK_MAX && layout_cursor_next(&at_a, UINT64_MAX, &offset_a, &length_a);
         i++)
        while (length_a > 0) {
            FUZZ_REQUIRE(layout_cursor_next(&at_b, length_a, &offset_b, &length_b));
            FUZZ_REQUIRE(offset_a == offset_b);
            offset_a += (int64_t)length_b;
            length_a -= length_b;
        }
}

/* Blocks of it, far apart and close together: a good program of the right size, if one is
 * possible. */
static void place_blocks(const struct layout *layout)
{
    static const uint64_t lengths[] = {2, 0, 1, 1};
    static const int64_t offsets[] = {0, 7, -1000, 5000};
    struct layout *made;
    if (layout_indexed(&(struct layout_blocks){.count = 4,
                                               .inner = layout,
                                               .lengths = lengths,
                                               .offsets = offsets,
                                               .unit_bytes = 3},
                       &made) < 0)
        return;
    FUZZ_REQUIRE(layout_check(made, layout_bytes(made), NULL) == 0);
    FUZZ_REQUIRE(made->size_bytes == 4 * layout->size_bytes);
    free(made);
}

static void normalise(const struct layout *layout)
{
    struct layout *normal, *twice;
    if (layout_shift(layout, 0, &normal) < 0)
        return;
    FUZZ_REQUIRE(layout_check(normal, layout_bytes(normal), NULL) == 0);
    FUZZ_REQUIRE(normal->size_bytes == layout->size_bytes &&
                 normal->block_count <= layout->block_count);
    FUZZ_REQUIRE(normal->lower_bytes == layout->lower_bytes &&
                 normal->upper_bytes == layout->upper_bytes);
    walk_both(layout, normal);
    if (layout_repeat(normal, 2, layout_extent(layout), &twice) == 0) {
        FUZZ_REQUIRE(layout_check(twice, layout_bytes(twice), NULL) == 0);
        FUZZ_REQUIRE(twice->size_bytes == 2 * layout->size_bytes);
        free(twice);
    }
    place_blocks(normal);
    free(normal);
}

static void use(const struct layout *layout)
{
    char text[40];
    struct layout_strided strided;
    layout_describe(layout, text, sizeof(text));
    FUZZ_REQUIRE(memchr(text, 0, sizeof(text)));
    if (layout_as_strided(layout, &strided))
        FUZZ_REQUIRE(strided.count * strided.block_bytes == layout->size_bytes);
    if (layout->lower_bytes >= 0)
        FUZZ_REQUIRE(layout_fits(layout, 0, (uint64_t)layout->upper_bytes));

    if (layout->block_count <= WALK_MAX)
        walk_all(layout);
    walk(layout, 0, 7);
    walk(layout, layout->size_bytes / 2, UINT64_MAX);
    FUZZ_REQUIRE(walk(layout, layout->size_bytes - layout->size_bytes % 100, 1) ||
                 layout->size_bytes == 0);
    FUZZ_REQUIRE(walk(layout, layout->size_bytes, 1));
    normalise(layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    size_t program_bytes = bytes - 1;
    struct layout *layout = malloc(program_bytes + !program_bytes);
    FUZZ_REQUIRE(layout);
    memcpy(layout, data + 1, program_bytes);
    if ((data[0] & 1) && program_bytes >= sizeof(*layout))
        tell_the_truth(layout, program_bytes);
    if (layout_check(layout, program_bytes, NULL) == 0)
        use(layout);
    free(layout);
    return 0;
}
