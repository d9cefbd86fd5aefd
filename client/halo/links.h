/* The schedule of a rank: with whom it exchanges, in which order. Pure functions of the grid. */
#pragma once

#include "client/halo/shape.h"

enum { HALO_LINKS_MAX = 2186 /* 3^7 - 1 directions */ };

struct halo_link {
    int8_t direction[TCA_HALO_DIMENSIONS];
    uint32_t rank; /* the neighbour in this direction */
    /* Links of the same round connect pairs: with all ranks sending their links in the order of
     * rounds, no rank has two of the same round. A rank that is its own neighbour in all the
     * direction's dimensions has both links in one round. */
    uint32_t round;
};

/* Writes the links of a rank, faces first, by rounds, and returns their number. links: room for
 * HALO_LINKS_MAX. */
uint32_t halo_links(const struct halo_grid *grid, uint32_t rank, struct halo_link *links);
