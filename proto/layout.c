#include "proto/layout.h"

#include <errno.h>

#include "proto/layout_internal.h"

size_t layout_bytes(const struct layout *layout)
{
    return sizeof(*layout) + (size_t)layout->op_count * sizeof(struct layout_op) +
           (size_t)layout->pair_count * sizeof(struct layout_pair);
}

/* ---- what a program yields ---- */

/* Adds a block, or several blocks within two bounds, to a sum. */
static bool sum_add(struct layout_sum *sum, uint64_t size, uint64_t blocks, int64_t lower,
                    int64_t upper)
{
    if (sum->size_bytes == 0 || lower < sum->lower_bytes)
        sum->lower_bytes = lower;
    if (sum->size_bytes == 0 || upper > sum->upper_bytes)
        sum->upper_bytes = upper;
    return !__builtin_add_overflow(sum->size_bytes, size, &sum->size_bytes) &&
           !__builtin_add_overflow(sum->block_count, blocks, &sum->block_count);
}

/* Limits the length of a block to 63 bits, so that lengths can be used as signed distances. */
static bool sum_block(struct layout_sum *sum, int64_t offset, uint64_t length)
{
    int64_t upper;
    return length <= INT64_MAX && !__builtin_add_overflow(offset, length, &upper) &&
           sum_add(sum, length, 1, offset, upper);
}

/* Adds all iterations of a loop whose body yields `body`. */
static bool sum_loop(struct layout_sum *sum, const struct layout_op *loop,
                     const struct layout_sum *body)
{
    uint64_t size, blocks;
    int64_t first_lower, first_upper, span, last_lower, last_upper;
    if (__builtin_mul_overflow(body->size_bytes, loop->count, &size) ||
        __builtin_mul_overflow(body->block_count, loop->count, &blocks) ||
        __builtin_mul_overflow(loop->stride_bytes, loop->count - 1, &span) ||
        __builtin_add_overflow(body->lower_bytes, loop->offset_bytes, &first_lower) ||
        __builtin_add_overflow(body->upper_bytes, loop->offset_bytes, &first_upper) ||
        __builtin_add_overflow(first_lower, span, &last_lower) ||
        __builtin_add_overflow(first_upper, span, &last_upper))
        return false;
    return sum_add(sum, size, blocks, span < 0 ? last_lower : first_lower,
                   span < 0 ? first_upper : last_upper);
}

static int refuse(int error, const char *why, const char **ret_why)
{
    *ret_why = why;
    return error;
}

/* A tight loop, because lists can have a million pairs. */
static int sum_list(struct layout_sum *sum, const struct layout_op *list,
                    const struct layout_pair *pairs, const char **ret_why)
{
    const struct layout_pair *pair = pairs + list->body, *end = pair + list->count;
    const int64_t base = list->offset_bytes;
    const uint64_t each = list->each_bytes;
    int64_t lower = INT64_MAX, upper = INT64_MIN;
    uint64_t size = 0;
    for (; pair < end; pair++) {
        const uint64_t length = pair->length_bytes;
        int64_t first, last;
        if (length == 0)
            return refuse(-EINVAL, "a list has an empty block", ret_why);
        if (each != 0 && length != each)
            return refuse(-EINVAL, "a list of equal blocks has a block of another length", ret_why);
        if (length > INT64_MAX || __builtin_add_overflow(base, pair->offset_bytes, &first) ||
            __builtin_add_overflow(first, length, &last) ||
            __builtin_add_overflow(size, length, &size))
            return refuse(-EOVERFLOW, "size or bounds of a list overflow", ret_why);
        lower = first < lower ? first : lower;
        upper = last > upper ? last : upper;
    }
    if (!sum_add(sum, size, list->count, lower, upper))
        return refuse(-EOVERFLOW, "size or bounds of a list overflow", ret_why);
    return 0;
}

/* The state of layout_sum(). Level 0 is the whole program; each further level is a loop in
 * progress. */
struct summing {
    const struct layout_pair *pairs;
    uint32_t pair_count;
    uint32_t pairs_used; /* lists own consecutive pairs, which keeps the work linear */
    uint32_t depth, depth_most;
    struct {
        const struct layout_op *loop;
        uint32_t end; /* index after its body */
        struct layout_sum sum;
    } levels[LAYOUT_DEPTH_MAX + 1];
};

static int enter_loop(struct summing *s, const struct layout_op *op, uint32_t first,
                      const char **ret_why)
{
    if (op->body == 0 || op->body > s->levels[s->depth].end - first)
        return refuse(-EINVAL, "the body of a loop is empty or extends beyond the enclosing loop",
                      ret_why);
    if (s->depth == LAYOUT_DEPTH_MAX)
        return refuse(-E2BIG, "loops are nested more than 16 deep", ret_why);
    s->depth++;
    if (s->depth > s->depth_most)
        s->depth_most = s->depth;
    s->levels[s->depth].loop = op;
    s->levels[s->depth].end = first + op->body;
    s->levels[s->depth].sum = (struct layout_sum){0};
    return 0;
}

static int leave_loop(struct summing *s, const char **ret_why)
{
    const struct layout_op *loop = s->levels[s->depth].loop;
    const struct layout_sum *body = &s->levels[s->depth].sum;
    s->depth--;
    if (!sum_loop(&s->levels[s->depth].sum, loop, body))
        return refuse(-EOVERFLOW, "size or bounds of a loop overflow", ret_why);
    return 0;
}

/* Adds one operation; `next` is the index of the one after it. */
static int sum_op(struct summing *s, const struct layout_op *op, uint32_t next,
                  const char **ret_why)
{
    struct layout_sum *sum = &s->levels[s->depth].sum;
    if (op->count == 0)
        return refuse(-EINVAL, "an operation has a count of zero", ret_why);
    if (op->kind == LAYOUT_LOOP)
        return enter_loop(s, op, next, ret_why);
    if (op->kind != LAYOUT_BLOCK && op->kind != LAYOUT_LIST)
        return refuse(-EINVAL, "an operation is of an unknown kind", ret_why);
    if (op->kind == LAYOUT_BLOCK) {
        if (op->body != 0 || op->stride_bytes != 0)
            return refuse(-EINVAL, "a block has a body or a stride", ret_why);
        if (!sum_block(sum, op->offset_bytes, op->count))
            return refuse(-EOVERFLOW, "size or bounds of a block overflow", ret_why);
        return 0;
    }
    if (op->body != s->pairs_used || op->count > s->pair_count - s->pairs_used)
        return refuse(-EINVAL, "a list does not refer to the next pairs of the table", ret_why);
    s->pairs_used += (uint32_t)op->count;
    return sum_list(sum, op, s->pairs, ret_why);
}

int layout_sum(const struct layout_op *ops, uint32_t op_count, const struct layout_pair *pairs,
               uint32_t pair_count, struct layout_sum *ret, const char **ret_why)
{
    struct summing s = {.pairs = pairs, .pair_count = pair_count, .levels = {{.end = op_count}}};
    for (uint32_t i = 0; s.depth > 0 || i < op_count;) {
        bool at_end = i == s.levels[s.depth].end;
        int r = at_end ? leave_loop(&s, ret_why) : sum_op(&s, &ops[i], i + 1, ret_why);
        if (r < 0)
            return r;
        i += !at_end;
    }
    if (s.pairs_used != pair_count)
        return refuse(-EINVAL, "no list uses some of the pairs", ret_why);
    *ret = s.levels[0].sum;
    ret->depth = (uint16_t)s.depth_most;
    return 0;
}

/* ---- checks ---- */

/* The distance from lb to ub, padded to the alignment; false if it does not fit in 63 bits. */
static bool extent(const struct layout *layout, int64_t *ret)
{
    int64_t span, padded;
    if (__builtin_sub_overflow(layout->ub_bytes, layout->lb_bytes, &span))
        return false;
    if (!layout->marked) {
        if (__builtin_add_overflow(span, (int64_t)layout->alignment - 1, &padded))
            return false;
        span = padded & -(int64_t)layout->alignment;
    }
    *ret = span;
    return true;
}

int64_t layout_extent(const struct layout *layout)
{
    int64_t bytes = 0;
    extent(layout, &bytes); /* cannot fail: checked when the layout was made or received */
    return bytes;
}

bool layout_type_valid(const struct layout *layout)
{
    int64_t bytes;
    return layout->alignment <= 16 && __builtin_popcount(layout->alignment) == 1 &&
           layout->marked <= 1 && extent(layout, &bytes) && (layout->marked || bytes >= 0);
}

static int check(const struct layout *layout, size_t bytes, const char **ret_why)
{
    if ((uintptr_t)layout % _Alignof(struct layout) != 0)
        return refuse(-EINVAL, "the program is not aligned in memory", ret_why);
    if (bytes < sizeof(*layout) || layout->magic != LAYOUT_MAGIC)
        return refuse(-EINVAL, "the data is not a layout program (wrong magic number or too short)",
                      ret_why);
    if (layout->version != PROTO_VERSION)
        return refuse(-EPROTO, "the layout program is of another protocol version", ret_why);
    if (layout->op_count > LAYOUT_OPS_MAX || layout->pair_count > LAYOUT_OPS_MAX)
        return refuse(-E2BIG, "the program has more than 1048576 operations or pairs", ret_why);
    if (bytes != layout_bytes(layout))
        return refuse(-EINVAL, "the length does not match the numbers of operations and pairs",
                      ret_why);

    struct layout_sum sum;
    int r = layout_sum(layout->ops, layout->op_count, layout_pairs(layout), layout->pair_count,
                       &sum, ret_why);
    if (r < 0)
        return r == -EOVERFLOW ? -EINVAL : r;
    if (sum.depth != layout->depth || sum.size_bytes != layout->size_bytes ||
        sum.block_count != layout->block_count || sum.lower_bytes != layout->lower_bytes ||
        sum.upper_bytes != layout->upper_bytes)
        return refuse(-EINVAL, "depth, size, blocks or bounds do not match the operations",
                      ret_why);
    if (!layout_type_valid(layout))
        return refuse(-EINVAL, "the bounds or the alignment of the type are invalid", ret_why);
    return 0;
}
static_assert(LAYOUT_OPS_MAX == 1048576 && LAYOUT_DEPTH_MAX == 16, "error texts name the limits");

int layout_check(const void *data, size_t bytes, const char **ret_why)
{
    const char *why;
    int r = check(data, bytes, &why);
    if (r < 0 && ret_why)
        *ret_why = why;
    return r;
}

bool layout_fits(const struct layout *layout, uint64_t offset_bytes, uint64_t length_bytes)
{
    if (layout->size_bytes == 0)
        return true;
    int64_t lower = layout->lower_bytes, upper = layout->upper_bytes;
    if (lower < 0 && offset_bytes < -(uint64_t)lower)
        return false;
    if (upper <= 0)
        return offset_bytes - -(uint64_t)upper <= length_bytes;
    return (uint64_t)upper <= length_bytes && offset_bytes <= length_bytes - (uint64_t)upper;
}

bool layout_as_strided(const struct layout *layout, struct layout_strided *ret)
{
    const struct layout_op *loop = layout->ops, *block = layout->ops + 1;
    if (layout->op_count == 0) {
        *ret = (struct layout_strided){.count = 1};
    } else if (layout->op_count == 1 && loop->kind == LAYOUT_BLOCK) {
        *ret = (struct layout_strided){.count = 1,
                                       .block_bytes = loop->count,
                                       .stride_bytes = (int64_t)loop->count,
                                       .offset_bytes = loop->offset_bytes};
    } else if (layout->op_count == 2 && loop->kind == LAYOUT_LOOP && block->kind == LAYOUT_BLOCK) {
        /* unsigned, because only the sum is known to be in bounds */
        uint64_t offset = (uint64_t)loop->offset_bytes + (uint64_t)block->offset_bytes;
        *ret = (struct layout_strided){.count = loop->count,
                                       .block_bytes = block->count,
                                       .stride_bytes = loop->stride_bytes,
                                       .offset_bytes = (int64_t)offset};
    } else {
        return false;
    }
    return true;
}

bool layout_is_contiguous(const struct layout *layout)
{
    struct layout_strided strided;
    return layout_as_strided(layout, &strided) && strided.count == 1;
}
