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

/* ---- clusters and nodes */

enum { LEVELS = 3 }; /* clusters, nodes, ranks */

uint32_t coll_leader(uint32_t rank, uint32_t size, uint32_t root, const uint32_t *groups)
{
    uint32_t leader = 0;

    if (groups[rank] == groups[root])
        return root;
    while (leader < size && groups[leader] != groups[rank])
        leader++;
    return leader;
}

static uint32_t leader_at(uint32_t level, uint32_t rank, uint32_t root,
                          const struct coll_places *places)
{
    if (level == LEVELS - 1)
        return rank;
    return coll_leader(rank, places->size, root, level ? places->nodes : places->clusters);
}

/* The leaders of a level in the group of the level above that contains `rank`; its leader comes
 * first. Returns their number. */
static uint32_t team_at(uint32_t level, uint32_t rank, uint32_t root,
                        const struct coll_places *places, uint32_t *ranks)
{
    const uint32_t *within = level == 0 ? NULL : level == 1 ? places->clusters : places->nodes;
    uint32_t first = level ? leader_at(level - 1, rank, root, places) : root, count = 0;

    ranks[count++] = first;
    for (uint32_t other = 0; other < places->size; other++)
        if (other != first && (!within || within[other] == within[rank]) &&
            leader_at(level, other, root, places) == other)
            ranks[count++] = other;
    return count;
}

/* Adds the edges of the levels before `end`: at the first one at which the rank is a leader, that
 * to its parent. Children in other clusters come first, then those on other nodes: their subtrees
 * take longer. */
static void add_levels(struct coll_tree *tree, uint32_t end, uint32_t rank, uint32_t root,
                       const struct coll_places *places, uint32_t *ranks)
{
    for (uint32_t level = 0; level < end; level++)
        if (leader_at(level, rank, root, places) == rank)
            add_edges(tree, level < LEVELS - 1 ? TCA_COLL_BINOMIAL : TCA_COLL_DIRECT, rank, ranks,
                      team_at(level, rank, root, places, ranks));
}

/* children: room for those of another rank. */
static void add_hierarchy(struct coll_tree *tree, uint32_t rank, uint32_t root,
                          const struct coll_places *places, uint32_t *ranks, uint32_t *children)
{
    struct coll_tree above = {.children = children};
    uint32_t level = 0;

    add_levels(tree, LEVELS, rank, root, places, ranks);
    if (tree->is_root)
        return;
    while (leader_at(level, rank, root, places) != rank)
        level++;
    add_levels(&above, level, tree->parent, root, places, ranks);
    tree->slot += above.child_count;
}

int coll_tree_init(struct coll_tree *tree, enum tca_coll_algorithm algorithm, uint32_t rank,
                   uint32_t root, uint32_t turn, const struct coll_places *places)
{
    uint32_t *ranks = calloc(places->size, 2 * sizeof(*ranks));
    uint32_t *children = calloc(places->size, sizeof(*children));

    if (!ranks || !children) {
        free(ranks);
        free(children);
        return -ENOMEM;
    }
    *tree = (struct coll_tree){.is_root = true, .children = children};
    if (algorithm == TCA_COLL_HIERARCHICAL) {
        add_hierarchy(tree, rank, root, places, ranks, ranks + places->size);
    } else {
        rotate(places->size, root, turn, ranks);
        add_edges(tree, algorithm, rank, ranks, places->size);
    }
    free(ranks);
    return 0;
}

void coll_tree_deinit(struct coll_tree *tree)
{
    free(tree->children);
    tree->children = NULL;
}
