/* Hostile programs: refused, quickly, with a reason. */
#include "proto/layout.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { OPS_MAX = 20, PAIRS_MAX = 3 };

struct program {
    struct layout header;
    struct layout_op ops[OPS_MAX];
    struct layout_pair pairs[PAIRS_MAX];
};

/* The parts in sequence, as on the wire. */
static struct layout *lay_out(const struct program *p, size_t *ret_bytes)
{
    size_t ops = p->header.op_count * sizeof(*p->ops),
           pairs = p->header.pair_count * sizeof(*p->pairs);
    char *data = malloc(sizeof(p->header) + ops + pairs);
    memcpy(data, &p->header, sizeof(p->header));
    memcpy(data + sizeof(p->header), p->ops, ops);
    memcpy(data + sizeof(p->header) + ops, p->pairs, pairs);
    *ret_bytes = sizeof(p->header) + ops + pairs;
    return (struct layout *)data;
}

static int check(const struct program *p, const char **ret_why)
{
    size_t bytes;
    struct layout *data = lay_out(p, &bytes);
    int r = layout_check(data, bytes, ret_why);
    free(data);
    return r;
}

static void expect(const struct program *p, int expected, const char *expected_why)
{
    const char *why = "nothing";
    int r = check(p, &why);
    cr_assert_eq(r, expected, "%d, but %d was expected: %s", r, expected, why);
    cr_assert_not_null(strstr(why, expected_why), "\"%s\" instead of \"%s\"", why, expected_why);
}

#define HEADER(...)                                                                                \
    .header = {.magic = LAYOUT_MAGIC, .version = PROTO_VERSION, .alignment = 1, __VA_ARGS__}
#define BLOCK(bytes, offset)                                                                       \
    {                                                                                              \
        .kind = LAYOUT_BLOCK, .count = (bytes), .offset_bytes = (offset)                           \
    }
#define LOOP(n, count_, stride)                                                                    \
    {                                                                                              \
        .kind = LAYOUT_LOOP, .body = (n), .count = (count_), .stride_bytes = (stride)              \
    }
#define LIST(first, n)                                                                             \
    {                                                                                              \
        .kind = LAYOUT_LIST, .body = (first), .count = (n)                                         \
    }

/* 4 x (2 x 8 B, and three pairs). */
static const struct program good = {
    HEADER(.depth = 2, .op_count = 4, .pair_count = 3, .size_bytes = 4 * 22, .block_count = 20,
           .lower_bytes = -5, .upper_bytes = 3 * 1000 + 108, .ub_bytes = 4000),
    .ops = {LOOP(3, 4, 1000), LOOP(1, 2, 100), BLOCK(8, 0), LIST(0, 3)},
    .pairs = {{20, 1}, {30, 2}, {-5, 3}},
};

Test(layout_check, good)
{
    const char *why = "nothing";
    cr_assert_eq(check(&good, &why), 0, "%s", why);
    cr_assert_str_eq(why, "nothing");
}

Test(layout_check, every_length_but_the_right_one)
{
    size_t bytes;
    struct layout *data = lay_out(&good, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        struct layout *part = malloc(n ? n : 1); /* so that ASan detects reads beyond its end */
        memcpy(part, data, n);
        cr_assert_eq(layout_check(part, n, NULL), -EINVAL, "%zu bytes", n);
        free(part);
    }
    struct layout *longer = calloc(1, bytes + 16);
    memcpy(longer, data, bytes);
    cr_assert_eq(layout_check(longer, bytes + 1, NULL), -EINVAL);
    cr_assert_eq(layout_check(longer, bytes + 16, NULL), -EINVAL);
    cr_assert_eq(layout_check((char *)longer + 1, bytes, NULL), -EINVAL);
    free(longer);
    free(data);
}

/* Every bit is checked, except those of the type's bounds (unless they overflow) and the signature,
 * which a program may choose freely. */
Test(layout_check, every_bit)
{
    size_t bytes;
    struct layout *data = lay_out(&good, &bytes);
    for (size_t i = 0; i < bytes; i++) {
        bool free_choice = i >= offsetof(struct layout, lb_bytes) && i < sizeof(*data);
        for (int bit = 0; bit < 8; bit++) {
            ((uint8_t *)data)[i] ^= (uint8_t)(1 << bit);
            int r = layout_check(data, bytes, NULL);
            /* changing an offset inside the bounds makes another valid program */
            bool place = i >= sizeof(*data) && r == 0;
            cr_assert(free_choice || r < 0 || place, "byte %zu bit %d", i, bit);
            ((uint8_t *)data)[i] ^= (uint8_t)(1 << bit);
        }
    }
    cr_assert_eq(layout_check(data, bytes, NULL), 0);
    free(data);
}

#define CHANGED(field, value, error, why)                                                          \
    do {                                                                                           \
        struct program p = good;                                                                   \
        p.field = (value);                                                                         \
        expect(&p, error, why);                                                                    \
    } while (0)

Test(layout_check, header)
{
    CHANGED(header.magic, 0, -EINVAL, "not a layout program");
    CHANGED(header.version, PROTO_VERSION + 1, -EPROTO, "another protocol version");
    CHANGED(header.depth, 1, -EINVAL, "depth");
    CHANGED(header.depth, 3, -EINVAL, "depth");
    CHANGED(header.size_bytes, 87, -EINVAL, "size");
    CHANGED(header.block_count, 21, -EINVAL, "blocks");
    CHANGED(header.lower_bytes, -4, -EINVAL, "bounds");
    CHANGED(header.lower_bytes, -6, -EINVAL, "bounds");
    CHANGED(header.upper_bytes, 3107, -EINVAL, "bounds");
    CHANGED(header.upper_bytes, INT64_MAX, -EINVAL, "bounds");
    CHANGED(header.alignment, 0, -EINVAL, "alignment");
    CHANGED(header.alignment, 3, -EINVAL, "alignment");
    CHANGED(header.alignment, 32, -EINVAL, "alignment");
    CHANGED(header.marked, 2, -EINVAL, "alignment");
    CHANGED(header.lb_bytes, INT64_MIN, -EINVAL, "alignment");
    CHANGED(header.ub_bytes, -1, -EINVAL, "alignment");
}

Test(layout_check, counts_that_the_data_cannot_have)
{
    struct layout header = good.header;
    header.op_count = LAYOUT_OPS_MAX + 1;
    cr_assert_eq(layout_check(&header, sizeof(header), NULL), -E2BIG);
    header.op_count = UINT32_MAX;
    header.pair_count = UINT32_MAX;
    cr_assert_eq(layout_check(&header, sizeof(header), NULL), -E2BIG);
    header.op_count = LAYOUT_OPS_MAX;
    header.pair_count = LAYOUT_OPS_MAX;
    cr_assert_eq(layout_check(&header, sizeof(header), NULL), -EINVAL);
}

Test(layout_check, operations)
{
    CHANGED(ops[0].kind, 0, -EINVAL, "unknown kind");
    CHANGED(ops[2].kind, 4, -EINVAL, "unknown kind");
    CHANGED(ops[0].body, 0, -EINVAL, "body");
    CHANGED(ops[0].body, 4, -EINVAL, "body");
    CHANGED(ops[0].body, UINT32_MAX, -EINVAL, "body");
    CHANGED(ops[1].body, 3, -EINVAL, "body");
    CHANGED(ops[1].body, 2, -EINVAL, "size"); /* a valid but different program */
    CHANGED(ops[0].count, 0, -EINVAL, "count of zero");
    CHANGED(ops[2].count, 0, -EINVAL, "count of zero");
    CHANGED(ops[3].count, 0, -EINVAL, "count of zero");
    CHANGED(ops[2].body, 1, -EINVAL, "block has a body");
    CHANGED(ops[2].stride_bytes, 1, -EINVAL, "stride");
}

Test(layout_check, lists)
{
    CHANGED(ops[3].body, 1, -EINVAL, "next pairs");
    CHANGED(ops[3].count, 4, -EINVAL, "next pairs");
    CHANGED(ops[3].count, UINT64_MAX, -EINVAL, "next pairs");
    CHANGED(ops[3].count, 2, -EINVAL, "no list uses");
    CHANGED(ops[3].each_bytes, 1, -EINVAL, "another length");
    CHANGED(pairs[1].length_bytes, 0, -EINVAL, "empty block");
    CHANGED(pairs[1].length_bytes, UINT64_MAX, -EINVAL, "overflow");
    CHANGED(pairs[1].offset_bytes, INT64_MAX, -EINVAL, "overflow");
    CHANGED(ops[3].offset_bytes, INT64_MIN, -EINVAL, "overflow");

    /* two lists that share their pairs would make checking quadratic */
    struct program shared = {
        HEADER(.op_count = 2, .pair_count = 2, .size_bytes = 8, .block_count = 4),
        .ops = {LIST(0, 2), LIST(0, 2)}, .pairs = {{0, 2}, {8, 2}}};
    expect(&shared, -EINVAL, "next pairs");
}

Test(layout_check, overflows)
{
    CHANGED(ops[2].count, UINT64_MAX, -EINVAL, "overflow");
    CHANGED(ops[2].count, (uint64_t)INT64_MAX + 1, -EINVAL, "overflow");
    CHANGED(ops[2].offset_bytes, INT64_MAX - 7, -EINVAL, "overflow");
    CHANGED(ops[0].count, UINT64_MAX, -EINVAL, "overflow");
    CHANGED(ops[0].count, 1ull << 63, -EINVAL, "overflow");
    CHANGED(ops[0].stride_bytes, INT64_MAX, -EINVAL, "overflow");
    CHANGED(ops[0].stride_bytes, INT64_MIN, -EINVAL, "overflow");
    CHANGED(ops[0].offset_bytes, INT64_MIN, -EINVAL, "overflow");
    CHANGED(ops[1].offset_bytes, INT64_MAX, -EINVAL, "overflow");

    /* one block over the whole address space: its length is not a signed distance */
    struct program whole = {HEADER(.op_count = 1, .size_bytes = UINT64_MAX, .block_count = 1,
                                   .lower_bytes = INT64_MIN, .upper_bytes = INT64_MAX),
                            .ops = {BLOCK(UINT64_MAX, INT64_MIN)}};
    expect(&whole, -EINVAL, "overflow");

    /* size 2^64 without leaving the first byte */
    struct program still = {HEADER(.depth = 2, .op_count = 3, .upper_bytes = 1),
                            .ops = {LOOP(2, 1ull << 32, 0), LOOP(1, 1ull << 32, 0), BLOCK(1, 0)}};
    expect(&still, -EINVAL, "overflow");
    still.ops[0].count--;
    still.header.size_bytes = still.header.block_count = -(1ull << 32);
    expect(&still, 0, "nothing");
}

/* Intermediate sums of offsets overflow 63 bits but cancel out: the cursor must cope. */
Test(layout_check, detours)
{
    struct program p = {HEADER(.depth = 2, .op_count = 3, .size_bytes = 4, .block_count = 4,
                               .lower_bytes = 10, .upper_bytes = 22),
                        .ops = {LOOP(2, 2, 10), LOOP(1, 2, 1), BLOCK(1, -INT64_MAX)}};
    p.ops[0].offset_bytes = INT64_MAX;
    p.ops[1].offset_bytes = 10;
    expect(&p, 0, "nothing");

    size_t bytes;
    struct layout *layout = lay_out(&p, &bytes);
    for (uint64_t from = 0; from < 4; from++) {
        static const int64_t places[] = {10, 11, 20, 21};
        struct layout_cursor cursor;
        int64_t offset;
        uint64_t length;
        layout_cursor_init(&cursor, layout, from);
        for (uint64_t i = from; i < 4; i++) {
            cr_assert(layout_cursor_next(&cursor, 1, &offset, &length));
            cr_assert_eq(offset, places[i]);
        }
        cr_assert_not(layout_cursor_next(&cursor, 1, &offset, &length));
    }
    free(layout);
}

Test(layout_check, depth)
{
    struct program p = {HEADER(.depth = LAYOUT_DEPTH_MAX, .op_count = LAYOUT_DEPTH_MAX + 1,
                               .size_bytes = 1 << 16, .block_count = 1 << 16, .upper_bytes = 1)};
    for (uint32_t i = 0; i < LAYOUT_DEPTH_MAX; i++)
        p.ops[i] = (struct layout_op)LOOP(LAYOUT_DEPTH_MAX - i, 2, 0);
    p.ops[LAYOUT_DEPTH_MAX] = (struct layout_op)BLOCK(1, 0);
    expect(&p, 0, "nothing");

    p.header.op_count++;
    p.header.depth++;
    for (uint32_t i = 0; i <= LAYOUT_DEPTH_MAX; i++)
        p.ops[i] = (struct layout_op)LOOP(LAYOUT_DEPTH_MAX + 1 - i, 2, 0);
    p.ops[LAYOUT_DEPTH_MAX + 1] = (struct layout_op)BLOCK(1, 0);
    expect(&p, -E2BIG, "16 deep");
}

/* The largest program allowed, with huge loop counts: checking and seeking must be fast. */
Test(layout_check, largest)
{
    struct layout *big = calloc(1, sizeof(*big) + LAYOUT_OPS_MAX * sizeof(*big->ops));
    *big = (struct layout){.magic = LAYOUT_MAGIC,
                           .version = PROTO_VERSION,
                           .op_count = LAYOUT_OPS_MAX,
                           .alignment = 1};
    for (uint32_t i = 0; i < LAYOUT_OPS_MAX; i++)
        big->ops[i] = (struct layout_op)BLOCK(1, 2 * i);
    for (uint32_t i = 0; i < LAYOUT_DEPTH_MAX; i++)
        big->ops[i] = (struct layout_op)LOOP(LAYOUT_OPS_MAX - 1 - i, 4, 0);
    big->depth = LAYOUT_DEPTH_MAX;
    big->size_bytes = big->block_count = (uint64_t)(LAYOUT_OPS_MAX - LAYOUT_DEPTH_MAX) << 32;
    big->lower_bytes = 2 * LAYOUT_DEPTH_MAX;
    big->upper_bytes = 2 * LAYOUT_OPS_MAX - 1;
    const char *why = "";
    cr_assert_eq(layout_check(big, layout_bytes(big), &why), 0, "%s", why);

    struct layout_cursor cursor;
    int64_t offset;
    uint64_t length;
    layout_cursor_init(&cursor, big, big->size_bytes - 1);
    cr_assert(layout_cursor_next(&cursor, 10, &offset, &length));
    cr_assert_eq(offset, 2 * LAYOUT_OPS_MAX - 2);
    cr_assert_not(layout_cursor_next(&cursor, 10, &offset, &length));
    free(big);
}
