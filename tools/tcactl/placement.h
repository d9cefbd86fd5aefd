/*
 * Which rank of a process grid to run on which node. Faces between ranks of one node cost nothing;
 * faces between nodes cost their size, and those between sub-clusters twice as much. Pure
 * functions.
 */
#pragma once

#include <stdint.h>

enum {
    PLACEMENT_DIMENSIONS = 7, /* TCA_HALO_DIMENSIONS */
    PLACEMENT_RANKS = 4096,   /* of a group */
};

struct placement_task {
    uint32_t dimensions;
    uint32_t grid[PLACEMENT_DIMENSIONS]; /* processes; at most PLACEMENT_RANKS in all */
    double face[PLACEMENT_DIMENSIONS];   /* size of a face across each dimension */
    uint32_t per_node;                   /* processes */
    const uint32_t *subclusters;         /* [nodes]: which one each node is in */
};

/* Sizes of faces, in units of placement_task.face. */
struct placement_cost {
    double all;
    double between_nodes; /* those between sub-clusters, too */
    double between_subclusters;
};

uint32_t placement_ranks(const struct placement_task *task);
void placement_position(const struct placement_task *task, uint32_t rank,
                        uint32_t ret_position[PLACEMENT_DIMENSIONS]);

/* The index of each rank's node. Nodes are filled in their order, so that the nodes of a
 * sub-cluster should follow one another. nodes: room for all ranks. */
void placement_in_order(const struct placement_task *task, uint32_t *ret_nodes);
void placement_find(const struct placement_task *task, uint32_t *ret_nodes);
struct placement_cost placement_cost(const struct placement_task *task, const uint32_t *nodes);
