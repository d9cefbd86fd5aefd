/* What tca_halo_new() rejects. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "client/core/error.h"
#include "client/halo/halo.h"

static int check_grid(const struct tca *session, const struct tca_halo_args *args)
{
    struct halo_grid grid = {.dimensions = args->dimensions};

    if (args->dimensions < 1 || args->dimensions > TCA_HALO_DIMENSIONS)
        return error_set(-EINVAL, "a halo exchange of %u dimensions: 1 to %d are possible",
                         args->dimensions, TCA_HALO_DIMENSIONS);
    if (args->diagonals > args->dimensions)
        return error_set(-EINVAL, "diagonals %u: at most %u, the number of dimensions",
                         args->diagonals, args->dimensions);
    memcpy(grid.sizes, args->grid, sizeof(grid.sizes));
    uint32_t processes = halo_grid_processes(&grid);
    const uint32_t size = group_size(session, args->plan.group);
    if (processes != size)
        return error_set(-EINVAL,
                         "the process grid has %u processes, the group %u: the product of the "
                         "grid's sizes must be the size of the group",
                         processes, size);
    return 0;
}

static struct halo_shape shape_of(const struct tca_halo_array *array)
{
    struct halo_shape shape;

    memcpy(shape.extents, array->extents, sizeof(shape.extents));
    memcpy(shape.low, array->low, sizeof(shape.low));
    memcpy(shape.high, array->high, sizeof(shape.high));
    return shape;
}

/* The first array that has elements, or NULL. */
static const struct tca_halo_array *first_filled(const struct tca_halo_args *args)
{
    for (uint32_t a = 0; a < args->array_count; a++) {
        const struct halo_shape shape = shape_of(&args->arrays[a]);
        uint64_t elements = 0;
        if (!halo_elements(&shape, args->dimensions, 1, &elements) || elements > 0)
            return &args->arrays[a];
    }
    return NULL;
}

static uint32_t buffers_of(const struct tca_halo_array *array)
{
    return array->memory[1] ? 2 : 1;
}

uint32_t halo_buffers(const struct tca_halo_args *args)
{
    const struct tca_halo_array *first = first_filled(args);

    return first ? buffers_of(first) : 0;
}

static int check_array(const struct tca_halo_args *args, uint32_t index,
                       const struct tca_halo_array *first)
{
    const struct tca_halo_array *array = &args->arrays[index];
    const struct halo_shape shape = shape_of(array);
    uint64_t elements = 0;

    if (array->element_bytes == 0)
        return error_set(-EINVAL, "array %u: element_bytes is 0", index);
    if (!halo_elements(&shape, args->dimensions, array->element_bytes, &elements))
        return error_set(-EINVAL, "array %u has more than 2^64 bytes", index);
    if (elements == 0)
        return 0;
    if (!array->memory[0])
        return error_set(-EINVAL, "array %u: memory[0] is NULL", index);
    if (buffers_of(array) != buffers_of(first))
        return error_set(-EINVAL,
                         "array %u has %u buffers, array %u has %u: all arrays of an exchange have "
                         "the same number",
                         index, buffers_of(array), (unsigned)(first - args->arrays),
                         buffers_of(first));
    return 0;
}

int halo_check_args(const struct tca *session, const struct tca_halo_args *args)
{
    int r = check_grid(session, args);

    if (r < 0)
        return r;
    if (args->array_count < 1 || args->array_count > TCA_HALO_ARRAYS || !args->arrays)
        return error_set(-EINVAL, "a halo exchange of %u arrays: 1 to %d are possible",
                         args->arrays ? args->array_count : 0, TCA_HALO_ARRAYS);
    const struct tca_halo_array *first = first_filled(args);
    for (uint32_t a = 0; r == 0 && a < args->array_count; a++)
        r = check_array(args, a, first);
    return r;
}

static int check_head(const struct halo_head *first, uint32_t rank, const struct halo_head *head)
{
    if (memcmp(&head->grid, &first->grid, sizeof(head->grid)) != 0)
        return error_set(-EPROTO,
                         "halo exchange: the ranks 0 and %u disagree: dimensions, grid, "
                         "periodic and diagonals must be the same at all ranks",
                         rank);
    if (head->array_count != first->array_count)
        return error_set(-EPROTO, "halo exchange: rank 0 has %u arrays, rank %u has %u",
                         first->array_count, rank, head->array_count);
    return 0;
}

int halo_check_heads(const struct halo_world *world, uint32_t *ret_buffers)
{
    const struct halo_head *first = halo_head_of(world, 0);
    uint32_t filled = 0;

    for (uint32_t rank = world->heads.other; rank > 0 && rank < world->ranks; rank++) {
        const struct halo_head *head = halo_head_of(world, rank);
        int r = check_head(first, rank, head);
        if (r < 0)
            return r;
    }
    *ret_buffers = first->buffers;
    for (uint32_t rank = world->heads.other; rank > 0 && rank < world->ranks; rank++) {
        const struct halo_head *head = halo_head_of(world, rank);
        if (head->buffers == 0)
            continue;
        if (*ret_buffers && head->buffers != *ret_buffers)
            return error_set(-EPROTO,
                             "halo exchange: the arrays of rank %u have %u buffers each, those of "
                             "rank %u have %u",
                             filled, *ret_buffers, rank, head->buffers);
        if (*ret_buffers == 0) {
            *ret_buffers = head->buffers;
            filled = rank;
        }
    }
    return 0;
}

/* The rank with the same coordinate in one dimension, and 0 in all others. */
static uint32_t on_axis(const struct halo_grid *grid, uint32_t rank, uint32_t dimension)
{
    uint32_t position[TCA_HALO_DIMENSIONS];
    uint32_t stride = 1;

    halo_grid_position(grid, rank, position);
    for (uint32_t d = dimension + 1; d < grid->dimensions; d++)
        stride *= grid->sizes[d];
    return position[dimension] * stride;
}

/* The halo of a rank on one side of a dimension, against the rank that fills it. */
static int check_width(const struct halo_world *world, uint32_t array, uint32_t rank,
                       uint32_t dimension, int8_t side)
{
    const struct halo_shape *shape = &halo_part_of(world, array, rank)->shape;
    int8_t direction[TCA_HALO_DIMENSIONS] = {0};
    uint64_t width = side < 0 ? shape->low[dimension] : shape->high[dimension];
    uint32_t neighbour;

    direction[dimension] = side;
    if (!halo_grid_neighbour(&halo_head_of(world, 0)->grid, rank, direction, &neighbour))
        return 0;
    uint64_t extent = halo_part_of(world, array, neighbour)->shape.extents[dimension];
    if (width <= extent)
        return 0;
    return error_set(-EINVAL,
                     "array %u, dimension %u: the %s halo of rank %u is %llu wide, but rank %u, "
                     "which fills it, has only %llu: use fewer processes in this dimension",
                     array, dimension, side < 0 ? "low" : "high", rank, (unsigned long long)width,
                     neighbour, (unsigned long long)extent);
}

static int check_dimension(const struct halo_world *world, uint32_t array, uint32_t rank,
                           uint32_t dimension)
{
    uint32_t other = on_axis(&halo_head_of(world, 0)->grid, rank, dimension);
    uint64_t extent = halo_part_of(world, array, rank)->shape.extents[dimension];
    uint64_t others = halo_part_of(world, array, other)->shape.extents[dimension];

    if (extent != others)
        return error_set(-EINVAL,
                         "array %u, dimension %u: rank %u has extent %llu, rank %u, at the same "
                         "coordinate, %llu: they must be equal",
                         array, dimension, rank, (unsigned long long)extent, other,
                         (unsigned long long)others);
    int r = check_width(world, array, rank, dimension, -1);
    return r < 0 ? r : check_width(world, array, rank, dimension, 1);
}

int halo_check_parts(const struct halo_world *world, const struct tca_halo_args *args)
{
    int r = 0;

    for (uint32_t array = 0; array < args->array_count; array++) {
        const uint32_t other = world->parts[array].other;
        if (other)
            return error_set(
                -EPROTO,
                "array %u has elements of %llu bytes at rank 0, of %llu bytes at "
                "rank %u",
                array, (unsigned long long)halo_part_of(world, array, 0)->element_bytes,
                (unsigned long long)halo_part_of(world, array, other)->element_bytes, other);
        for (uint32_t d = 0; r >= 0 && d < args->dimensions; d++)
            r = check_dimension(world, array, world->me, d);
    }
    return r;
}
