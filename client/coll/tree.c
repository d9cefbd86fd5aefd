#include "client/coll/tree.h"

#include <errno.h>
#include <stdlib.h>

/* ---- trees over positions: 0 is the root */

static uint32_t parent_of(enum tca_coll_algorithm algorithm, uint32_t position)
{
    uint32_t bit = 1;

    switch (algorithm) {
    case TCA_COLL_BINOMIAL:
        while (bit <= position / 2)
            bit *= 2;
        return position - bit; /* without its highest bit */
    case TCA_COLL_TRINARY:
        return (position - 1) / 3;
    case TCA_COLL_CHAIN:
        return position - 1;
    default:
        return 0;
    }
}

/* ---- positions and ranks: position 0 is the list's first rank */

static void add_child(struct coll_tree *tree, uint32_t child)
{
    tree->children[tree->child_count++] = child;
}

/* Adds the edges of a tree over `ranks` that touch `rank`. */
static void add_edges(struct coll_tree *tree, enum tca_coll_algorithm algorithm, uint32_t rank,
                      const uint32_t *ranks, uint32_t count)
{
    uint32_t me = 0;

    while (me < count && ranks[me] != rank)
        me++;
    if (me == count)
        return;
    for (uint32_t position = 1; position < count; position++)
        if (parent_of(algorithm, position) == me)
            add_child(tree, ranks[position]);
    if (me == 0)
        return;
    uint32_t above = parent_of(algorithm, me);
    tree->is_root = false;
    tree->parent = ranks[above];
    tree->slot = 0;
    for (uint32_t position = 1; position < me; position++)
        tree->slot += parent_of(algorithm, position) == above;
}

/* All ranks: the root, then the others in turn, beginning at another one for each tree. */
static void rotate(uint32_t size, uint32_t root, uint32_t turn, uint32_t *ranks)
{
    uint32_t others = size - 1;

    ranks[0] = root;
    for (uint32_t i = 0; i < others; i++)
        ranks[1 + i] = (root + 1 + (i + turn * (others / 3)) % others) % size;
}

/* ---- nodes */

uint32_t coll_leader(uint32_t rank, uint32_t size, uint32_t root, const uint32_t *nodes)
{
    uint32_t leader = 0;

    if (nodes[rank] == nodes[root])
        return root;
    while (leader < size && nodes[leader] != nodes[rank])
        leader++;
    return leader;
}

uint32_t coll_leaders(uint32_t size, uint32_t root, const uint32_t *nodes, uint32_t *ranks)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < size; rank++)
        if (coll_leader(rank, size, root, nodes) == rank)
            ranks[count++] = rank;
    return count;
}

uint32_t coll_members(uint32_t leader, uint32_t size, const uint32_t *nodes, uint32_t *ranks)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < size; rank++)
        if (rank != leader && nodes[rank] == nodes[leader])
            ranks[count++] = rank;
    return count;
}

/* Children on other nodes first: their subtrees take longer. The members of a node occupy the slots
 * after the leader's other children. */
static void add_nodes(struct coll_tree *tree, uint32_t rank, uint32_t size, uint32_t root,
                      const uint32_t *nodes, uint32_t *ranks)
{
    uint32_t leader = coll_leader(rank, size, root, nodes);
    uint32_t count = coll_leaders(size, root, nodes, ranks), first = 0;

    while (ranks[first] != root)
        first++;
    ranks[first] = ranks[0];
    ranks[0] = root;
    struct coll_tree above = {.is_root = true, .children = tree->children};
    add_edges(&above, TCA_COLL_BINOMIAL, leader, ranks, count);
    if (rank == leader) {
        *tree = above;
        tree->child_count += coll_members(leader, size, nodes, tree->children + above.child_count);
        return;
    }
    count = coll_members(leader, size, nodes, ranks);
    tree->is_root = false;
    tree->parent = leader;
    tree->slot = above.child_count;
    for (uint32_t i = 0; i < count && ranks[i] != rank; i++)
        tree->slot++;
}

int coll_tree_init(struct coll_tree *tree, enum tca_coll_algorithm algorithm, uint32_t rank,
                   uint32_t size, uint32_t root, uint32_t turn, const uint32_t *nodes)
{
    uint32_t *ranks = calloc(size, sizeof(*ranks));
    uint32_t *children = calloc(size, sizeof(*children));

    if (!ranks || !children) {
        free(ranks);
        free(children);
        return -ENOMEM;
    }
    *tree = (struct coll_tree){.is_root = true, .children = children};
    if (algorithm == TCA_COLL_HIERARCHICAL) {
        add_nodes(tree, rank, size, root, nodes, ranks);
    } else {
        rotate(size, root, turn, ranks);
        add_edges(tree, algorithm, rank, ranks, size);
    }
    free(ranks);
    return 0;
}

void coll_tree_deinit(struct coll_tree *tree)
{
    free(tree->children);
    tree->children = NULL;
}
