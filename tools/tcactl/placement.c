/*
 * The candidates are orders in which the nodes are filled: the grid is cut into equal blocks, for
 * nodes, and into equal blocks of blocks, for sub-clusters; ranks are taken block by block, in
 * row-major order at each level. All pairs of block sizes are tried.
 */
#include "tools/tcactl/placement.h"

#include <stdbool.h>
#include <string.h>

struct blocks {
    uint32_t small[PLACEMENT_DIMENSIONS];
    uint32_t large[PLACEMENT_DIMENSIONS]; /* a multiple of small, and a divisor of the grid */
};

uint32_t placement_ranks(const struct placement_task *task)
{
    uint32_t ranks = 1;

    for (uint32_t d = 0; d < task->dimensions; d++)
        ranks *= task->grid[d];
    return ranks;
}

void placement_position(const struct placement_task *task, uint32_t rank,
                        uint32_t ret_position[PLACEMENT_DIMENSIONS])
{
    for (uint32_t d = task->dimensions; d-- > 0; rank /= task->grid[d])
        ret_position[d] = rank % task->grid[d];
}

/* The number of a rank in the order of the blocks. */
static uint32_t number(const struct placement_task *task, const struct blocks *blocks,
                       uint32_t rank)
{
    uint32_t position[PLACEMENT_DIMENSIONS], at = 0;

    placement_position(task, rank, position);
    for (uint32_t d = 0; d < task->dimensions; d++)
        at = at * (task->grid[d] / blocks->large[d]) + position[d] / blocks->large[d];
    for (uint32_t d = 0; d < task->dimensions; d++)
        at = at * (blocks->large[d] / blocks->small[d]) +
             position[d] % blocks->large[d] / blocks->small[d];
    for (uint32_t d = 0; d < task->dimensions; d++)
        at = at * blocks->small[d] + position[d] % blocks->small[d];
    return at;
}

static void place(const struct placement_task *task, const struct blocks *blocks,
                  uint32_t *ret_nodes)
{
    uint32_t ranks = placement_ranks(task);

    for (uint32_t rank = 0; rank < ranks; rank++)
        ret_nodes[rank] = number(task, blocks, rank) / task->per_node;
}

void placement_in_order(const struct placement_task *task, uint32_t *ret_nodes)
{
    struct blocks blocks;

    for (uint32_t d = 0; d < task->dimensions; d++)
        blocks.small[d] = blocks.large[d] = 1;
    place(task, &blocks, ret_nodes);
}

struct placement_cost placement_cost(const struct placement_task *task, const uint32_t *nodes)
{
    struct placement_cost cost = {0};
    uint32_t ranks = placement_ranks(task), stride = ranks;

    for (uint32_t d = 0; d < task->dimensions; d++) {
        stride /= task->grid[d]; /* from a rank to the next in this dimension */
        for (uint32_t rank = 0; rank < ranks; rank++) {
            if (rank / stride % task->grid[d] + 1 == task->grid[d])
                continue;
            uint32_t here = nodes[rank], there = nodes[rank + stride];
            cost.all += task->face[d];
            if (here != there)
                cost.between_nodes += task->face[d];
            if (task->subclusters[here] != task->subclusters[there])
                cost.between_subclusters += task->face[d];
        }
    }
    return cost;
}

static bool next_divisor(uint32_t of, uint32_t *divisor)
{
    do
        ++*divisor;
    while (*divisor <= of && of % *divisor != 0);
    return *divisor <= of;
}

/* Advances to the next pair of block sizes; false after the last one. */
static bool next_blocks(const struct placement_task *task, struct blocks *blocks)
{
    for (uint32_t d = 0; d < task->dimensions; d++) {
        if (next_divisor(blocks->large[d], &blocks->small[d]))
            return true;
        blocks->small[d] = 1;
        if (next_divisor(task->grid[d], &blocks->large[d]))
            return true;
        blocks->large[d] = 1;
    }
    return false;
}

void placement_find(const struct placement_task *task, uint32_t *ret_nodes)
{
    uint32_t nodes[PLACEMENT_RANKS], ranks = placement_ranks(task);
    struct blocks blocks;
    double best = 0;

    for (uint32_t d = 0; d < task->dimensions; d++)
        blocks.small[d] = blocks.large[d] = 1;
    for (bool first = true; first || next_blocks(task, &blocks); first = false) {
        place(task, &blocks, nodes);
        struct placement_cost cost = placement_cost(task, nodes);
        double sum = cost.between_nodes + cost.between_subclusters;
        if (!first && sum >= best)
            continue;
        best = sum;
        memcpy(ret_nodes, nodes, ranks * sizeof(*nodes));
    }
}
