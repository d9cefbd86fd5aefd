#include "client/mpi/convert.h"

#include <errno.h>
#include <stdlib.h>

/* The numbers of a constructor, and where the next of them is. */
struct reader {
    const int64_t *next;
    const struct tca_layout *inner; /* of all but structures */
};

static int64_t number(struct reader *reader)
{
    return *reader->next++;
}

static const int64_t *numbers(struct reader *reader, uint64_t count)
{
    const int64_t *first = reader->next;
    reader->next += count;
    return first;
}

/* Counts and lengths are not negative: the MPI has checked them. */
static const uint64_t *counts(struct reader *reader, uint64_t count)
{
    return (const uint64_t *)numbers(reader, count);
}

static int convert_vector(struct reader *reader, bool in_bytes, struct tca_layout **ret_layout)
{
    uint64_t count = (uint64_t)number(reader), length = (uint64_t)number(reader);
    int64_t stride = number(reader);
    return (in_bytes ? tca_layout_hvector : tca_layout_vector)(reader->inner, count, length, stride,
                                                               ret_layout);
}

static int convert_indexed(struct reader *reader, bool in_bytes, struct tca_layout **ret_layout)
{
    uint64_t count = (uint64_t)number(reader);
    const uint64_t *lengths = counts(reader, count);
    const int64_t *offsets = numbers(reader, count);
    return (in_bytes ? tca_layout_hindexed : tca_layout_indexed)(reader->inner, count, lengths,
                                                                 offsets, ret_layout);
}

static int convert_blocks(struct reader *reader, bool in_bytes, struct tca_layout **ret_layout)
{
    uint64_t count = (uint64_t)number(reader), length = (uint64_t)number(reader);
    const int64_t *offsets = numbers(reader, count);
    return (in_bytes ? tca_layout_hindexed_block
                     : tca_layout_indexed_block)(reader->inner, count, length, offsets, ret_layout);
}

static int convert_struct(struct reader *reader, struct value *const *inners,
                          struct tca_layout **ret_layout)
{
    uint64_t count = (uint64_t)number(reader);
    const uint64_t *lengths = counts(reader, count);
    const int64_t *offsets = numbers(reader, count);
    const struct tca_layout **layouts = malloc((count + 1) * sizeof(struct tca_layout *));
    if (!layouts)
        return -ENOMEM;
    for (uint64_t i = 0; i < count; i++)
        layouts[i] = inners[i]->layout;
    int r = tca_layout_struct(count, layouts, lengths, offsets, ret_layout);
    free(layouts);
    return r;
}

static int convert_subarray(struct reader *reader, struct tca_layout **ret_layout)
{
    uint32_t dimensions = (uint32_t)number(reader);
    const uint64_t *sizes = counts(reader, dimensions);
    const uint64_t *subsizes = counts(reader, dimensions);
    const uint64_t *starts = counts(reader, dimensions);
    enum tca_order order = number(reader) == MPI_ORDER_FORTRAN ? TCA_ORDER_FORTRAN : TCA_ORDER_C;
    return tca_layout_subarray(reader->inner, dimensions, sizes, subsizes, starts, order,
                               ret_layout);
}

/* ---- distributed arrays ---- */

/* One dimension: `size` elements dealt to `processes` processes in blocks of `block`. */
struct dealt {
    int64_t size, processes, block;
    int64_t place; /* of this process */
};

/* Adds the loop over the elements of this process, which are `stride` bytes apart, around *layout,
 * which it replaces. */
static int deal(struct tca_layout **layout, const struct dealt *dealt, int64_t stride)
{
    int64_t round = dealt->block * dealt->processes, start = dealt->block * dealt->place;
    int64_t full = dealt->size > start ? (dealt->size - start) / round : 0;
    int64_t rest = dealt->size > start ? (dealt->size - start) % round : 0;
    if (rest >= dealt->block) {
        full++;
        rest = 0;
    }
    struct tca_layout *block = NULL, *blocks = NULL, *last = NULL, *all = NULL;
    int r = tca_layout_repeat(*layout, (uint64_t)dealt->block, stride, &block);
    if (r == 0)
        r = tca_layout_repeat(block, (uint64_t)full, round * stride, &blocks);
    if (r == 0)
        r = tca_layout_repeat(*layout, (uint64_t)rest, stride, &last);
    if (r == 0)
        r = tca_layout_struct(
            2, (const struct tca_layout *const[]){blocks, last}, (const uint64_t[]){1, 1},
            (const int64_t[]){start * stride, (start + full * round) * stride}, &all);
    tca_layout_free(block);
    tca_layout_free(blocks);
    tca_layout_free(last);
    if (r < 0)
        return r;
    tca_layout_free(*layout);
    *layout = all;
    return 0;
}

/* Processes are numbered as C does, whatever the order of the elements. */
static int64_t place_in_grid(int64_t rank, const int64_t *processes, uint32_t dimensions,
                             uint32_t dimension)
{
    for (uint32_t i = dimensions - 1; i > dimension; i--)
        rank /= processes[i];
    return rank % processes[dimension];
}

static int64_t block_of(int64_t kind, int64_t argument, int64_t size, int64_t processes)
{
    if (kind == MPI_DISTRIBUTE_NONE)
        return size;
    if (argument != MPI_DISTRIBUTE_DFLT_DARG)
        return argument;
    return kind == MPI_DISTRIBUTE_BLOCK ? (size + processes - 1) / processes : 1;
}

static int convert_darray(struct reader *reader, struct tca_layout **ret_layout)
{
    number(reader); /* the processes in all */
    const int64_t rank = number(reader);
    const uint32_t dimensions = (uint32_t)number(reader);
    const int64_t *sizes = numbers(reader, dimensions), *kinds = numbers(reader, dimensions);
    const int64_t *arguments = numbers(reader, dimensions);
    const int64_t *processes = numbers(reader, dimensions);
    const bool fortran = number(reader) == MPI_ORDER_FORTRAN;
    int64_t lower, stride;
    tca_layout_extent(reader->inner, &lower, &stride);
    struct tca_layout *layout;
    int r = tca_layout_dup(reader->inner, &layout);
    for (uint32_t n = 0; r == 0 && n < dimensions; n++) {
        uint32_t i = fortran ? n : dimensions - 1 - n;
        struct dealt dealt = {
            .size = sizes[i],
            .processes = processes[i],
            .block = block_of(kinds[i], arguments[i], sizes[i], processes[i]),
            .place = place_in_grid(rank, processes, dimensions, i),
        };
        r = deal(&layout, &dealt, stride);
        if (r < 0)
            tca_layout_free(layout);
        stride *= sizes[i];
    }
    if (r == 0)
        *ret_layout = layout;
    return r;
}

/* ---- all of them ---- */

/* Blocks that may need an entry of a table. */
static uint64_t irregular_of(const struct contents *contents, struct value *const *inners,
                             const struct tca_layout *layout)
{
    const uint64_t blocks = tca_layout_blocks(layout);
    const bool list = contents->combiner == MPI_COMBINER_STRUCT ||
                      contents->combiner == MPI_COMBINER_INDEXED ||
                      contents->combiner == MPI_COMBINER_HINDEXED ||
                      contents->combiner == MPI_COMBINER_INDEXED_BLOCK ||
                      contents->combiner == MPI_COMBINER_HINDEXED_BLOCK;
    if (list || contents->inner_count == 0)
        return blocks;
    return inners[0]->irregular < blocks ? inners[0]->irregular : blocks;
}

static int convert_by_combiner(const struct contents *contents, struct value *const *inners,
                               struct tca_layout **ret_layout)
{
    struct reader reader = {.next = contents->values, .inner = inners[0]->layout};
    switch (contents->combiner) {
    case MPI_COMBINER_CONTIGUOUS:
        return tca_layout_array(reader.inner, (uint64_t)number(&reader), ret_layout);
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
        return convert_vector(&reader, contents->combiner == MPI_COMBINER_HVECTOR, ret_layout);
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
        return convert_indexed(&reader, contents->combiner == MPI_COMBINER_HINDEXED, ret_layout);
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
        return convert_blocks(&reader, contents->combiner == MPI_COMBINER_HINDEXED_BLOCK,
                              ret_layout);
    case MPI_COMBINER_STRUCT:
        return convert_struct(&reader, inners, ret_layout);
    case MPI_COMBINER_SUBARRAY:
        return convert_subarray(&reader, ret_layout);
    case MPI_COMBINER_DARRAY:
        return convert_darray(&reader, ret_layout);
    case MPI_COMBINER_RESIZED: {
        int64_t lower = number(&reader);
        return tca_layout_resized(reader.inner, lower, number(&reader), ret_layout);
    }
    default:
        return -E2BIG;
    }
}

int convert(const struct contents *contents, struct value *const *inners,
            struct tca_layout **ret_layout, uint64_t *ret_irregular)
{
    if (contents->inner_count == 0) /* a structure of nothing */
        return tca_layout_contiguous(0, ret_layout);
    for (size_t i = 0; i < contents->inner_count; i++)
        if (!inners[i]->layout)
            return -E2BIG;
    int r = convert_by_combiner(contents, inners, ret_layout);
    if (r == 0)
        *ret_irregular = irregular_of(contents, inners, *ret_layout);
    return r;
}
