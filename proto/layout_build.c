/* The constructors: programs of programs, their bounds and signatures. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/layout_builder.h"

/* ---- signatures ---- */

/*
 * A signature is a polynomial in SIGNATURE_BASE, modulo 2^64: an element type contributes its own
 * number times the base to the power of how many bytes follow it. So the signature of parts put
 * together follows from the parts, however they were made; plain bytes count nothing.
 */
#define SIGNATURE_BASE 0x9e3779b97f4a7c15ull

/* The base to the power of size. */
static uint64_t signature_shift(uint64_t size)
{
    uint64_t shift = 1;
    for (uint64_t square = SIGNATURE_BASE; size > 0; size >>= 1, square *= square)
        if (size & 1)
            shift *= square;
    return shift;
}

/* Of `count` copies of `size` bytes, one after the other: by doubling. */
static uint64_t signature_repeat(uint64_t signature, uint64_t size, uint64_t count)
{
    if (signature == 0)
        return 0;
    uint64_t shift = signature_shift(size), sum = 0;
    for (; count > 0; count >>= 1) {
        if (count & 1)
            sum = sum * shift + signature;
        signature = signature * shift + signature;
        shift *= shift;
    }
    return sum;
}

static uint64_t signature_append(uint64_t signature, uint64_t behind, uint64_t behind_bytes)
{
    return signature == 0 ? behind : signature * signature_shift(behind_bytes) + behind;
}

/* ---- bounds ---- */

/* What a layout is besides its program. */
struct type {
    bool empty; /* no element and no mark: bounds mean nothing */
    bool marked;
    int64_t lb, ub;
    uint32_t alignment;
    uint64_t signature;
};

static const struct type nothing = {.empty = true, .alignment = 1};

static struct type type_of(const struct layout *layout)
{
    return (struct type){.empty = layout->size_bytes == 0 && !layout->marked,
                         .marked = layout->marked,
                         .lb = layout->lb_bytes,
                         .ub = layout->ub_bytes,
                         .alignment = layout->alignment,
                         .signature = layout->signature};
}

/* The bounds of `count` > 0 copies, the first moved by offset. */
static int spread(struct type *type, int64_t offset, uint64_t count, int64_t stride)
{
    int64_t way;
    if (type->empty)
        return 0;
    if (__builtin_mul_overflow(stride, count - 1, &way) ||
        __builtin_add_overflow(type->lb, offset, &type->lb) ||
        __builtin_add_overflow(type->ub, offset, &type->ub) ||
        __builtin_add_overflow(way < 0 ? type->lb : type->ub, way, way < 0 ? &type->lb : &type->ub))
        return -EOVERFLOW;
    return 0;
}

/* Bounds and alignment of both together: where one has marks, only they count. */
static void join(struct type *sum, const struct type *part)
{
    if (part->alignment > sum->alignment)
        sum->alignment = part->alignment;
    if (part->empty || (sum->marked && !part->marked))
        return;
    bool first = sum->empty || (part->marked && !sum->marked);
    if (first || part->lb < sum->lb)
        sum->lb = part->lb;
    if (first || part->ub > sum->ub)
        sum->ub = part->ub;
    sum->marked = part->marked;
    sum->empty = false;
}

/* ---- from builder to layout ---- */

static int make(const struct builder *b, const struct type *type, struct layout **ret)
{
    struct layout_sum sum;
    const char *why;
    int r = layout_sum(b->ops, b->op_count, b->pairs, b->pair_count, &sum, &why);
    if (r < 0)
        return r;
    const size_t op_bytes = b->op_count * sizeof *b->ops,
                 pair_bytes = b->pair_count * sizeof *b->pairs;
    struct layout *layout = malloc(sizeof *layout + op_bytes + pair_bytes);
    if (!layout)
        return -ENOMEM;
    *layout = (struct layout){
        .magic = LAYOUT_MAGIC,
        .version = PROTO_VERSION,
        .depth = sum.depth,
        .op_count = b->op_count,
        .pair_count = b->pair_count,
        .size_bytes = sum.size_bytes,
        .block_count = sum.block_count,
        .lower_bytes = sum.lower_bytes,
        .upper_bytes = sum.upper_bytes,
        .lb_bytes = type->lb,
        .ub_bytes = type->ub,
        .signature = type->signature,
        .alignment = type->alignment,
        .marked = type->marked,
    };
    if (!layout_type_valid(layout)) {
        free(layout);
        return -EOVERFLOW;
    }
    if (op_bytes > 0)
        memcpy(layout->ops, b->ops, op_bytes);
    if (pair_bytes > 0)
        memcpy(&layout->ops[b->op_count], b->pairs, pair_bytes);
    *ret = layout;
    return 0;
}

/* Makes the layout, unless r says that adding to it failed. Releases the builder in any case. */
static int finish(struct builder *b, int r, const struct type *type, struct layout **ret)
{
    if (r == 0)
        r = builder_flush(b);
    if (r == 0)
        r = make(b, type, ret);
    builder_deinit(b);
    return r;
}

/* ---- constructors ---- */

static int contiguous(uint64_t bytes, uint64_t signature, uint32_t alignment, struct layout **ret)
{
    struct builder b = {0};
    struct type type = {.ub = (int64_t)bytes, .alignment = alignment, .signature = signature};
    return finish(&b, builder_add_block(&b, 0, bytes), &type, ret);
}

int layout_contiguous(uint64_t bytes, struct layout **ret)
{
    return contiguous(bytes, 0, 1, ret);
}

int layout_element(uint32_t type, uint64_t size_bytes, uint32_t alignment, struct layout **ret)
{
    return contiguous(size_bytes, type, alignment, ret);
}

int layout_repeat(const struct layout *inner, uint64_t count, int64_t stride_bytes,
                  struct layout **ret)
{
    if (count == 0)
        return layout_contiguous(0, ret);
    struct builder b = {0};
    struct type type = type_of(inner);
    type.signature = signature_repeat(inner->signature, inner->size_bytes, count);
    int r = spread(&type, 0, count, stride_bytes);
    if (r == 0)
        r = builder_add_loop(&b, inner->ops, inner->op_count, layout_pairs(inner), count,
                             stride_bytes, 0);
    return finish(&b, r, &type, ret);
}

int layout_hvector(const struct layout *inner, uint64_t count, uint64_t block_count,
                   int64_t stride_bytes, struct layout **ret)
{
    struct layout *block;
    int r = layout_repeat(inner, block_count, layout_extent(inner), &block);
    if (r < 0)
        return r;
    r = layout_repeat(block, count, stride_bytes, ret);
    free(block);
    return r;
}

int layout_shift(const struct layout *inner, int64_t offset_bytes, struct layout **ret)
{
    struct builder b = {0};
    struct type type = type_of(inner);
    int r = spread(&type, offset_bytes, 1, 0);
    if (r == 0)
        r = builder_add_ops(&b, inner->ops, inner->op_count, layout_pairs(inner), offset_bytes);
    return finish(&b, r, &type, ret);
}

int layout_dup(const struct layout *layout, struct layout **ret)
{
    size_t bytes = layout_bytes(layout);
    struct layout *copy = malloc(bytes);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, layout, bytes);
    *ret = copy;
    return 0;
}

int layout_resized(const struct layout *inner, int64_t lb_bytes, int64_t extent_bytes,
                   struct layout **ret)
{
    int64_t ub;
    if (__builtin_add_overflow(lb_bytes, extent_bytes, &ub))
        return -EOVERFLOW;
    struct layout *layout;
    int r = layout_dup(inner, &layout);
    if (r < 0)
        return r;
    layout->lb_bytes = lb_bytes;
    layout->ub_bytes = ub;
    layout->marked = 1;
    *ret = layout;
    return 0;
}

/* ---- blocks anywhere ---- */

static const struct layout *inner_of(const struct layout_blocks *blocks, uint64_t i)
{
    return blocks->inner ? blocks->inner : blocks->inners[i];
}

static uint64_t length_of(const struct layout_blocks *blocks, uint64_t i)
{
    return blocks->lengths ? blocks->lengths[i] : blocks->length;
}

static int add_indexed(struct builder *b, struct type *type, const struct layout_blocks *blocks,
                       uint64_t i)
{
    const struct layout *inner = inner_of(blocks, i);
    const uint64_t length = length_of(blocks, i);
    const int64_t extent = layout_extent(inner);
    struct type block = type_of(inner);
    int64_t offset;
    if (length == 0)
        return 0;
    if (__builtin_mul_overflow(blocks->offsets[i], blocks->unit_bytes, &offset))
        return -EOVERFLOW;
    int r = spread(&block, offset, length, extent);
    if (r < 0)
        return r;
    join(type, &block);
    if (blocks->inners)
        type->signature = signature_append(
            type->signature, signature_repeat(inner->signature, inner->size_bytes, length),
            inner->size_bytes * length);
    return builder_add_loop(b, inner->ops, inner->op_count, layout_pairs(inner), length, extent,
                            offset);
}

/* All blocks are alike and their starts the same distance apart; worth to be found here only where
 * a block is more than a block of bytes. */
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
    struct type type = nothing;
    int64_t stride;
    int r = 0;
    if (even(blocks, &stride))
        return evenly_indexed(blocks, stride, ret);
    uint64_t copies = 0; /* too many of them do not fit, and the sum is not used */
    for (uint64_t i = 0; i < blocks->count && r == 0; i++) {
        r = add_indexed(&b, &type, blocks, i);
        copies += length_of(blocks, i);
    }
    if (blocks->inner)
        type.signature =
            signature_repeat(blocks->inner->signature, blocks->inner->size_bytes, copies);
    return finish(&b, r, &type, ret);
}

/* ---- boxes in arrays ---- */

/* `count` of `size` places of the array so far, *layout, which is replaced; the first at `start`.
 * Moves on to the whole dimension. */
static int add_dimension(struct layout **layout, int64_t *stride, int64_t *offset, uint64_t size,
                         uint64_t count, uint64_t start)
{
    struct layout *next;
    int64_t way;
    if (count > size || start > size - count)
        return -EINVAL;
    if (__builtin_mul_overflow(*stride, start, &way) ||
        __builtin_add_overflow(*offset, way, offset))
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
