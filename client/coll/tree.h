/* Trees over lists of ranks. Pure functions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/include/tca-coll.h"

/* Where the ranks are. Ranks of one node are in one cluster. Where all nodes are in one, `clusters`
 * is `nodes`: a tree of clusters has nothing to add then. */
struct coll_places {
    uint32_t size;
    const uint32_t *nodes;    /* [size] */
    const uint32_t *clusters; /* [size]: nodes that are near one another */
};

static inline bool coll_one_cluster(const struct coll_places *places)
{
    return places->clusters == places->nodes;
}

/* The rank that stands for the group (a node or a cluster) of each rank: the first one, or `root`
 * in its own group. -ENOMEM. */
int coll_leaders(const uint32_t *groups, uint32_t size, uint32_t root, uint32_t *ret_leaders);

/* All edges of a tree. That of a rank to its parent comes before those to its children, and these
 * are in the order in which they are served. */
struct coll_edges {
    uint32_t *children, *parents; /* [count] */
    uint32_t count;
};

/* A tree of all ranks below `root`: TCA_COLL_DIRECT (one level), TCA_COLL_BINOMIAL, TCA_COLL_CHAIN,
 * TCA_COLL_TRINARY (for which `turn`, 0 to 2, selects one of three trees with different inner
 * ranks), or TCA_COLL_HIERARCHICAL: a binomial tree of one rank of each cluster; below each of them
 * one of one rank of each node of the cluster; and directly below each of these the others of its
 * node. -ENOMEM. */
int coll_edges_init(struct coll_edges *edges, enum tca_coll_algorithm algorithm, uint32_t root,
                    uint32_t turn, const struct coll_places *places);
void coll_edges_deinit(struct coll_edges *edges);

/* The parent and the children of a rank. */
struct coll_tree {
    bool is_root;
    uint32_t parent;
    uint32_t slot;      /* of this rank among its parent's children */
    uint32_t *children; /* in the order in which they are served */
    uint32_t child_count;
};

/* The part of a tree that touches `rank`. -ENOMEM. */
int coll_tree_init(struct coll_tree *tree, enum tca_coll_algorithm algorithm, uint32_t rank,
                   uint32_t root, uint32_t turn, const struct coll_places *places);
void coll_tree_deinit(struct coll_tree *tree);
