#include "client/coll/schedule.h"

/* Dissemination: in round k, a rank tells the one 2^k further on, around the ring. Nobody is one
 * barrier ahead of a rank it notifies, so that counters need no credits. */
static void disseminate(struct coll_program *program, uint32_t size)
{
    for (uint32_t distance = 1; distance < size; distance *= 2) {
        coll_notify(program, 0, (program->rank + distance) % size);
        coll_wait(program, 0, (program->rank + size - distance) % size);
    }
}

/* Up the tree, and down again. */
static void climb(struct coll_program *program, const struct coll_tree *tree)
{
    for (uint32_t i = tree->child_count; i > 0; i--)
        coll_wait(program, 0, tree->children[i - 1]);
    if (!tree->is_root) {
        coll_notify(program, 0, tree->parent);
        coll_wait(program, 0, tree->parent);
    }
    for (uint32_t i = 0; i < tree->child_count; i++)
        coll_notify(program, 0, tree->children[i]);
}

int coll_schedule_barrier(struct coll_program *program, const struct coll_shape *shape,
                          enum tca_coll_algorithm algorithm)
{
    struct coll_tree tree;

    if (algorithm != TCA_COLL_HIERARCHICAL) {
        disseminate(program, shape->places.size);
        return 0;
    }
    int r = coll_tree_init(&tree, algorithm, program->rank, 0, 0, &shape->places);
    if (r < 0)
        return r;
    climb(program, &tree);
    coll_tree_deinit(&tree);
    return 0;
}
