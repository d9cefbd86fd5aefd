/* Constructors: blocks at arbitrary offsets, and boxes in arrays. */
#include <errno.h>
#include <stdlib.h>

#include "proto/layout_type.h"

static uint64_t length_of(const struct layout_blocks *blocks, uint64_t i)
{
    return blocks->lengths ? blocks->lengths[i] : blocks->length;
}

/* Adds blocks that each have their own layout. */
static int add_parts(struct builder *b, struct type *type, const struct layout_blocks *blocks)
{
    int r = 0;
    for (uint64_t i = 0; i < blocks->count && r == 0; i++) {
        const struct layout *inner = blocks->inners[i];
        const uint64_t length = length_of(blocks, i);
        const int64_t extent = layout_extent(inner);
        struct type block = type_of(inner);
        int64_t offset;
        if (length == 0)
            continue;
        if (__builtin_mul_overflow(blocks->offsets[i], blocks->unit_bytes, &offset))
            return -EOVERFLOW;
        if ((r = type_spread(&block, offset, length, extent)) < 0)
            return r;
        type_join(type, &block);
        type->signature = signature_append(
            type->signature, signature_repeat(inner->signature, inner->size_bytes, length),
            inner->size_bytes * length);
        r = builder_add_loop(b, inner->ops, inner->op_count, layout_pairs(inner), length, extent,
                             offset);
    }
    return r;
}

/* Adds blocks of one layout. The lowest and highest copies determine the bounds. */
static int add_blocks(struct builder *b, struct type *type, const struct layout_blocks *blocks)
{
    const struct layout *inner = blocks->inner;
    const int64_t extent = layout_extent(inner);
    const bool dense = inner->op_count == 1 && inner->ops->kind == LAYOUT_BLOCK &&
                       inner->ops->offset_bytes == 0 && (int64_t)inner->ops->count == extent;
    int64_t low = INT64_MAX, high = INT64_MIN;
    uint64_t copies = 0;
    int r = 0;
    for (uint64_t i = 0; i < blocks->count && r == 0; i++) {
        const uint64_t length = length_of(blocks, i);
        int64_t first, last, span;
        if (length == 0)
            continue;
        if (__builtin_mul_overflow(blocks->offsets[i], blocks->unit_bytes, &first) ||
            __builtin_mul_overflow(length - 1, extent, &span) ||
            __builtin_add_overflow(first, span, &last) ||
            __builtin_add_overflow(copies, length, &copies))
            return -EOVERFLOW;
        low = first < low ? first : low;
        low = last < low ? last : low;
        high = first > high ? first : high;
        high = last > high ? last : high;
        if (dense)
            r = builder_add_run(b, first, (uint64_t)extent, length, extent);
        else
            r = builder_add_loop(b, inner->ops, inner->op_count, layout_pairs(inner), length,
                                 extent, first);
    }
    if (r < 0 || copies == 0)
        return r;
    *type = type_of(inner);
    type->signature = signature_repeat(inner->signature, inner->size_bytes, copies);
    if (type->empty)
        return 0;
    if (__builtin_add_overflow(type->lb, low, &type->lb) ||
        __builtin_add_overflow(type->ub, high, &type->ub))
        return -EOVERFLOW;
    return 0;
}

/* Whether all blocks are equal and start a constant stride apart. Blocks of plain bytes are left to
 * the builder, which finds runs of them by itself. */
static bool even(const struct layout_blocks *blocks, int64_t *ret_stride)
{
    if (!blocks->inner || blocks->inner->op_count < 2 || blocks->count < 2)
        return false;
    int64_t stride, step;
    if (__builtin_sub_overflow(blocks->offsets[1], blocks->offsets[0], &stride))
        return false;
    for (uint64_t i = 1; i < blocks->count; i++)
        if (length_of(blocks, i) != length_of(blocks, 0) ||
            __builtin_sub_overflow(blocks->offsets[i], blocks->offsets[i - 1], &step) ||
            step != stride)
            return false;
    return !__builtin_mul_overflow(stride, blocks->unit_bytes, ret_stride);
}

static int evenly_indexed(const struct layout_blocks *blocks, int64_t stride, struct layout **ret)
{
    struct layout *vector;
    int64_t offset;
    if (__builtin_mul_overflow(blocks->offsets[0], blocks->unit_bytes, &offset))
        return -EOVERFLOW;
    int r = layout_hvector(blocks->inner, blocks->count, length_of(blocks, 0), stride, &vector);
    if (r < 0)
        return r;
    r = layout_shift(vector, offset, ret);
    free(vector);
    return r;
}

int layout_indexed(const struct layout_blocks *blocks, struct layout **ret)
{
    struct builder b = {0};
    struct type type = type_nothing;
    int64_t stride;
    if (even(blocks, &stride))
        return evenly_indexed(blocks, stride, ret);
    int r = blocks->inner ? add_blocks(&b, &type, blocks) : add_parts(&b, &type, blocks);
    return layout_finish(&b, r, &type, ret);
}

/* ---- boxes in arrays ---- */

/* Replaces *layout by `count` copies of it, the first at index `start`, and advances *stride from
 * one element to the whole dimension of `size` elements. */
static int add_dimension(struct layout **layout, int64_t *stride, int64_t *offset, uint64_t size,
                         uint64_t count, uint64_t start)
{
    struct layout *next;
    int64_t skipped;
    if (count > size || start > size - count)
        return -EINVAL;
    if (__builtin_mul_overflow(*stride, start, &skipped) ||
        __builtin_add_overflow(*offset, skipped, offset))
        return -EOVERFLOW;
    int r = layout_repeat(*layout, count, *stride, &next);
    if (r < 0)
        return r;
    free(*layout);
    *layout = next;
    return __builtin_mul_overflow(*stride, size, stride) ? -EOVERFLOW : 0;
}

int layout_subarray(const struct layout *inner, uint32_t dimensions, const uint64_t *sizes,
                    const uint64_t *subsizes, const uint64_t *starts, bool fortran,
                    struct layout **ret)
{
    struct layout *box, *moved;
    int64_t stride = layout_extent(inner), offset = 0;
    if (dimensions == 0)
        return -EINVAL;
    int r = layout_dup(inner, &box);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < dimensions && r == 0; i++) {
        uint32_t d = fortran ? i : dimensions - 1 - i;
        r = add_dimension(&box, &stride, &offset, sizes[d], subsizes[d], starts[d]);
    }
    if (r == 0)
        r = layout_shift(box, offset, &moved);
    free(box);
    if (r < 0)
        return r;
    r = layout_resized(moved, 0, stride, ret);
    free(moved);
    return r;
}
