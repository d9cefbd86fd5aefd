#include "client/halo/shape.h"

uint32_t halo_grid_processes(const struct halo_grid *grid)
{
    uint32_t processes = 1;

    for (uint32_t d = 0; d < grid->dimensions; d++)
        if (__builtin_mul_overflow(processes, grid->sizes[d], &processes))
            return 0;
    return processes;
}

void halo_grid_position(const struct halo_grid *grid, uint32_t rank,
                        uint32_t ret_position[TCA_HALO_DIMENSIONS])
{
    for (uint32_t d = grid->dimensions; d-- > 0; rank /= grid->sizes[d])
        ret_position[d] = rank % grid->sizes[d];
}

bool halo_grid_neighbour(const struct halo_grid *grid, uint32_t rank,
                         const int8_t direction[TCA_HALO_DIMENSIONS], uint32_t *ret_rank)
{
    uint32_t position[TCA_HALO_DIMENSIONS];
    uint32_t neighbour = 0;

    halo_grid_position(grid, rank, position);
    for (uint32_t d = 0; d < grid->dimensions; d++) {
        int64_t at = (int64_t)position[d] + direction[d];
        if ((at < 0 || at >= grid->sizes[d]) && !grid->periodic[d])
            return false;
        at = (at + grid->sizes[d]) % grid->sizes[d];
        neighbour = neighbour * grid->sizes[d] + (uint32_t)at;
    }
    *ret_rank = neighbour;
    return true;
}

uint64_t halo_full(const struct halo_shape *shape, uint32_t dimension)
{
    return shape->low[dimension] + shape->extents[dimension] + shape->high[dimension];
}

bool halo_elements(const struct halo_shape *shape, uint32_t dimensions, uint64_t element_bytes,
                   uint64_t *ret_elements)
{
    uint64_t elements = 1;
    uint64_t bytes = element_bytes;

    for (uint32_t d = 0; d < dimensions; d++) {
        uint64_t full;
        if (__builtin_add_overflow(shape->low[d], shape->extents[d], &full) ||
            __builtin_add_overflow(full, shape->high[d], &full) ||
            __builtin_mul_overflow(bytes, full, &bytes))
            return false;
        elements *= full; /* no more than bytes */
    }
    *ret_elements = elements;
    return true;
}

bool halo_boxes(uint32_t dimensions, const struct halo_shape *mine, const struct halo_shape *theirs,
                const int8_t direction[TCA_HALO_DIMENSIONS], struct halo_box *ret_from,
                struct halo_box *ret_to)
{
    bool some = true;

    for (uint32_t d = 0; d < dimensions; d++) {
        uint64_t size, from = mine->low[d], to = 0;
        if (direction[d] > 0) {
            size = theirs->low[d];
            from += mine->extents[d] - size;
        } else if (direction[d] < 0) {
            size = theirs->high[d];
            to = theirs->low[d] + theirs->extents[d];
        } else {
            size = mine->extents[d];
            to = theirs->low[d];
        }
        ret_from->starts[d] = from;
        ret_to->starts[d] = to;
        ret_from->sizes[d] = ret_to->sizes[d] = size;
        some = some && size > 0;
    }
    return some;
}

uint64_t halo_box_elements(uint32_t dimensions, const struct halo_box *box)
{
    uint64_t elements = 1;

    for (uint32_t d = 0; d < dimensions; d++)
        elements *= box->sizes[d];
    return elements;
}

enum tca_halo_kind halo_box_kind(uint32_t dimensions, const struct halo_shape *shape,
                                 const struct halo_box *box)
{
    uint64_t block = 1;

    for (uint32_t d = dimensions; d-- > 0;) {
        block *= box->sizes[d];
        if (box->sizes[d] != halo_full(shape, d))
            break;
    }
    if (block == halo_box_elements(dimensions, box))
        return TCA_HALO_BLOCK;
    return block > 1 ? TCA_HALO_BLOCK_STRIDE : TCA_HALO_STRIDE;
}
