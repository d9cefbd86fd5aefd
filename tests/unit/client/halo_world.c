#include "tests/unit/client/halo_world.h"

#include <string.h>

void world_random_grid(struct random *random, uint32_t dimensions, uint32_t ranks,
                       struct world *ret_world)
{
    struct halo_grid grid = {.dimensions = dimensions,
                             .diagonals = 1 + (uint32_t)random_below(random, dimensions)};
    uint32_t processes = 1;

    for (uint32_t d = 0; d < dimensions; d++) {
        uint32_t size = 1 + (uint32_t)random_below(random, ranks ? ranks : 5);
        if (ranks && d == dimensions - 1)
            size = ranks / processes; /* it divides: see below */
        bool fits = ranks ? ranks / processes % size == 0 : processes * size <= RANKS_MAX;
        grid.sizes[d] = fits ? size : 1;
        processes *= grid.sizes[d];
        grid.periodic[d] = random_below(random, 2) == 1;
    }
    memset(ret_world, 0, sizeof(*ret_world));
    ret_world->grid = grid;
    ret_world->ranks = processes;
}

/* The neighbour's extent in a dimension; 0: there is none. */
static uint64_t beside(const struct world *world, uint32_t d, uint32_t at, int side)
{
    uint32_t size = world->grid.sizes[d];

    if (!world->grid.periodic[d] && (side < 0 ? at == 0 : at + 1 == size))
        return 0;
    return world->extents[d][side < 0 ? (at + size - 1) % size : (at + 1) % size];
}

/* Often 0, and any width where no neighbour fills it. */
static uint64_t random_width(struct random *random, uint32_t dimensions, uint64_t filled_by)
{
    uint64_t width = random_below(random, dimensions > 4 ? 2 : 4);

    return filled_by && width > filled_by ? filled_by : width;
}

void world_random_shapes(struct random *random, struct world *world)
{
    const struct halo_grid *grid = &world->grid;

    for (uint32_t d = 0; d < grid->dimensions; d++) {
        world->global[d] = 0;
        for (uint32_t at = 0; at < grid->sizes[d]; at++) {
            world->extents[d][at] = 1 + random_below(random, grid->dimensions > 4 ? 2 : 4);
            world->offsets[d][at] = world->global[d];
            world->global[d] += world->extents[d][at];
        }
    }
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        uint32_t at[TCA_HALO_DIMENSIONS];
        struct halo_shape *shape = &world->shapes[rank];
        halo_grid_position(grid, rank, at);
        for (uint32_t d = 0; d < grid->dimensions; d++) {
            shape->extents[d] = world->extents[d][at[d]];
            shape->low[d] = random_width(random, grid->dimensions, beside(world, d, at[d], -1));
            shape->high[d] = random_width(random, grid->dimensions, beside(world, d, at[d], 1));
        }
        halo_elements(shape, grid->dimensions, 1, &world->cells[rank]);
    }
}

uint64_t world_cell(const struct world *world, uint32_t rank,
                    const uint64_t indices[TCA_HALO_DIMENSIONS])
{
    const struct halo_shape *shape = &world->shapes[rank];
    uint64_t cell = 0;

    for (uint32_t d = 0; d < world->grid.dimensions; d++) {
        if (indices[d] >= halo_full(shape, d))
            return UINT64_MAX;
        cell = cell * halo_full(shape, d) + indices[d];
    }
    return cell;
}

uint64_t world_expected(const struct world *world, uint32_t rank, uint64_t cell, bool *ret_own)
{
    const struct halo_grid *grid = &world->grid;
    const struct halo_shape *shape = &world->shapes[rank];
    uint64_t number = 0, scale = 1;
    uint32_t at[TCA_HALO_DIMENSIONS], outside = 0;
    bool filled = true;

    halo_grid_position(grid, rank, at);
    for (uint32_t d = grid->dimensions; d-- > 0; cell /= halo_full(shape, d)) {
        int64_t size = (int64_t)world->global[d];
        int64_t here = (int64_t)(cell % halo_full(shape, d)) - (int64_t)shape->low[d];
        int64_t global = (int64_t)world->offsets[d][at[d]] + here;
        outside += here < 0 || here >= (int64_t)shape->extents[d];
        filled = filled && (grid->periodic[d] || (global >= 0 && global < size));
        number += scale * (uint64_t)(((global % size) + size) % size);
        scale *= (uint64_t)size;
    }
    *ret_own = outside == 0;
    return filled && outside <= grid->diagonals ? number + 1 : 0;
}
