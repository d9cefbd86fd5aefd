#include "drivers/copy/view.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t op_end(const struct layout *layout, uint32_t op)
{
    return op + 1 + (layout->ops[op].kind == LAYOUT_LOOP ? layout->ops[op].body : 0);
}

/* The packed size of an operation. The sizes of a loop's body have already been computed. */
static uint64_t op_size(const struct copy_side *side, uint32_t at)
{
    const struct layout_op *op = &side->layout->ops[at];
    uint64_t size = 0;
    switch (op->kind) {
    case LAYOUT_BLOCK:
        return op->count;
    case LAYOUT_LIST:
        for (uint64_t i = 0; i < op->count; i++)
            size += side->pairs[op->body + i].length_bytes;
        return size;
    default:
        for (uint32_t i = at + 1; i < op_end(side->layout, at); i = op_end(side->layout, i))
            size += side->sizes[i];
        return size * op->count;
    }
}

int copy_side_init(struct copy_side *side, const struct layout *layout)
{
    *side = (struct copy_side){.layout = layout};
    if (!layout || layout->op_count == 0)
        return 0;
    side->pairs = (const struct layout_pair *)&layout->ops[layout->op_count];
    side->sizes = malloc(layout->op_count * sizeof(*side->sizes));
    if (!side->sizes)
        return -ENOMEM;
    for (uint32_t i = layout->op_count; i-- > 0;)
        side->sizes[i] = op_size(side, i);
    return 0;
}

void copy_side_deinit(struct copy_side *side)
{
    free(side->sizes);
    *side = (struct copy_side){0};
}

static struct copy_view view_of_block(uint64_t bytes)
{
    return (struct copy_view){.has_head = true, .head = {.kind = LAYOUT_BLOCK, .count = bytes}};
}

struct copy_view copy_view_all(const struct copy_side *side, uint64_t size_bytes)
{
    if (!side->layout)
        return view_of_block(size_bytes);
    return (struct copy_view){.end_op = side->layout->op_count};
}

bool copy_view_next(const struct copy_side *side, struct copy_view *view)
{
    if (view->has_head)
        return true;
    if (view->next_op == view->end_op)
        return false;
    const struct layout_op *op = &side->layout->ops[view->next_op];
    view->head = (struct copy_item){
        .kind = (enum layout_kind)op->kind,
        .op = view->next_op,
        .count = op->count,
        .offset = (uint64_t)op->offset_bytes,
        .stride = (uint64_t)op->stride_bytes,
    };
    if (op->kind == LAYOUT_LIST)
        view->head.pair = op->body;
    if (op->kind == LAYOUT_LOOP)
        view->head.unit = side->sizes[view->next_op] / op->count;
    view->has_head = true;
    view->next_op = op_end(side->layout, view->next_op);
    return true;
}

bool copy_view_has_pieces(const struct copy_side *side, const struct copy_view *view)
{
    if (view->head.kind != LAYOUT_LOOP)
        return true;
    const struct layout_op *loop = &side->layout->ops[view->head.op];
    return loop->body == 1 && loop[1].kind == LAYOUT_BLOCK;
}

uint64_t copy_view_iterations(const struct copy_side *side, const struct copy_view *view,
                              uint64_t unit)
{
    const struct copy_item *head = &view->head;
    uint64_t offset;
    if (head->kind != LAYOUT_LOOP)
        return copy_view_piece(side, view, &offset) / unit;
    return head->done > 0 || unit % head->unit > 0 ? 0 : head->count / (unit / head->unit);
}

struct copy_view copy_view_body(const struct copy_side *side, const struct copy_view *view,
                                uint64_t unit, uint64_t *ret_offset, uint64_t *ret_stride)
{
    const struct copy_item *head = &view->head;
    if (head->kind != LAYOUT_LOOP) {
        copy_view_piece(side, view, ret_offset);
        *ret_stride = unit;
        return view_of_block(unit);
    }
    uint64_t times = unit / head->unit;
    *ret_offset = head->offset;
    *ret_stride = head->stride * times;
    if (times == 1)
        return (struct copy_view){.next_op = head->op + 1,
                                  .end_op = op_end(side->layout, head->op)};
    struct copy_view body = {.has_head = true, .head = *head};
    body.head.offset = 0;
    body.head.count = times;
    return body;
}
