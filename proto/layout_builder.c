#include "proto/layout_builder.h"

#include <errno.h>
#include <stdlib.h>

enum {
    RUN_LONG = 16,   /* regular blocks that form a loop of their own among others */
    EQUAL_LONG = 64, /* blocks of one length that form a list of their own among others */
};

/* Doubles the room of a full array. */
__attribute__((noinline)) static int grow(void **items, uint32_t *room, uint32_t used,
                                          size_t item_bytes)
{
    if (used == LAYOUT_OPS_MAX)
        return -E2BIG;
    uint32_t wanted = *room ? *room * 2 : 8;
    void *grown = reallocarray(*items, wanted, item_bytes);
    if (!grown)
        return -ENOMEM;
    *items = grown;
    *room = wanted;
    return 0;
}

static inline int push_op(struct builder *b, struct layout_op op)
{
    int r = b->op_count < b->op_room
                ? 0
                : grow((void **)&b->ops, &b->op_room, b->op_count, sizeof(*b->ops));
    if (r == 0)
        b->ops[b->op_count++] = op;
    return r;
}

static inline int push_pair(struct builder *b, struct layout_pair pair)
{
    int r = b->pair_count < b->pair_room
                ? 0
                : grow((void **)&b->pairs, &b->pair_room, b->pair_count, sizeof(*b->pairs));
    if (r == 0)
        b->pairs[b->pair_count++] = pair;
    return r;
}

static int add(int64_t a, int64_t b, int64_t *ret)
{
    return __builtin_add_overflow(a, b, ret) ? -EOVERFLOW : 0;
}

/* ---- from pairs to operations ---- */

static int push_block(struct builder *b, struct layout_pair block)
{
    return push_op(b, (struct layout_op){.kind = LAYOUT_BLOCK,
                                         .count = block.length_bytes,
                                         .offset_bytes = block.offset_bytes});
}

static int push_run(struct builder *b, struct layout_pair first, uint64_t count, int64_t stride)
{
    int r = push_op(b, (struct layout_op){.kind = LAYOUT_LOOP,
                                          .body = 1,
                                          .count = count,
                                          .offset_bytes = first.offset_bytes,
                                          .stride_bytes = stride});
    first.offset_bytes = 0;
    return r < 0 ? r : push_block(b, first);
}

/* Turns `count` pairs into a list and moves them to index `at`, at or before their current index.
 * The list's offset is that of its first block. */
static int push_list(struct builder *b, uint32_t at, const struct layout_pair *pairs,
                     uint32_t count)
{
    const int64_t base = pairs[0].offset_bytes;
    const uint64_t length = pairs[0].length_bytes;
    bool equal = true;
    for (uint32_t i = 0; i < count; i++) {
        struct layout_pair *pair = &b->pairs[at + i];
        *pair = pairs[i];
        equal &= pair->length_bytes == length;
        if (__builtin_sub_overflow(pair->offset_bytes, base, &pair->offset_bytes))
            return -EOVERFLOW;
    }
    return push_op(b, (struct layout_op){.kind = LAYOUT_LIST,
                                         .body = at,
                                         .count = count,
                                         .offset_bytes = base,
                                         .each_bytes = equal ? length : 0});
}

/* Whether at least two pairs form a run: equal lengths, constant stride. */
static bool regular(const struct layout_pair *pairs, uint32_t count, int64_t *ret_stride)
{
    int64_t stride, next;
    if (count < 2 || __builtin_sub_overflow(pairs[1].offset_bytes, pairs[0].offset_bytes, &stride))
        return false;
    for (uint32_t i = 1; i < count; i++)
        if (pairs[i].length_bytes != pairs[0].length_bytes ||
            add(pairs[i - 1].offset_bytes, stride, &next) < 0 || next != pairs[i].offset_bytes)
            return false;
    *ret_stride = stride;
    return true;
}

/* Turns the pairs from .. to into one operation (a short run: into two). *at is the index for the
 * pairs of the next list. */
static int push_part(struct builder *b, uint32_t from, uint32_t to, uint32_t *at)
{
    int64_t stride;
    if (from == to)
        return 0;
    const struct layout_pair *pairs = &b->pairs[from];
    if (to - from == 1)
        return push_block(b, *pairs);
    if (to - from < RUN_LONG && regular(pairs, to - from, &stride))
        return push_run(b, *pairs, to - from, stride);
    int r = push_list(b, *at, pairs, to - from);
    *at += to - from;
    return r;
}

/* Turns all pending pairs into operations: lists, split where long runs of equal lengths start and
 * end. */
static int push_pending(struct builder *b)
{
    uint32_t at = b->pending, from = b->pending, end = b->pair_count;
    int r = 0;
    for (uint32_t i = from, next; i < end && r == 0; i = next) {
        next = i + 1;
        while (next < end && b->pairs[next].length_bytes == b->pairs[i].length_bytes)
            next++;
        if (next - i < EQUAL_LONG)
            continue;
        r = push_part(b, from, i, &at);
        if (r == 0)
            r = push_part(b, i, next, &at);
        from = next;
    }
    if (r == 0)
        r = push_part(b, from, end, &at);
    b->pair_count = b->pending = at;
    return r;
}

/* Turns the pending pairs before the long run, then the run itself, into operations. */
static int push_long_run(struct builder *b)
{
    const struct layout_pair first = b->pairs[b->run.first];
    b->pair_count = b->run.first;
    int r = push_pending(b);
    if (r == 0)
        r = push_run(b, first, b->run.count, b->run.stride_bytes);
    b->run.count = 0;
    return r;
}

/* ---- from blocks to pairs ---- */

static inline struct layout_pair last_of_run(const struct builder *b)
{
    if (b->run.count < RUN_LONG)
        return b->pairs[b->pair_count - 1];
    struct layout_pair last = b->pairs[b->run.first];
    last.offset_bytes += (int64_t)(b->run.count - 1) * b->run.stride_bytes;
    return last;
}

static inline int grow_run(struct builder *b, struct layout_pair block)
{
    if (++b->run.count < RUN_LONG)
        return push_pair(b, block);
    if (b->run.count == RUN_LONG)
        b->pair_count = b->run.first + 1;
    return 0;
}

/* Closes the open block: adds it to the run, or starts another run. */
static inline int close_block(struct builder *b)
{
    const struct layout_pair block = b->open;
    int64_t stride = 0;
    b->open.length_bytes = 0;
    bool alike = false;
    if (b->run.count > 0) {
        const struct layout_pair last = last_of_run(b);
        alike = last.length_bytes == block.length_bytes &&
                !__builtin_sub_overflow(block.offset_bytes, last.offset_bytes, &stride);
    }
    if (alike && (b->run.count == 1 || stride == b->run.stride_bytes)) {
        b->run.stride_bytes = stride;
        return grow_run(b, block);
    }
    if (b->run.count >= RUN_LONG) {
        alike = false; /* its last block belongs to the loop */
        int r = push_long_run(b);
        if (r < 0)
            return r;
    }
    b->run.first = b->pair_count - alike;
    b->run.count = 1 + alike;
    b->run.stride_bytes = stride;
    return push_pair(b, block);
}

int builder_add_block(struct builder *b, int64_t offset, uint64_t length)
{
    struct layout_pair *open = &b->open;
    int64_t end;
    if (length == 0)
        return 0;
    if (length > INT64_MAX)
        return -EOVERFLOW;
    if (open->length_bytes > 0) {
        if (add(open->offset_bytes, (int64_t)open->length_bytes, &end) < 0)
            return -EOVERFLOW;
        if (end == offset) {
            open->length_bytes += length; /* both are below 2^63 */
            return open->length_bytes > INT64_MAX ? -EOVERFLOW : 0;
        }
        int r = close_block(b);
        if (r < 0)
            return r;
    }
    *open = (struct layout_pair){offset, length};
    return 0;
}

/* Whether the open block continues a long run of this stride. */
static bool in_long_run(const struct builder *b, int64_t stride)
{
    if (b->run.count < RUN_LONG || b->run.stride_bytes != stride)
        return false;
    const struct layout_pair last = last_of_run(b);
    return last.length_bytes == b->open.length_bytes &&
           (uint64_t)last.offset_bytes + (uint64_t)stride == (uint64_t)b->open.offset_bytes;
}

int builder_add_run(struct builder *b, int64_t offset, uint64_t length, uint64_t count,
                    int64_t stride)
{
    int64_t span, last;
    uint64_t bytes;
    if (count == 0)
        return 0;
    if (stride >= 0 && (uint64_t)stride == length)
        return __builtin_mul_overflow(length, count, &bytes) ? -EOVERFLOW
                                                             : builder_add_block(b, offset, bytes);
    if (__builtin_mul_overflow(stride, count - 1, &span) || add(offset, span, &last) < 0)
        return -EOVERFLOW;
    for (uint64_t i = 0; i < count; i++) {
        int r = builder_add_block(b, offset + (int64_t)i * stride, length);
        if (r < 0)
            return r;
        if (in_long_run(b, stride)) { /* the remaining blocks continue it, too */
            b->run.count += count - 1 - i;
            b->open.offset_bytes = last;
            break;
        }
    }
    return 0;
}

int builder_flush(struct builder *b)
{
    int r = b->open.length_bytes > 0 ? close_block(b) : 0;
    if (r == 0)
        r = b->run.count >= RUN_LONG ? push_long_run(b) : push_pending(b);
    b->run.count = 0;
    b->pending = b->pair_count;
    return r;
}

/* ---- operations ---- */

static int add_list(struct builder *b, const struct layout_pair *pairs, uint64_t count,
                    int64_t offset)
{
    int r = 0;
    for (uint64_t i = 0; i < count && r == 0; i++) {
        int64_t at;
        r = add(pairs[i].offset_bytes, offset, &at);
        if (r == 0)
            r = builder_add_block(b, at, pairs[i].length_bytes);
    }
    return r;
}

int builder_add_ops(struct builder *b, const struct layout_op *ops, uint32_t count,
                    const struct layout_pair *pairs, int64_t offset)
{
    int r = 0;
    for (uint32_t i = 0; i < count && r == 0; i++) {
        const struct layout_op *op = &ops[i];
        int64_t at;
        if (add(op->offset_bytes, offset, &at) < 0)
            return -EOVERFLOW;
        if (op->kind == LAYOUT_BLOCK) {
            r = builder_add_block(b, at, op->count);
        } else if (op->kind == LAYOUT_LIST) {
            r = add_list(b, pairs + op->body, op->count, at);
        } else {
            r = builder_add_loop(b, op + 1, op->body, pairs, op->count, op->stride_bytes, at);
            i += op->body;
        }
    }
    return r;
}

/* Appends a finished program, with its outermost operations moved by offset. */
static int append(struct builder *b, const struct builder *part, int64_t offset)
{
    const uint32_t first_pair = b->pair_count;
    uint32_t top = 0; /* index of the next outermost operation of the part */
    int r = 0;
    for (uint32_t i = 0; i < part->op_count && r == 0; i++) {
        struct layout_op op = part->ops[i];
        if (op.kind == LAYOUT_LIST)
            op.body += first_pair;
        if (i == top) {
            r = add(op.offset_bytes, offset, &op.offset_bytes);
            top += 1 + (op.kind == LAYOUT_LOOP ? op.body : 0);
        }
        if (r == 0)
            r = push_op(b, op);
    }
    for (uint32_t i = 0; i < part->pair_count && r == 0; i++)
        r = push_pair(b, part->pairs[i]);
    b->pending = b->pair_count;
    return r;
}

/* Adds a loop around a finished body, in normal form. */
static int add_loop_around(struct builder *b, struct builder *body, uint64_t count, int64_t stride,
                           int64_t offset)
{
    struct layout_op *first = body->ops;
    int64_t at, span;
    if (body->op_count == 0)
        return 0;
    if (add(offset, first->offset_bytes, &at) < 0)
        return -EOVERFLOW;
    if (first->kind == LAYOUT_BLOCK && body->op_count == 1)
        return builder_add_run(b, at, first->count, count, stride);
    if (first->kind == LAYOUT_LOOP && first->body == body->op_count - 1 &&
        !__builtin_mul_overflow(first->stride_bytes, first->count, &span) &&
        span == stride) { /* the next iteration continues where this one ends */
        if (__builtin_mul_overflow(first->count, count, &first->count))
            return -EOVERFLOW;
        if (body->op_count == 2 && first[1].kind == LAYOUT_BLOCK)
            return builder_add_run(b, at, first[1].count, first->count, first->stride_bytes);
        int r = builder_flush(b);
        return r < 0 ? r : append(b, body, offset);
    }
    /* the offset of the body's first operation becomes the loop's */
    if (first->offset_bytes == INT64_MIN)
        return -EOVERFLOW;
    int r = builder_flush(b);
    if (r == 0)
        r = push_op(b, (struct layout_op){.kind = LAYOUT_LOOP,
                                          .body = body->op_count,
                                          .count = count,
                                          .offset_bytes = at,
                                          .stride_bytes = stride});
    return r < 0 ? r : append(b, body, -first->offset_bytes);
}

/* The recursion is at most LAYOUT_DEPTH_MAX deep because the program was checked. */
int builder_add_loop(struct builder *b, const struct layout_op *body, uint32_t body_count,
                     const struct layout_pair *pairs, uint64_t count, int64_t stride,
                     int64_t offset)
{
    if (count == 1)
        return builder_add_ops(b, body, body_count, pairs, offset);
    if (body_count == 1 && body->kind == LAYOUT_BLOCK) {
        int64_t at;
        return add(offset, body->offset_bytes, &at) < 0
                   ? -EOVERFLOW
                   : builder_add_run(b, at, body->count, count, stride);
    }
    struct builder inside = {0};
    int r = builder_add_ops(&inside, body, body_count, pairs, 0);
    if (r == 0)
        r = builder_flush(&inside);
    if (r == 0)
        r = add_loop_around(b, &inside, count, stride, offset);
    builder_deinit(&inside);
    return r;
}

void builder_deinit(struct builder *b)
{
    free(b->ops);
    free(b->pairs);
}
