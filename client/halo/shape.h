/*
 * The geometry of a halo exchange: pure functions of the process grid and of the extents. Sizes and
 * positions are in elements.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/include/tca-halo.h"

struct halo_grid {
    uint32_t dimensions;
    uint32_t sizes[TCA_HALO_DIMENSIONS]; /* processes */
    uint8_t periodic[TCA_HALO_DIMENSIONS];
    uint32_t diagonals; /* 1 to dimensions */
};

/* One rank's part of an array. */
struct halo_shape {
    uint64_t extents[TCA_HALO_DIMENSIONS]; /* own elements */
    uint64_t low[TCA_HALO_DIMENSIONS];
    uint64_t high[TCA_HALO_DIMENSIONS];
};

/* A box of an array; starts count from the array's first element, halo included. */
struct halo_box {
    uint64_t starts[TCA_HALO_DIMENSIONS];
    uint64_t sizes[TCA_HALO_DIMENSIONS];
};

/* The number of processes; 0: more than fit into 32 bits, or a size is 0. */
uint32_t halo_grid_processes(const struct halo_grid *grid);
void halo_grid_position(const struct halo_grid *grid, uint32_t rank,
                        uint32_t ret_position[TCA_HALO_DIMENSIONS]);
/* The rank next to a rank in a direction (-1, 0 or 1 in each dimension). False: none. */
bool halo_grid_neighbour(const struct halo_grid *grid, uint32_t rank,
                         const int8_t direction[TCA_HALO_DIMENSIONS], uint32_t *ret_rank);

/* Elements of the array in one dimension, halo included. */
uint64_t halo_full(const struct halo_shape *shape, uint32_t dimension);
/* Elements of the whole array. False: more than UINT64_MAX / element_bytes of them. */
bool halo_elements(const struct halo_shape *shape, uint32_t dimensions, uint64_t element_bytes,
                   uint64_t *ret_elements);

/* What `mine` sends to `theirs`, its neighbour in a direction: own elements of mine, and the part
 * of the neighbour's halo where they go. Both boxes have the same sizes; false: they are empty. */
bool halo_boxes(uint32_t dimensions, const struct halo_shape *mine, const struct halo_shape *theirs,
                const int8_t direction[TCA_HALO_DIMENSIONS], struct halo_box *ret_from,
                struct halo_box *ret_to);

uint64_t halo_box_elements(uint32_t dimensions, const struct halo_box *box);
enum tca_halo_kind halo_box_kind(uint32_t dimensions, const struct halo_shape *shape,
                                 const struct halo_box *box);
