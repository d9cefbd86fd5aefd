/* Reduce and reduce-scatter. */
#include "client/coll/schedule.h"

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* ---- reduce */

/* Up a tree, in segments: a rank combines its own with those of its children, in a fixed order. A
 * child's segments arrive in the parent's scratch memory, at the child's slot. */
static void climb(struct coll_program *program, const struct coll_shape *shape,
                  const struct coll_tree *tree)
{
    uint32_t segments = coll_segments(shape->bytes, shape->segment_bytes);
    struct coll_place slots = coll_scratch(program, padded(shape->bytes) * tree->child_count);
    struct coll_place sum = tree->is_root ? coll_at(COLL_OUT, 0) : coll_at(COLL_IN, 0);

    if (!tree->is_root && tree->child_count > 0)
        sum = coll_scratch(program, shape->bytes);
    for (uint32_t s = 0; s < segments; s++) {
        struct coll_span part = coll_part(shape->bytes, shape->element_bytes, segments, s);
        struct coll_place here = coll_at(sum.buffer, sum.offset + part.offset);
        if (sum.buffer != COLL_IN && !(shape->in_place && tree->is_root))
            coll_copy(program, 0, coll_at(COLL_IN, part.offset), here, part.bytes);
        for (uint32_t i = 0; i < tree->child_count; i++) {
            uint64_t slot = slots.offset + i * padded(shape->bytes);
            coll_wait(program, 0, tree->children[i]);
            coll_reduce(program, 0, coll_at(COLL_SCRATCH, slot + part.offset), here, part.bytes,
                        false);
        }
        if (tree->is_root)
            continue;
        uint64_t target = tree->slot * padded(shape->bytes) + part.offset;
        coll_put(program, 0, tree->parent, here, coll_at(COLL_SCRATCH, target), part.bytes);
        coll_notify(program, 0, tree->parent);
    }
}

/* All vectors go to the root, which combines them in the order of ranks. */
static void reduce_direct(struct coll_program *program, const struct coll_shape *shape)
{
    uint64_t each = padded(shape->bytes);
    struct coll_place in = coll_at(COLL_IN, 0), out = coll_at(COLL_OUT, 0);

    if (program->rank != shape->root) {
        coll_put(program, 0, shape->root, in, coll_at(COLL_SCRATCH, program->rank * each),
                 shape->bytes);
        coll_notify(program, 0, shape->root);
        return;
    }
    struct coll_place slots = coll_scratch(program, each * shape->places.size);
    struct coll_place own = coll_at(COLL_SCRATCH, slots.offset + program->rank * each);
    if (shape->in_place && program->rank != 0)
        coll_copy(program, 0, out, own, shape->bytes);
    else if (!shape->in_place)
        own = in;
    for (uint32_t rank = 0; rank < shape->places.size; rank++) {
        struct coll_place from = coll_at(COLL_SCRATCH, slots.offset + rank * each);
        if (rank == program->rank)
            from = own;
        else
            coll_wait(program, 0, rank);
        if (rank > 0)
            coll_reduce(program, 0, from, out, shape->bytes, false);
        else if (!(shape->in_place && program->rank == 0))
            coll_copy(program, 0, from, out, shape->bytes);
    }
}

int coll_schedule_reduce(struct coll_program *program, const struct coll_shape *shape,
                         enum tca_coll_algorithm algorithm)
{
    if (algorithm == TCA_COLL_DIRECT) {
        reduce_direct(program, shape);
    } else {
        struct coll_tree tree;
        int r = coll_tree_init(&tree, algorithm, program->rank, shape->root, 0, &shape->places);
        if (r < 0)
            return r;
        climb(program, shape, &tree);
        coll_tree_deinit(&tree);
    }
    coll_add_credits(program);
    return 0;
}

/* ---- reduce-scatter, into scratch memory: returns where the own block is complete */

struct coll_place coll_scatter_direct(struct coll_program *program, const struct coll_span *spans,
                                      uint32_t size, struct coll_place in)
{
    uint32_t me = program->rank;
    uint64_t bytes = spans[me].bytes, each = padded(bytes);
    struct coll_place slots = coll_scratch(program, each * size);

    for (uint32_t i = 1; i < size; i++) {
        uint32_t peer = (me + i) % size;
        coll_put(program, 0, peer, coll_at(in.buffer, in.offset + spans[peer].offset),
                 coll_at(COLL_SCRATCH, slots.offset + me * padded(spans[peer].bytes)),
                 spans[peer].bytes);
        coll_notify(program, 0, peer);
    }
    struct coll_place own = coll_at(in.buffer, in.offset + spans[me].offset);
    if (me == 0)
        coll_copy(program, 0, own, slots, bytes);
    else
        coll_wait(program, 0, 0);
    for (uint32_t rank = 1; rank < size; rank++) {
        struct coll_place from = coll_at(COLL_SCRATCH, slots.offset + rank * each);
        if (rank == me)
            from = own;
        else
            coll_wait(program, 0, rank);
        coll_reduce(program, 0, from, slots, bytes, false);
    }
    return slots;
}

/* Each block begins at the rank after its owner and goes around the ring; each rank adds its own.
 * The scratch memory has room for what arrives in each step. */
struct coll_place coll_scatter_ring(struct coll_program *program, const struct coll_span *spans,
                                    uint32_t size, struct coll_place in)
{
    uint32_t me = program->rank, left = (me + size - 1) % size, right = (me + 1) % size;
    uint64_t longest = 0;

    for (uint32_t rank = 0; rank < size; rank++)
        if (spans[rank].bytes > longest)
            longest = spans[rank].bytes;
    struct coll_place slots = coll_scratch(program, padded(longest) * size);
    struct coll_place sum = coll_at(in.buffer, in.offset + spans[left].offset);
    for (uint32_t i = 0; i + 1 < size; i++) {
        uint32_t out = (me + 2 * size - 1 - i) % size, arriving = (out + size - 1) % size;
        struct coll_place slot = coll_at(COLL_SCRATCH, slots.offset + i * padded(longest));
        coll_put(program, 0, right, sum, slot, spans[out].bytes);
        coll_notify(program, 0, right);
        coll_wait(program, 0, left);
        coll_reduce(program, 0, coll_at(in.buffer, in.offset + spans[arriving].offset), slot,
                    spans[arriving].bytes, false);
        sum = slot;
    }
    return sum;
}

void coll_schedule_reduce_scatter(struct coll_program *program, const struct coll_shape *shape,
                                  enum tca_coll_algorithm algorithm)
{
    struct coll_place in = coll_at(COLL_IN, 0), sum;

    program->sets = 2;
    if (algorithm == TCA_COLL_RING)
        sum = coll_scatter_ring(program, shape->spans, shape->places.size, in);
    else
        sum = coll_scatter_direct(program, shape->spans, shape->places.size, in);
    coll_copy(program, 0, sum, coll_at(COLL_OUT, 0), shape->spans[program->rank].bytes);
}
