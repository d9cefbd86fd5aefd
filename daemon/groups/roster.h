/* Which rank of a group is on which node: the same list at all nodes. */
#pragma once

#include <stdint.h>

struct roster_node {
    uint32_t node, position;
};

struct roster {
    uint32_t size;  /* ranks */
    uint32_t nodes; /* different ones */
    /* The nodes in the order of their lowest ranks: *positions* (daemon/groups/tree.h). The first
     * one is rank 0's. */
    uint32_t *node_at;           /* [nodes]: node id */
    struct roster_node *by_node; /* [nodes]: the same, sorted by node */
    uint32_t *positions;         /* [size]: of each rank's node */
    uint32_t *by_position;       /* [size]: ranks, those of one position in order */
    uint32_t *starts;            /* [nodes + 1]: where those of a position begin there */
};

/* `node_of`: of each rank. -ENOMEM. O(size log size). */
int roster_init(struct roster *roster, uint32_t size, const uint32_t *node_of);
void roster_deinit(struct roster *roster);
/* The position of a node; UINT32_MAX: it has no rank. */
uint32_t roster_position(const struct roster *roster, uint32_t node);
