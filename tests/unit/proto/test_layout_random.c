/* Random programs against a byte-by-byte expansion. A failure prints its seed; TCA_TEST_SEED=n
 * repeats just that one. */
#include "proto/layout.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/proto/random.h"

enum { PROGRAMS = 3000, BYTES_MAX = 20000 };

/* The reference: the offset of every byte, in packed order. */
struct expansion {
    uint64_t count;
    int64_t *places;
};

static struct expansion expand_bytes(uint64_t count)
{
    struct expansion e = {.count = count, .places = malloc((count + 1) * sizeof(*e.places))};
    for (uint64_t i = 0; i < count; i++)
        e.places[i] = (int64_t)i;
    return e;
}

static void expand_shift(struct expansion *e, int64_t offset)
{
    for (uint64_t i = 0; i < e->count; i++)
        e->places[i] += offset;
}

static void expand_repeat(struct expansion *e, uint64_t count, int64_t stride)
{
    int64_t *places = malloc((e->count * count + 1) * sizeof(*places));
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t j = 0; j < e->count; j++)
            places[i * e->count + j] = e->places[j] + (int64_t)i * stride;
    free(e->places);
    e->places = places;
    e->count *= count;
}

/* Strides that nest, that touch, that overlap, that run backwards. */
static int64_t random_stride(struct random *random, const struct layout *inner)
{
    switch (random_below(random, 5)) {
    case 0:
        return layout_extent(inner);
    case 1:
        return (int64_t)inner->size_bytes;
    case 2:
        if (inner->op_count > 0 && inner->ops[0].kind == LAYOUT_LOOP)
            return inner->ops[0].stride_bytes * (int64_t)inner->ops[0].count;
        return layout_extent(inner) * 2;
    case 3:
        return -(int64_t)random_below(random, 300);
    default:
        return (int64_t)random_below(random, 300);
    }
}

static struct layout *random_program(struct random *random, struct expansion *ret)
{
    struct layout *layout, *next;
    uint64_t bytes = random_below(random, 40);
    *ret = expand_bytes(bytes);
    cr_assert_eq(layout_contiguous(bytes, &layout), 0);
    for (uint64_t steps = random_below(random, 8); steps > 0; steps--) {
        if (random_below(random, 3) == 0) {
            int64_t offset = (int64_t)random_below(random, 400) - 200;
            cr_assert_eq(layout_shift(layout, offset, &next), 0);
            expand_shift(ret, offset);
        } else {
            uint64_t count = random_below(random, 8) == 0 ? 0 : 1 + random_below(random, 6);
            int64_t stride = random_stride(random, layout);
            if (ret->count * count > BYTES_MAX)
                break;
            cr_assert_eq(layout_repeat(layout, count, stride, &next), 0);
            expand_repeat(ret, count, stride);
        }
        free(layout);
        layout = next;
    }
    return layout;
}

/* The number of runs of adjacent bytes: no normal form can have fewer blocks. */
static uint64_t runs_of(const struct expansion *e)
{
    uint64_t runs = e->count > 0;
    for (uint64_t i = 1; i < e->count; i++)
        runs += e->places[i] != e->places[i - 1] + 1;
    return runs;
}

static void bounds_of(const struct expansion *e, int64_t *ret_lower, int64_t *ret_upper)
{
    *ret_lower = *ret_upper = e->count > 0 ? e->places[0] : 0;
    for (uint64_t i = 0; i < e->count; i++) {
        if (e->places[i] < *ret_lower)
            *ret_lower = e->places[i];
        if (e->places[i] >= *ret_upper)
            *ret_upper = e->places[i] + 1;
    }
}

static void compare_header(const struct layout *layout, const struct expansion *e, uint64_t seed)
{
    const char *why = "";
    int64_t lower, upper;
    bounds_of(e, &lower, &upper);
    cr_assert_eq(layout_check(layout, layout_bytes(layout), &why), 0, "seed %lu: %s", seed, why);
    cr_assert_eq(layout->size_bytes, e->count, "seed %lu", seed);
    cr_assert_eq(layout->lower_bytes, lower, "seed %lu", seed);
    cr_assert_eq(layout->upper_bytes, upper, "seed %lu", seed);
    cr_assert_geq(layout->block_count, runs_of(e), "seed %lu", seed);
    cr_assert_eq(layout_runs(layout), runs_of(e), "seed %lu", seed);
}

/* From one position on, in pieces of at most max. */
static uint64_t compare_walk(const struct layout *layout, const struct expansion *e, uint64_t from,
                             uint64_t max, uint64_t seed)
{
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t length, pieces = 0, at = from;
    layout_cursor_init(&cursor, layout, from);
    for (; layout_cursor_next(&cursor, max, &offset, &length); pieces++) {
        cr_assert(length > 0 && length <= max && length <= e->count - at, "seed %lu", seed);
        for (uint64_t i = 0; i < length; i++, at++)
            cr_assert_eq(e->places[at], offset + (int64_t)i, "seed %lu from %lu: byte %lu", seed,
                         from, at);
        cr_assert_eq(cursor.position_bytes, at, "seed %lu", seed);
    }
    cr_assert_eq(at, e->count, "seed %lu from %lu", seed, from);
    return pieces;
}

/* Normalising a normal program changes nothing. */
static void compare_again(const struct layout *layout, uint64_t seed)
{
    struct layout *again;
    cr_assert_eq(layout_shift(layout, 0, &again), 0);
    cr_assert(layout_bytes(again) == layout_bytes(layout) &&
                  memcmp(again, layout, layout_bytes(layout)) == 0,
              "seed %lu", seed);
    free(again);
}

static void compare_strided(const struct layout *layout, const struct expansion *e, uint64_t seed)
{
    struct layout_strided s;
    if (!layout_as_strided(layout, &s))
        return;
    cr_assert_eq(s.count * s.block_bytes, e->count, "seed %lu", seed);
    for (uint64_t i = 0; i < e->count; i++) {
        int64_t block = (int64_t)(i / s.block_bytes), inside = (int64_t)(i % s.block_bytes);
        cr_assert_eq(e->places[i], s.offset_bytes + block * s.stride_bytes + inside, "seed %lu",
                     seed);
    }
}

static void compare(const struct layout *layout, const struct expansion *e, struct random *random,
                    uint64_t seed)
{
    compare_header(layout, e, seed);
    cr_assert_eq(compare_walk(layout, e, 0, UINT64_MAX, seed), layout->block_count, "seed %lu",
                 seed);
    for (int i = 0; i < 4; i++)
        compare_walk(layout, e, random_below(random, e->count + 1), 1 + random_below(random, 50),
                     seed);
    compare_strided(layout, e, seed);
}

static uint64_t first_seed(void)
{
    const char *only = getenv("TCA_TEST_SEED");
    return only ? strtoull(only, NULL, 0) : random_seed();
}

#define EACH_SEED(seed)                                                                            \
    for (uint64_t seed = first_seed(), last = seed + (getenv("TCA_TEST_SEED") ? 1 : PROGRAMS);     \
         seed < last; seed++)

Test(layout_random, equals_its_expansion)
{
    EACH_SEED(seed)
    {
        struct random random = {seed};
        struct expansion e;
        struct layout *layout = random_program(&random, &e);
        compare(layout, &e, &random, seed);
        compare_again(layout, seed);
        free(layout);
        free(e.places);
    }
}

/* ---- programs that the constructors do not make: several sibling operations, lists, not
 * normalised ---- */

enum { TREE_OPS_MAX = 60, TREE_PAIRS_MAX = 100, TREE_DEPTH_MAX = 4 };

struct tree {
    struct layout_op ops[TREE_OPS_MAX];
    struct layout_pair pairs[TREE_PAIRS_MAX];
    uint32_t op_count, pair_count, depth;
    uint64_t blocks;
};

/* Appends the second to the first, which takes ownership. */
static void expand_append(struct expansion *e, struct expansion *behind)
{
    e->places = realloc(e->places, (e->count + behind->count + 1) * sizeof(*e->places));
    memcpy(e->places + e->count, behind->places, behind->count * sizeof(*e->places));
    e->count += behind->count;
    free(behind->places);
}

static int64_t random_offset(struct random *random)
{
    return (int64_t)random_below(random, 40) - 10;
}

static struct expansion random_block(struct random *random, struct tree *tree)
{
    struct expansion e = expand_bytes(1 + random_below(random, 9));
    int64_t offset = random_offset(random);
    expand_shift(&e, offset);
    tree->ops[tree->op_count++] =
        (struct layout_op){.kind = LAYOUT_BLOCK, .count = e.count, .offset_bytes = offset};
    tree->blocks++;
    return e;
}

static struct expansion random_list(struct random *random, struct tree *tree)
{
    struct layout_op *op = &tree->ops[tree->op_count++];
    uint64_t count = 1 + random_below(random, 5);
    struct expansion e = expand_bytes(0);
    *op = (struct layout_op){.kind = LAYOUT_LIST,
                             .body = tree->pair_count,
                             .count = count,
                             .offset_bytes = random_offset(random)};
    int64_t next = 0; /* half of them continue where the previous one ended */
    for (uint64_t i = 0; i < count; i++) {
        struct expansion part = expand_bytes(1 + random_below(random, 9));
        int64_t offset = random_below(random, 2) ? next : random_offset(random);
        next = offset + (int64_t)part.count;
        tree->pairs[tree->pair_count++] = (struct layout_pair){offset, part.count};
        expand_shift(&part, op->offset_bytes + offset);
        expand_append(&e, &part);
    }
    tree->blocks += count;
    return e;
}

static struct expansion random_ops(struct random *random, struct tree *tree, uint32_t depth);

static struct expansion random_loop(struct random *random, struct tree *tree, uint32_t depth)
{
    uint32_t at = tree->op_count++;
    uint64_t blocks = tree->blocks, count = 1 + random_below(random, 4);
    int64_t offset = random_offset(random), stride = random_offset(random);
    struct expansion e = random_ops(random, tree, depth + 1);
    if (random_below(random, 2))
        stride = (int64_t)e.count;
    tree->ops[at] = (struct layout_op){.kind = LAYOUT_LOOP,
                                       .body = tree->op_count - at - 1,
                                       .count = count,
                                       .offset_bytes = offset,
                                       .stride_bytes = stride};
    tree->blocks = blocks + (tree->blocks - blocks) * count;
    tree->depth = depth + 1 > tree->depth ? depth + 1 : tree->depth;
    expand_repeat(&e, count, stride);
    expand_shift(&e, offset);
    return e;
}

/* One to three operations, as long as there is room. */
static struct expansion random_ops(struct random *random, struct tree *tree, uint32_t depth)
{
    struct expansion e = expand_bytes(0), part;
    uint64_t count = 1 + random_below(random, 3);
    do {
        uint64_t kind = random_below(random, 4);
        if (kind >= 2 && depth < TREE_DEPTH_MAX && tree->op_count < TREE_OPS_MAX / 2)
            part = random_loop(random, tree, depth);
        else if (kind == 1 && tree->pair_count < TREE_PAIRS_MAX / 2)
            part = random_list(random, tree);
        else
            part = random_block(random, tree);
        expand_append(&e, &part);
    } while (--count > 0 && tree->op_count < TREE_OPS_MAX / 2);
    return e;
}

static struct layout *random_tree(struct random *random, struct expansion *ret)
{
    struct tree tree = {0};
    *ret = random_ops(random, &tree, 0);
    size_t op_bytes = tree.op_count * sizeof(*tree.ops),
           pair_bytes = tree.pair_count * sizeof(*tree.pairs);
    struct layout *layout = malloc(sizeof(*layout) + op_bytes + pair_bytes);
    *layout = (struct layout){.magic = LAYOUT_MAGIC,
                              .version = PROTO_VERSION,
                              .depth = (uint16_t)tree.depth,
                              .op_count = tree.op_count,
                              .pair_count = tree.pair_count,
                              .size_bytes = ret->count,
                              .block_count = tree.blocks,
                              .alignment = 1};
    bounds_of(ret, &layout->lower_bytes, &layout->upper_bytes);
    memcpy(layout->ops, tree.ops, op_bytes);
    memcpy(&layout->ops[tree.op_count], tree.pairs, pair_bytes);
    return layout;
}

Test(layout_random, trees_equal_their_expansion)
{
    EACH_SEED(seed)
    {
        struct random random = {seed};
        struct expansion e;
        struct layout *tree = random_tree(&random, &e), *normal;
        compare(tree, &e, &random, seed);
        cr_assert_eq(layout_shift(tree, 0, &normal), 0, "seed %lu", seed);
        compare(normal, &e, &random, seed);
        compare_again(normal, seed);
        cr_assert_leq(normal->block_count, tree->block_count, "seed %lu", seed);
        free(normal);
        free(tree);
        free(e.places);
    }
}
