#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/layout_internal.h"

/* A program in the making. Whatever is added comes out normalised. */
struct builder {
    struct layout_op *ops;
    uint32_t op_count, op_room;
    struct layout_pair *pairs;
    uint32_t pair_count, pair_room;
    uint32_t depth; /* of open loops; one more than allowed, because closing may merge two */
    struct {
        uint32_t loop; /* the open loop itself; none at level 0 */
        bool has_last; /* something complete lies directly in this body: */
        uint32_t last; /* most lately this */
    } levels[LAYOUT_DEPTH_MAX + 2];
};

/* Room for more items in an array that doubles. */
static int reserve(void **items, uint32_t *room, uint32_t used, uint64_t more, size_t item_bytes)
{
    if (more > LAYOUT_OPS_MAX - used)
        return -E2BIG;
    if (used + more <= *room)
        return 0;
    uint32_t wanted = *room ? *room : 4;
    while (wanted < used + more)
        wanted *= 2;
    void *grown = reallocarray(*items, wanted, item_bytes);
    if (!grown)
        return -ENOMEM;
    *items = grown;
    *room = wanted;
    return 0;
}

static int push_op(struct builder *b, struct layout_op op)
{
    int r = reserve((void **)&b->ops, &b->op_room, b->op_count, 1, sizeof *b->ops);
    if (r < 0)
        return r;
    b->ops[b->op_count++] = op;
    return 0;
}

/* The operation at this index is complete; the next one may be merged with it. */
static void set_last(struct builder *b, uint32_t at)
{
    b->levels[b->depth].last = at;
    b->levels[b->depth].has_last = true;
}

static int add_op(struct builder *b, struct layout_op op)
{
    int r = push_op(b, op);
    if (r == 0)
        set_last(b, b->op_count - 1);
    return r;
}

static int add_block(struct builder *b, int64_t offset, uint64_t length)
{
    if (b->levels[b->depth].has_last) {
        struct layout_op *last = &b->ops[b->levels[b->depth].last];
        int64_t end;
        if (last->kind == LAYOUT_BLOCK &&
            !__builtin_add_overflow(last->offset_bytes, last->count, &end) && end == offset)
            return __builtin_add_overflow(last->count, length, &last->count) ? -EOVERFLOW : 0;
    }
    return add_op(
        b, (struct layout_op){.kind = LAYOUT_BLOCK, .count = length, .offset_bytes = offset});
}

static int add_list(struct builder *b, int64_t offset, const struct layout_pair *pairs,
                    uint64_t count)
{
    int r = reserve((void **)&b->pairs, &b->pair_room, b->pair_count, count, sizeof *b->pairs);
    if (r < 0)
        return r;
    struct layout_pair *mine = b->pairs + b->pair_count;
    uint32_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct layout_pair *last = n > 0 ? &mine[n - 1] : NULL;
        int64_t end;
        if (last && !__builtin_add_overflow(last->offset_bytes, last->length_bytes, &end) &&
            end == pairs[i].offset_bytes) {
            if (__builtin_add_overflow(last->length_bytes, pairs[i].length_bytes,
                                       &last->length_bytes))
                return -EOVERFLOW;
        } else {
            mine[n++] = pairs[i];
        }
    }
    if (n == 1)
        return __builtin_add_overflow(offset, mine->offset_bytes, &offset)
                   ? -EOVERFLOW
                   : add_block(b, offset, mine->length_bytes);
    uint32_t body = b->pair_count;
    b->pair_count += n;
    return add_op(b, (struct layout_op){
                         .kind = LAYOUT_LIST, .body = body, .count = n, .offset_bytes = offset});
}

static int open_loop(struct builder *b, uint64_t count, int64_t stride, int64_t offset)
{
    if (b->depth == LAYOUT_DEPTH_MAX + 1)
        return -E2BIG;
    uint32_t at = b->op_count;
    int r = push_op(b, (struct layout_op){.kind = LAYOUT_LOOP,
                                          .count = count,
                                          .offset_bytes = offset,
                                          .stride_bytes = stride});
    if (r < 0)
        return r;
    b->depth++;
    b->levels[b->depth].loop = at;
    b->levels[b->depth].has_last = false;
    return 0;
}

/* Closes the innermost loop, and simplifies one around a single operation. */
static int close_loop(struct builder *b)
{
    uint32_t at = b->levels[b->depth].loop;
    bool single = b->levels[b->depth].last == at + 1;
    struct layout_op *loop = &b->ops[at], *child = loop + 1;
    b->depth--;
    loop->body = b->op_count - at - 1;

    int64_t offset, child_span;
    if (!single || __builtin_add_overflow(loop->offset_bytes, child->offset_bytes, &offset)) {
        set_last(b, at);
        return 0;
    }

    if (child->kind == LAYOUT_BLOCK && loop->stride_bytes >= 0 &&
        (uint64_t)loop->stride_bytes == child->count) { /* contiguous */
        uint64_t length;
        if (__builtin_mul_overflow(loop->count, child->count, &length))
            return -EOVERFLOW;
        b->op_count = at;
        return add_block(b, offset, length);
    }

    set_last(b, at);
    loop->offset_bytes = offset;
    child->offset_bytes = 0;
    if (child->kind == LAYOUT_LOOP &&
        !__builtin_mul_overflow(child->stride_bytes, child->count, &child_span) &&
        child_span == loop->stride_bytes) { /* the next iteration goes on where this one stops */
        if (__builtin_mul_overflow(loop->count, child->count, &child->count))
            return -EOVERFLOW;
        child->offset_bytes = offset;
        memmove(loop, child, (b->op_count - at - 1) * sizeof *loop);
        b->op_count--;
    }
    return 0;
}

static int add_loop(struct builder *b, const struct layout_op *loop, const struct layout_op *body,
                    const struct layout_pair *pairs);

/* Adds a checked program's operations, all of them moved by offset. */
static int add_ops(struct builder *b, const struct layout_op *ops, uint32_t count,
                   const struct layout_pair *pairs, int64_t offset)
{
    int r = 0;
    for (uint32_t i = 0; i < count && r == 0; i++) {
        struct layout_op op = ops[i];
        if (__builtin_add_overflow(op.offset_bytes, offset, &op.offset_bytes))
            return -EOVERFLOW;
        switch (op.kind) {
        case LAYOUT_BLOCK:
            r = add_block(b, op.offset_bytes, op.count);
            break;
        case LAYOUT_LIST:
            r = add_list(b, op.offset_bytes, pairs + op.body, op.count);
            break;
        case LAYOUT_LOOP:
            r = add_loop(b, &op, ops + i + 1, pairs);
            i += op.body;
            break;
        }
    }
    return r;
}

/* Recursion is at most LAYOUT_DEPTH_MAX deep: the program was checked. */
static int add_loop(struct builder *b, const struct layout_op *loop, const struct layout_op *body,
                    const struct layout_pair *pairs)
{
    if (loop->count == 1)
        return add_ops(b, body, loop->body, pairs, loop->offset_bytes);
    int r = open_loop(b, loop->count, loop->stride_bytes, loop->offset_bytes);
    if (r == 0)
        r = add_ops(b, body, loop->body, pairs, 0);
    if (r == 0)
        r = close_loop(b);
    return r;
}

/* Makes the program, unless r says that adding to it failed. Releases the builder in any case. */
static int finish(struct builder *b, int r, int64_t extent, uint64_t signature, struct layout **ret)
{
    struct layout_sum sum;
    struct layout *layout = NULL;
    const char *why;
    if (r == 0)
        r = layout_sum(b->ops, b->op_count, b->pairs, b->pair_count, &sum, &why);
    if (r < 0)
        goto out;
    size_t op_bytes = b->op_count * sizeof *b->ops, pair_bytes = b->pair_count * sizeof *b->pairs;
    layout = malloc(sizeof *layout + op_bytes + pair_bytes);
    if (!layout) {
        r = -ENOMEM;
        goto out;
    }
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
        .extent_bytes = extent,
        .signature = signature,
    };
    if (op_bytes > 0)
        memcpy(layout->ops, b->ops, op_bytes);
    if (pair_bytes > 0)
        memcpy(&layout->ops[b->op_count], b->pairs, pair_bytes);
    *ret = layout;
out:
    free(b->ops);
    free(b->pairs);
    return r;
}

/* ---- signatures ---- */

/*
 * A signature is a polynomial in SIGNATURE_BASE, modulo 2^64: an element type contributes its own
 * number times the base to the power of how many bytes follow it. So the signature of parts put
 * together follows from the parts, however they were made; plain bytes count nothing.
 */
#define SIGNATURE_BASE 0x9e3779b97f4a7c15ull

/* Of `count` copies of `size` bytes, one after the other: by doubling. */
static uint64_t signature_repeat(uint64_t signature, uint64_t size, uint64_t count)
{
    uint64_t shift = 1; /* by one copy: base to the power of size */
    for (uint64_t square = SIGNATURE_BASE; size > 0; size >>= 1, square *= square)
        if (size & 1)
            shift *= square;
    uint64_t sum = 0;
    for (; count > 0; count >>= 1) {
        if (count & 1)
            sum = sum * shift + signature;
        signature = signature * shift + signature;
        shift *= shift;
    }
    return sum;
}

/* ---- constructors ---- */

int layout_contiguous(uint64_t bytes, struct layout **ret)
{
    struct builder b = {0};
    if (bytes > INT64_MAX)
        return -EOVERFLOW;
    int r = bytes > 0 ? add_block(&b, 0, bytes) : 0;
    return finish(&b, r, (int64_t)bytes, 0, ret);
}

/* From the start of the first copy to where one more copy would start at the earliest. */
static int repeated_extent(int64_t extent, uint64_t count, int64_t stride, int64_t *ret)
{
    uint64_t distance = stride < 0 ? -(uint64_t)stride : (uint64_t)stride, span;
    return __builtin_mul_overflow(distance, count - 1, &span) ||
                   __builtin_add_overflow(span, extent, ret)
               ? -EOVERFLOW
               : 0;
}

int layout_repeat(const struct layout *inner, uint64_t count, int64_t stride_bytes,
                  struct layout **ret)
{
    if (count == 0 || inner->size_bytes == 0)
        return layout_contiguous(0, ret);
    int64_t extent;
    int r = repeated_extent(inner->extent_bytes, count, stride_bytes, &extent);
    if (r < 0)
        return r;
    struct builder b = {0};
    struct layout_op loop = {
        .kind = LAYOUT_LOOP, .body = inner->op_count, .count = count, .stride_bytes = stride_bytes};
    r = add_loop(&b, &loop, inner->ops, layout_pairs(inner));
    return finish(&b, r, extent, signature_repeat(inner->signature, inner->size_bytes, count), ret);
}

int layout_shift(const struct layout *inner, int64_t offset_bytes, struct layout **ret)
{
    struct builder b = {0};
    int r = add_ops(&b, inner->ops, inner->op_count, layout_pairs(inner), offset_bytes);
    return finish(&b, r, inner->extent_bytes, inner->signature, ret);
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
