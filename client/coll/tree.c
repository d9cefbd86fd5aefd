#include "client/coll/tree.h"

#include <errno.h>
#include <stdlib.h>

/* ---- groups */

/* The rank that leads each group, + 1, in an open-addressing table. */
struct groups {
    uint32_t *leaders;
    uint32_t mask;
};

static uint32_t *find(const struct groups *table, const uint32_t *groups, uint32_t rank)
{
    uint32_t i = groups[rank] * UINT32_C(0x9e3779b1) >> 7 & table->mask;

    while (table->leaders[i] && groups[table->leaders[i] - 1] != groups[rank])
        i = (i + 1) & table->mask;
    return &table->leaders[i];
}

int coll_leaders(const uint32_t *groups, uint32_t size, uint32_t root, uint32_t *ret_leaders)
{
    struct groups table = {.mask = 1};

    while (table.mask < size)
        table.mask = 2 * table.mask + 1;
    table.mask = 2 * table.mask + 1;
    table.leaders = calloc((size_t)table.mask + 1, sizeof(*table.leaders));
    if (!table.leaders)
        return -ENOMEM;
    *find(&table, groups, root) = root + 1;
    for (uint32_t rank = 0; rank < size; rank++) {
        if (rank > 0 && groups[rank] == groups[rank - 1]) {
            ret_leaders[rank] = ret_leaders[rank - 1];
            continue;
        }
        uint32_t *leader = find(&table, groups, rank);
        if (!*leader)
            *leader = rank + 1;
        ret_leaders[rank] = *leader - 1;
    }
    free(table.leaders);
    return 0;
}

/* ---- trees over positions: 0 is the root */

static uint32_t parent_of(enum tca_coll_algorithm algorithm, uint32_t position)
{
    switch (algorithm) {
    case TCA_COLL_BINOMIAL: /* without its highest bit */
        return position & ~(UINT32_C(1) << (31 - __builtin_clz(position)));
    case TCA_COLL_TRINARY:
        return (position - 1) / 3;
    case TCA_COLL_CHAIN:
        return position - 1;
    default:
        return 0;
    }
}

/* ---- all edges */

static void add(struct coll_edges *edges, uint32_t parent, uint32_t child)
{
    edges->parents[edges->count] = parent;
    edges->children[edges->count++] = child;
}

/* Position 0 is the root, then come the others in turn, beginning at another one for each tree. */
static void add_rotated(struct coll_edges *edges, enum tca_coll_algorithm algorithm, uint32_t size,
                        uint32_t root, uint32_t turn)
{
    const uint32_t others = size - 1, first = turn * (others / 3);

    for (uint32_t position = 1; position < size; position++) {
        uint32_t above = parent_of(algorithm, position);
        uint32_t child = (root + 1 + (position - 1 + first) % others) % size;
        add(edges, above ? (root + 1 + (above - 1 + first) % others) % size : root, child);
    }
}

/* Where `level` is one of two, [size] each: groups, and groups of groups. */
struct hierarchy {
    uint32_t *nodes, *clusters; /* leaders */
    uint32_t *teams;            /* the leaders of a cluster's nodes, the cluster's first */
    uint32_t *ends;             /* of a team, by the leader of the cluster */
    uint32_t *tops;             /* the leaders of clusters, the root first */
};

/* Makes room for the team of each cluster: its leader is in it. */
static void begin_teams(const struct hierarchy *h, uint32_t size, uint32_t root)
{
    uint32_t room = 0, *counts = h->tops; /* not needed yet */

    for (uint32_t rank = 0; rank < size; rank++)
        counts[rank] = 0;
    for (uint32_t rank = 0; rank < size; rank++)
        if (h->nodes[rank] == rank)
            counts[h->clusters[rank]]++;
    for (uint32_t rank = 0; rank < size; rank++)
        if (h->clusters[rank] == rank) {
            h->teams[room] = rank;
            h->ends[rank] = room + 1;
            room += counts[rank];
        }
    h->tops[0] = root;
}

/* Children in other clusters come first, then those on other nodes: their subtrees take longer. */
static void add_levels(struct coll_edges *edges, const struct hierarchy *h, uint32_t size,
                       uint32_t root)
{
    uint32_t top = 1;

    begin_teams(h, size, root);
    for (uint32_t rank = 0; rank < size; rank++)
        if (h->clusters[rank] == rank && rank != root) {
            h->tops[top] = rank;
            add(edges, h->tops[parent_of(TCA_COLL_BINOMIAL, top)], rank);
            top++;
        }
    /* the end of a team is also the place of the leader's first follower */
    uint32_t *begins = h->tops;
    for (uint32_t rank = 0; rank < size; rank++)
        if (h->clusters[rank] == rank)
            begins[rank] = h->ends[rank] - 1;
    for (uint32_t rank = 0; rank < size; rank++)
        if (h->nodes[rank] == rank && h->clusters[rank] != rank) {
            uint32_t begin = begins[h->clusters[rank]], end = h->ends[h->clusters[rank]]++;
            h->teams[end] = rank;
            add(edges, h->teams[begin + parent_of(TCA_COLL_BINOMIAL, end - begin)], rank);
        }
    for (uint32_t rank = 0; rank < size; rank++)
        if (h->nodes[rank] != rank)
            add(edges, h->nodes[rank], rank);
}

static int add_hierarchy(struct coll_edges *edges, uint32_t root, const struct coll_places *places)
{
    const uint32_t size = places->size;
    uint32_t *memory = calloc(size, 5 * sizeof(*memory));

    if (!memory)
        return -ENOMEM;
    const struct hierarchy h = {memory, memory + size, memory + 2 * (size_t)size,
                                memory + 3 * (size_t)size, memory + 4 * (size_t)size};
    int r = coll_leaders(places->nodes, size, root, h.nodes);
    if (r >= 0)
        r = coll_leaders(places->clusters, size, root, h.clusters);
    if (r >= 0)
        add_levels(edges, &h, size, root);
    free(memory);
    return r;
}

int coll_edges_init(struct coll_edges *edges, enum tca_coll_algorithm algorithm, uint32_t root,
                    uint32_t turn, const struct coll_places *places)
{
    const uint32_t size = places->size;
    uint32_t *memory = calloc(size, 2 * sizeof(*memory));
    int r = 0;

    if (!memory)
        return -ENOMEM;
    *edges = (struct coll_edges){.children = memory, .parents = memory + size};
    if (algorithm == TCA_COLL_HIERARCHICAL)
        r = add_hierarchy(edges, root, places);
    else
        add_rotated(edges, algorithm, size, root, turn);
    if (r < 0)
        coll_edges_deinit(edges);
    return r;
}

void coll_edges_deinit(struct coll_edges *edges)
{
    free(edges->children);
    *edges = (struct coll_edges){0};
}

/* ---- those of one rank */

static void take(struct coll_tree *tree, const struct coll_edges *edges, uint32_t rank)
{
    for (uint32_t i = 0; i < edges->count; i++)
        if (edges->parents[i] == rank) {
            tree->children[tree->child_count++] = edges->children[i];
        } else if (edges->children[i] == rank) {
            tree->is_root = false;
            tree->parent = edges->parents[i];
            for (uint32_t j = 0; j < i; j++)
                tree->slot += edges->parents[j] == tree->parent;
        }
}

int coll_tree_init(struct coll_tree *tree, enum tca_coll_algorithm algorithm, uint32_t rank,
                   uint32_t root, uint32_t turn, const struct coll_places *places)
{
    struct coll_edges edges;

    *tree = (struct coll_tree){.is_root = true,
                               .children = calloc(places->size, sizeof(*tree->children))};
    int r = tree->children ? coll_edges_init(&edges, algorithm, root, turn, places) : -ENOMEM;
    if (r < 0) {
        coll_tree_deinit(tree);
        return r;
    }
    take(tree, &edges, rank);
    coll_edges_deinit(&edges);
    return 0;
}

void coll_tree_deinit(struct coll_tree *tree)
{
    free(tree->children);
    tree->children = NULL;
}
