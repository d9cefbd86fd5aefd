/*
 * The tree that connects the nodes of a group. Nodes have *positions*, from 0 (the root of the
 * tree) on. A subtree is a range of positions that begins with its own root, so that neighbours in
 * the order of positions are near each other in the tree, too.
 */
#pragma once

#include <stdint.h>

enum { TREE_RADIX = 16 }; /* children of a node at most; 10^5 nodes: five levels */
#define TREE_NONE UINT32_MAX

struct tree_range {
    uint32_t begin, end;
};

struct tree_place {
    uint32_t parent;         /* TREE_NONE: this is the root */
    struct tree_range range; /* the subtree; it begins with this position */
    unsigned child_count;
    struct tree_range children[TREE_RADIX]; /* their subtrees */
};

/* Where a position is in the tree of `count` positions: O(log count). */
struct tree_place tree_find(uint32_t count, uint32_t position);
