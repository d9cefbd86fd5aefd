#include "proto/layout_internal.h"

/* Unsigned arithmetic: the program was checked, so every block lies within its bounds, but
 * intermediate sums of offsets may overflow 63 bits and cancel out. */
static int64_t plus(int64_t a, uint64_t b)
{
    return (int64_t)((uint64_t)a + b);
}

static uint32_t op_end(const struct layout *layout, uint32_t op)
{
    return op + 1 + (layout->ops[op].kind == LAYOUT_LOOP ? layout->ops[op].body : 0);
}

static uint64_t body_size(const struct layout *layout, uint32_t loop);

static uint64_t op_size(const struct layout *layout, uint32_t op)
{
    const struct layout_op *at = &layout->ops[op];
    if (at->kind == LAYOUT_BLOCK)
        return at->count;
    if (at->kind == LAYOUT_LOOP)
        return at->count * body_size(layout, op);
    uint64_t size = 0;
    for (uint64_t i = 0; i < at->count; i++)
        size += layout_pairs(layout)[at->body + i].length_bytes;
    return size;
}

/* The size of one iteration. The recursion is at most LAYOUT_DEPTH_MAX deep because the program was
 * checked. */
static uint64_t body_size(const struct layout *layout, uint32_t loop)
{
    uint64_t size = 0;
    for (uint32_t op = loop + 1; op < op_end(layout, loop); op = op_end(layout, op))
        size += op_size(layout, op);
    return size;
}

static void enter_loop(struct layout_cursor *cursor, uint64_t iteration)
{
    const struct layout_op *loop = &cursor->layout->ops[cursor->op];
    cursor->loops[cursor->depth].op = cursor->op;
    cursor->loops[cursor->depth].iteration = iteration;
    cursor->depth++;
    cursor->base_bytes = plus(cursor->base_bytes, (uint64_t)loop->offset_bytes +
                                                      iteration * (uint64_t)loop->stride_bytes);
    cursor->op++;
}

/* Moves the cursor from the start of the program forward by `skip` packed bytes. */
static void seek(struct layout_cursor *cursor, uint64_t skip)
{
    const struct layout *layout = cursor->layout;
    for (;;) {
        for (uint64_t size; skip >= (size = op_size(layout, cursor->op));
             cursor->op = op_end(layout, cursor->op))
            skip -= size;
        if (layout->ops[cursor->op].kind != LAYOUT_LOOP)
            break;
        uint64_t iteration_bytes = body_size(layout, cursor->op);
        enter_loop(cursor, skip / iteration_bytes);
        skip %= iteration_bytes;
    }
    const struct layout_op *op = &layout->ops[cursor->op];
    if (op->kind == LAYOUT_LIST) {
        const struct layout_pair *pairs = layout_pairs(layout) + op->body;
        for (; skip >= pairs[cursor->pair].length_bytes; cursor->pair++)
            skip -= pairs[cursor->pair].length_bytes;
    }
    cursor->done_bytes = skip;
}

void layout_cursor_init(struct layout_cursor *cursor, const struct layout *layout,
                        uint64_t position_bytes)
{
    *cursor = (struct layout_cursor){.layout = layout, .position_bytes = position_bytes};
    if (position_bytes > 0 && position_bytes < layout->size_bytes)
        seek(cursor, position_bytes);
}

/* Moves the cursor from the end of a block to the next one. */
static void advance(struct layout_cursor *cursor)
{
    const struct layout *layout = cursor->layout;
    const struct layout_op *op = &layout->ops[cursor->op];
    cursor->done_bytes = 0;
    if (op->kind == LAYOUT_LIST && ++cursor->pair < op->count)
        return;
    cursor->pair = 0;
    cursor->op++;
    while (cursor->depth > 0) {
        uint32_t loop_op = cursor->loops[cursor->depth - 1].op;
        if (cursor->op != op_end(layout, loop_op))
            return;
        const struct layout_op *loop = &layout->ops[loop_op];
        uint64_t *iteration = &cursor->loops[cursor->depth - 1].iteration;
        if (++*iteration < loop->count) {
            cursor->base_bytes = plus(cursor->base_bytes, (uint64_t)loop->stride_bytes);
            cursor->op = loop_op + 1;
            return;
        }
        uint64_t span =
            (uint64_t)loop->offset_bytes + (loop->count - 1) * (uint64_t)loop->stride_bytes;
        cursor->base_bytes = plus(cursor->base_bytes, -span);
        cursor->depth--;
    }
}

bool layout_cursor_next(struct layout_cursor *cursor, uint64_t max_bytes, int64_t *ret_offset_bytes,
                        uint64_t *ret_length_bytes)
{
    const struct layout *layout = cursor->layout;
    if (cursor->position_bytes >= layout->size_bytes || max_bytes == 0)
        return false;
    while (layout->ops[cursor->op].kind == LAYOUT_LOOP)
        enter_loop(cursor, 0);

    const struct layout_op *op = &layout->ops[cursor->op];
    int64_t offset = plus(cursor->base_bytes, (uint64_t)op->offset_bytes);
    uint64_t length = op->count;
    if (op->kind == LAYOUT_LIST) {
        const struct layout_pair *pair = &layout_pairs(layout)[op->body + cursor->pair];
        offset = plus(offset, (uint64_t)pair->offset_bytes);
        length = pair->length_bytes;
    }
    uint64_t left = length - cursor->done_bytes;
    uint64_t take = left < max_bytes ? left : max_bytes;
    *ret_offset_bytes = plus(offset, cursor->done_bytes);
    *ret_length_bytes = take;
    cursor->position_bytes += take;
    cursor->done_bytes += take;
    if (take == left)
        advance(cursor);
    return true;
}
