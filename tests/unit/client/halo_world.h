/* A random process grid with an array distributed over it, and the contents of each cell after a
 * halo exchange, from the definition alone. */
#pragma once

#include "client/halo/shape.h"
#include "tests/unit/proto/random.h"

enum { RANKS_MAX = 48 };

struct world {
    struct halo_grid grid;
    uint32_t ranks;
    uint64_t extents[TCA_HALO_DIMENSIONS][RANKS_MAX]; /* by coordinate */
    uint64_t offsets[TCA_HALO_DIMENSIONS][RANKS_MAX];
    uint64_t global[TCA_HALO_DIMENSIONS];
    struct halo_shape shapes[RANKS_MAX];
    uint64_t cells[RANKS_MAX]; /* of the rank's array */
};

/* At most RANKS_MAX processes; exactly `ranks`, unless that is 0. */
void world_random_grid(struct random *random, uint32_t dimensions, uint32_t ranks,
                       struct world *ret_world);
/* Extents and halos of the array: small ones in many dimensions. */
void world_random_shapes(struct random *random, struct world *world);
/* The number of a cell in its array. UINT64_MAX: it is outside. */
uint64_t world_cell(const struct world *world, uint32_t rank,
                    const uint64_t indices[TCA_HALO_DIMENSIONS]);
/* The number of the global element (from 1) that is in a cell after an exchange, or 0 if the cell
 * belongs to a halo that no neighbour fills. ret_own: it is the rank's own. */
uint64_t world_expected(const struct world *world, uint32_t rank, uint64_t cell, bool *ret_own);
