#include "client/halo/links.h"

#include <stdlib.h>
#include <string.h>

/*
 * The ranks along a direction and its opposite form lines or, in periodic grids, rings. The edges
 * of a line alternate between two colours; a ring of an odd number of ranks needs a third one, for
 * the edge that closes it. Edges of one colour have no rank in common: each colour is a round. The
 * edges are counted in the first dimension of the direction that has more than one process.
 */
enum { COLOURS = 3 };

static uint32_t colour(const struct halo_grid *grid, const uint32_t position[TCA_HALO_DIMENSIONS],
                       const int8_t direction[TCA_HALO_DIMENSIONS])
{
    for (uint32_t d = 0; d < grid->dimensions; d++) {
        uint32_t size = grid->sizes[d];
        if (direction[d] == 0 || size == 1)
            continue;
        /* edge i joins the positions i and i + 1 */
        uint32_t edge = direction[d] > 0 ? position[d] : (position[d] + size - 1) % size;
        return size % 2 == 1 && edge == size - 1 ? 2 : edge % 2;
    }
    return 0;
}

/* Number of dimensions in which a direction displaces. */
static uint32_t order_of(const int8_t direction[TCA_HALO_DIMENSIONS])
{
    uint32_t order = 0;

    for (uint32_t d = 0; d < TCA_HALO_DIMENSIONS; d++)
        order += direction[d] != 0;
    return order;
}

/* The digits of code to base 3, less 1. Codes of opposite directions add up to 3^dimensions - 1. */
static void decode(uint32_t code, uint32_t dimensions, int8_t ret_direction[TCA_HALO_DIMENSIONS])
{
    for (uint32_t d = 0; d < TCA_HALO_DIMENSIONS; d++)
        ret_direction[d] = 0;
    for (uint32_t d = dimensions; d-- > 0; code /= 3)
        ret_direction[d] = (int8_t)(code % 3) - 1;
}

static int by_round(const void *a, const void *b)
{
    const struct halo_link *left = a, *right = b;

    if (left->round != right->round)
        return left->round < right->round ? -1 : 1;
    return memcmp(left->direction, right->direction, sizeof(left->direction));
}

uint32_t halo_links(const struct halo_grid *grid, uint32_t rank, struct halo_link *links)
{
    uint32_t position[TCA_HALO_DIMENSIONS];
    uint32_t count = 0, codes = 1;

    for (uint32_t d = 0; d < grid->dimensions; d++)
        codes *= 3;
    halo_grid_position(grid, rank, position);
    for (uint32_t code = 0; code < codes; code++) {
        struct halo_link *link = &links[count];
        decode(code, grid->dimensions, link->direction);
        uint32_t order = order_of(link->direction);
        if (order == 0 || order > grid->diagonals ||
            !halo_grid_neighbour(grid, rank, link->direction, &link->rank))
            continue;
        uint32_t opposite = codes - 1 - code, axis = code < opposite ? code : opposite;
        link->round = (order * codes + axis) * COLOURS + colour(grid, position, link->direction);
        count++;
    }
    qsort(links, count, sizeof(*links), by_round);
    return count;
}
