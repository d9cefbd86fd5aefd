#include "tests/unit/drivers/random_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPS_MAX = 2000, PAIRS_MAX = 4000, DEPTH_MAX = 4, PARTS_MAX = 5, GAP_MAX = 20 };

/* What has been made so far. */
struct making {
    struct random *random;
    bool may_overlap;
    struct layout_op ops[OPS_MAX];
    struct layout_pair pairs[PAIRS_MAX];
    uint32_t op_count, pair_count, depth;
};

/* The offsets of a part's bytes: all in 0 .. extent - 1. */
struct part {
    uint32_t bytes;
    int64_t extent;
    int64_t *places;
};

/* An error in the test itself; also for programs that are no Criterion tests. */
static void must(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "random layouts: %s\n", what);
    abort();
}

static uint32_t below(struct making *m, uint64_t limit)
{
    return (uint32_t)random_below(m->random, limit);
}

static uint32_t gap(struct making *m)
{
    return below(m, 2) ? 0 : below(m, GAP_MAX);
}

static struct part part_new(uint32_t bytes)
{
    return (struct part){.bytes = bytes, .places = calloc(bytes, sizeof(int64_t))};
}

static struct layout_op *new_op(struct making *m, struct layout_op op)
{
    must(m->op_count < OPS_MAX, "too many operations");
    m->ops[m->op_count] = op;
    return &m->ops[m->op_count++];
}

static struct part make(struct making *m, uint32_t bytes, uint32_t depth);

static struct part make_block(struct making *m, uint32_t bytes)
{
    struct part part = part_new(bytes);
    uint32_t offset = gap(m);
    new_op(m, (struct layout_op){.kind = LAYOUT_BLOCK, .count = bytes, .offset_bytes = offset});
    for (uint32_t i = 0; i < bytes; i++)
        part.places[i] = offset + i;
    part.extent = offset + bytes;
    return part;
}

/* A number that divides n, often one of the small ones. */
static uint32_t divisor(struct making *m, uint32_t n)
{
    uint32_t candidate = 1 + below(m, below(m, 2) ? 64 : n);
    while (n % candidate)
        candidate--;
    return candidate;
}

/* The bytes of one iteration, `count` times. */
static struct part repeat(const struct part *body, uint32_t count, int64_t first, int64_t stride)
{
    struct part part = part_new(body->bytes * count);
    for (uint32_t i = 0; i < part.bytes; i++) {
        part.places[i] = first + i / body->bytes * stride + body->places[i % body->bytes];
        if (part.places[i] >= part.extent)
            part.extent = part.places[i] + 1;
    }
    return part;
}

static struct part make_loop(struct making *m, uint32_t bytes, uint32_t depth)
{
    uint32_t body_bytes = divisor(m, bytes), count = bytes / body_bytes, at = m->op_count;
    new_op(m, (struct layout_op){.kind = LAYOUT_LOOP, .count = count});
    struct part body = make(m, body_bytes, depth + 1);
    int64_t stride = body.extent + gap(m), first = 0;
    if (m->may_overlap && below(m, 4) == 0)
        stride = below(m, 10);
    if (below(m, 6) == 0) {
        first = stride * (count - 1);
        stride = -stride;
    }
    m->ops[at].body = m->op_count - at - 1;
    m->ops[at].offset_bytes = first;
    m->ops[at].stride_bytes = stride;
    struct part part = repeat(&body, count, first, stride);
    free(body.places);
    return part;
}

/* Loops around one block, whose strides nest in another order than the loops: transposes. */
static struct part make_nest(struct making *m, uint32_t bytes)
{
    enum { LOOPS = 3 };
    uint32_t left = bytes, counts[LOOPS], order[LOOPS] = {0, 1, 2};
    int64_t strides[LOOPS];
    for (int i = 0; i < LOOPS; i++) {
        counts[i] = divisor(m, left);
        left /= counts[i];
    }
    for (int i = LOOPS - 1; i > 0; i--) {
        uint32_t j = below(m, (uint64_t)i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    int64_t extent = left;
    for (int i = 0; i < LOOPS; i++) {
        strides[order[i]] = extent + gap(m);
        extent += strides[order[i]] * (counts[order[i]] - 1);
    }
    for (int i = 0; i < LOOPS; i++)
        new_op(m, (struct layout_op){.kind = LAYOUT_LOOP,
                                     .body = (uint32_t)(LOOPS - i),
                                     .count = counts[i],
                                     .stride_bytes = strides[i]});
    struct part part = make_block(m, left);
    for (int i = LOOPS - 1; i >= 0; i--) {
        struct part all = repeat(&part, counts[i], 0, strides[i]);
        free(part.places);
        part = all;
    }
    return part;
}

/* Cuts n into at most `most` numbers; returns how many. */
static uint32_t cut(struct making *m, uint32_t n, uint32_t most, uint32_t *ret_lengths)
{
    uint32_t count = 0, fixed = below(m, 2) ? divisor(m, n) : 0;
    while (n > 0) {
        uint32_t length = fixed ? fixed : 1 + below(m, 2 * n / most + 1);
        if (length > n || count == most - 1)
            length = n;
        ret_lengths[count++] = length;
        n -= length;
    }
    return count;
}

/* The blocks are in an order of their own: some random, some ascending, some adjacent. */
static struct part make_list(struct making *m, uint32_t bytes)
{
    enum { MOST = 200 };
    uint32_t lengths[MOST], order[MOST], count = cut(m, bytes, 1 + below(m, MOST), lengths);
    bool shuffle = below(m, 2);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = shuffle ? below(m, i + 1) : i;
        order[i] = order[j];
        order[j] = i;
    }
    must(m->pair_count + count <= PAIRS_MAX, "too many blocks");
    struct layout_pair *pairs = &m->pairs[m->pair_count];
    struct part part = part_new(bytes);
    for (uint32_t i = 0; i < count; i++) {
        part.extent += gap(m);
        pairs[order[i]] = (struct layout_pair){part.extent, lengths[order[i]]};
        part.extent += lengths[order[i]];
    }
    new_op(m, (struct layout_op){.kind = LAYOUT_LIST, .body = m->pair_count, .count = count});
    m->pair_count += count;
    for (uint32_t i = 0, at = 0; i < count; i++)
        for (uint32_t j = 0; j < lengths[i]; j++)
            part.places[at++] = pairs[i].offset_bytes + j;
    return part;
}

/* Operations side by side, later ones at higher offsets. */
static struct part make_sequence(struct making *m, uint32_t bytes, uint32_t depth)
{
    uint32_t lengths[PARTS_MAX], count = cut(m, bytes, PARTS_MAX, lengths);
    struct part all = part_new(bytes);
    for (uint32_t i = 0, at = 0; i < count; i++) {
        uint32_t first_op = m->op_count;
        struct part part = make(m, lengths[i], depth + 1);
        int64_t offset = all.extent + gap(m);
        for (uint32_t op = first_op; op < m->op_count;
             op += 1 + (m->ops[op].kind == LAYOUT_LOOP ? m->ops[op].body : 0))
            m->ops[op].offset_bytes += offset;
        for (uint32_t j = 0; j < lengths[i]; j++)
            all.places[at++] = offset + part.places[j];
        all.extent = offset + part.extent;
        free(part.places);
    }
    return all;
}

static struct part make(struct making *m, uint32_t bytes, uint32_t depth)
{
    uint32_t kind = depth >= DEPTH_MAX || m->op_count > OPS_MAX / 2 ? 0 : below(m, 6);
    switch (kind) {
    case 1:
        return make_nest(m, bytes);
    case 2:
    case 3:
        return make_loop(m, bytes, depth);
    case 4:
        if (m->pair_count < PAIRS_MAX / 2)
            return make_list(m, bytes);
        return make_block(m, bytes);
    case 5:
        return make_sequence(m, bytes, depth);
    default:
        return make_block(m, bytes);
    }
}

/* How deep loops are nested, and how many blocks there are, from op `first` to before `end`. */
static void sum_up(const struct making *m, uint32_t first, uint32_t end, uint16_t *ret_depth,
                   uint64_t *ret_blocks)
{
    *ret_depth = 0;
    *ret_blocks = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct layout_op *op = &m->ops[i];
        if (op->kind == LAYOUT_LOOP) {
            uint16_t depth;
            uint64_t blocks;
            sum_up(m, i + 1, i + 1 + op->body, &depth, &blocks);
            *ret_depth = depth + 1 > *ret_depth ? (uint16_t)(depth + 1) : *ret_depth;
            *ret_blocks += blocks * op->count;
            i += op->body;
        } else {
            *ret_blocks += op->kind == LAYOUT_LIST ? op->count : 1;
        }
    }
}

static struct layout *to_layout(const struct making *m, const struct part *part)
{
    size_t op_bytes = m->op_count * sizeof(*m->ops), pair_bytes = m->pair_count * sizeof(*m->pairs);
    struct layout *layout = malloc(sizeof(*layout) + op_bytes + pair_bytes);
    *layout = (struct layout){.magic = LAYOUT_MAGIC,
                              .alignment = 1,
                              .version = PROTO_VERSION,
                              .op_count = m->op_count,
                              .pair_count = m->pair_count,
                              .size_bytes = part->bytes,
                              .lower_bytes = part->places[0]};
    sum_up(m, 0, m->op_count, &layout->depth, &layout->block_count);
    for (uint32_t i = 0; i < part->bytes; i++) {
        if (part->places[i] < layout->lower_bytes)
            layout->lower_bytes = part->places[i];
        if (part->places[i] >= layout->upper_bytes)
            layout->upper_bytes = part->places[i] + 1;
    }
    memcpy(layout->ops, m->ops, op_bytes);
    memcpy(&layout->ops[m->op_count], m->pairs, pair_bytes);
    return layout;
}

struct random_layout random_layout_new(struct random *random, uint32_t bytes, bool may_overlap)
{
    struct making *m = calloc(1, sizeof(*m));
    m->random = random;
    m->may_overlap = may_overlap;
    struct part part = make(m, bytes, 0);
    struct random_layout made = {to_layout(m, &part), part.places};
    const char *why = "";
    must(layout_check(made.layout, layout_bytes(made.layout), &why) == 0, why);
    if (below(m, 2)) {
        struct layout *normal;
        must(layout_shift(made.layout, 0, &normal) == 0, "no memory");
        free(made.layout);
        made.layout = normal;
    }
    free(m);
    return made;
}

void random_layout_free(struct random_layout *layout)
{
    free(layout->layout);
    free(layout->places);
    *layout = (struct random_layout){0};
}
