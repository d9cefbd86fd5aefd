/* Placement advice: it is a valid placement, no worse than ranks in order, and the best one where
 * that is known. */
#include <criterion/criterion.h>

#include "tests/unit/proto/random.h"
#include "tools/tcactl/placement.h"

static struct placement_task task(uint32_t i, uint32_t j, uint32_t per_node,
                                  const uint32_t *subclusters)
{
    return (struct placement_task){.dimensions = 2,
                                   .grid = {i, j},
                                   .face = {1, 1},
                                   .per_node = per_node,
                                   .subclusters = subclusters};
}

Test(placement, squares_cut_less_than_rows)
{
    static const uint32_t one[4];
    const struct placement_task square = task(4, 4, 4, one);
    uint32_t nodes[16];

    placement_in_order(&square, nodes);
    cr_expect_eq(placement_cost(&square, nodes).between_nodes, 12);
    placement_find(&square, nodes);
    const struct placement_cost cost = placement_cost(&square, nodes);
    cr_expect_eq(cost.all, 24);
    cr_expect_eq(cost.between_nodes, 8);
    cr_expect_eq(cost.between_subclusters, 0);
    cr_expect_eq(nodes[0], nodes[5], "a node has a square");
}

Test(placement, subclusters_are_blocks_of_blocks)
{
    static const uint32_t two[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    const struct placement_task grid = task(8, 4, 4, two);
    uint32_t nodes[32];

    placement_find(&grid, nodes);
    const struct placement_cost cost = placement_cost(&grid, nodes);
    cr_expect_eq(cost.between_nodes, 20);
    cr_expect_eq(cost.between_subclusters, 4, "cut across the long side");
}

Test(placement, large_faces_stay_in_a_node)
{
    static const uint32_t one[4];
    struct placement_task grid = task(4, 4, 4, one);
    uint32_t nodes[16];

    grid.face[0] = 100;
    placement_find(&grid, nodes);
    cr_expect_eq(placement_cost(&grid, nodes).between_nodes, 12, "columns: only small faces cross");
}

/* Every node gets per_node ranks, the last one the rest. */
static void check_counts(const struct placement_task *grid, const uint32_t *nodes)
{
    uint32_t counts[PLACEMENT_RANKS] = {0}, ranks = placement_ranks(grid);

    for (uint32_t rank = 0; rank < ranks; rank++)
        counts[nodes[rank]]++;
    for (uint32_t node = 0; node * grid->per_node < ranks; node++) {
        uint32_t left = ranks - node * grid->per_node;
        cr_assert_eq(counts[node], left < grid->per_node ? left : grid->per_node);
    }
}

Test(placement, is_never_worse_than_in_order)
{
    struct random random = {random_seed()};
    uint32_t subclusters[PLACEMENT_RANKS], nodes[PLACEMENT_RANKS], usual[PLACEMENT_RANKS];

    for (int n = 0; n < 300; n++) {
        struct placement_task grid = {.dimensions = 1 + (uint32_t)random_below(&random, 4)};
        for (uint32_t d = 0; d < grid.dimensions; d++) {
            grid.grid[d] = 1 + (uint32_t)random_below(&random, 6);
            grid.face[d] = 1 + (double)random_below(&random, 9);
        }
        grid.per_node = 1 + (uint32_t)random_below(&random, 9);
        uint32_t per_subcluster = 1 + (uint32_t)random_below(&random, 5);
        for (uint32_t node = 0; node < placement_ranks(&grid); node++)
            subclusters[node] = node / per_subcluster;
        grid.subclusters = subclusters;
        placement_find(&grid, nodes);
        placement_in_order(&grid, usual);
        check_counts(&grid, nodes);
        check_counts(&grid, usual);
        const struct placement_cost cost = placement_cost(&grid, nodes);
        const struct placement_cost in_order = placement_cost(&grid, usual);
        cr_assert_leq(cost.between_nodes + cost.between_subclusters,
                      in_order.between_nodes + in_order.between_subclusters);
    }
}
