#include "client/coll/schedule.h"

enum { UNIT_BYTES = 64 /* segments begin at cache lines */, TREES = 3 };

/* Segments go down a tree: an inner rank hands each on as soon as it has arrived. If it is short,
 * it arrives in scratch memory, which is free before the receiver starts. */
static void descend(struct coll_program *program, uint32_t chain, const struct coll_tree *tree,
                    struct coll_span part, uint64_t segment_bytes)
{
    uint32_t segments = coll_segments(part.bytes, segment_bytes);
    enum coll_buffer to = program->sets == COLL_SETS ? COLL_SCRATCH : COLL_OUT;
    enum coll_buffer from = tree->is_root ? COLL_OUT : to;

    for (uint32_t s = 0; s < segments; s++) {
        struct coll_span segment = coll_part(part.bytes, UNIT_BYTES, segments, s);
        uint64_t offset = part.offset + segment.offset;
        if (!tree->is_root)
            coll_wait(program, chain, tree->parent);
        for (uint32_t i = 0; i < tree->child_count; i++) {
            coll_put(program, chain, tree->children[i], coll_at(from, offset), coll_at(to, offset),
                     segment.bytes);
            coll_notify(program, chain, tree->children[i]);
        }
        coll_copy(program, chain, coll_at(from, offset), coll_at(COLL_OUT, offset), segment.bytes);
    }
}

int coll_schedule_broadcast(struct coll_program *program, const struct coll_shape *shape,
                            enum tca_coll_algorithm algorithm)
{
    uint32_t trees = algorithm == TCA_COLL_TRINARY ? TREES : 1;

    program->chain_count = trees;
    if (shape->bytes <= COLL_SHORT_BYTES) {
        program->sets = COLL_SETS;
        coll_scratch(program, shape->bytes);
    }
    for (uint32_t t = 0; t < trees; t++) {
        struct coll_tree tree;
        int r = coll_tree_init(&tree, algorithm, program->rank, shape->root, t, &shape->places);
        if (r < 0)
            return r;
        descend(program, t, &tree, coll_part(shape->bytes, UNIT_BYTES, trees, t),
                shape->segment_bytes);
        coll_tree_deinit(&tree);
    }
    coll_add_credits(program);
    return 0;
}
