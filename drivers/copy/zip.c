/* Compiles two layouts into a copy tree: walks through both in parallel and finds their common
 * loops. */
#include <errno.h>
#include <stdlib.h>

#include "drivers/copy/pieces.h"
#include "drivers/copy/tree.h"
#include "drivers/copy/view.h"

/* A list's block becomes a loop if it covers at least this many iterations of the other side. */
enum { LOOP_OF_LIST_MIN = 8 };

/* A loop whose body is still to be compiled. */
struct task {
    uint32_t op;
    struct copy_view target, source;
};

struct zip {
    struct copy_side target, source;
    struct copy_op *ops;
    uint64_t op_count, op_room;
    struct task *tasks; /* a stack */
    uint64_t task_count, task_room;
    struct copy_pieces *pieces;
    uint64_t work_left; /* operations and pieces: bounds the work for hostile layouts */
};

static int reserve(void *array, uint64_t *room, uint64_t used, size_t item_bytes)
{
    void **items = array;
    if (used < *room)
        return 0;
    uint64_t wanted = *room > 0 ? 2 * *room : 8;
    void *grown = reallocarray(*items, wanted, item_bytes);
    if (!grown)
        return -ENOMEM;
    *items = grown;
    *room = wanted;
    return 0;
}

static int spend(struct zip *zip, uint64_t work)
{
    if (work > zip->work_left)
        return -ENOTSUP;
    zip->work_left -= work;
    return 0;
}

static int push_op(struct zip *zip, const struct copy_op *op)
{
    int r = reserve(&zip->ops, &zip->op_room, zip->op_count, sizeof(*op));
    if (r == 0)
        zip->ops[zip->op_count++] = *op;
    return r;
}

static int push_task(struct zip *zip, const struct task *task)
{
    int r = reserve(&zip->tasks, &zip->task_room, zip->task_count, sizeof(*task));
    if (r == 0)
        zip->tasks[zip->task_count++] = *task;
    return r;
}

/* Turns the collected pieces into operations. *start is the packed position of the next one. */
static int flush_pieces(struct zip *zip, uint64_t *start)
{
    int r = 0;
    for (uint64_t first = 0; first < zip->pieces->count && r == 0;) {
        struct copy_op op;
        r = copy_pieces_op(zip->pieces, &first, &op);
        if (r < 0)
            break;
        op.start_bytes = *start;
        *start += op.size_bytes;
        r = push_op(zip, &op);
        if (r < 0)
            copy_op_deinit(&op);
    }
    copy_pieces_clear(zip->pieces);
    return r;
}

static int take_piece(struct zip *zip, struct task *task)
{
    uint64_t to, from;
    uint64_t target_left = copy_view_piece(&zip->target, &task->target, &to);
    uint64_t source_left = copy_view_piece(&zip->source, &task->source, &from);
    uint64_t length = target_left < source_left ? target_left : source_left;
    copy_view_take(&zip->target, &task->target, length);
    copy_view_take(&zip->source, &task->source, length);
    return copy_pieces_add(zip->pieces, to, from, length);
}

/* Takes a whole list against a block that is at least as long, so that no pair is split. */
static int take_list(struct zip *zip, struct copy_view *list, const struct copy_side *side,
                     struct copy_view *block, bool list_is_target)
{
    const uint64_t count = list->head.count;
    int r = spend(zip, count);
    if (r == 0)
        r = copy_pieces_reserve(zip->pieces, count);
    if (r < 0)
        return r;
    const struct layout_pair *pair = &side->pairs[list->head.pair];
    for (uint64_t i = 0; i < count; i++, pair++) {
        const uint64_t offset = list->head.offset + (uint64_t)pair->offset_bytes;
        copy_pieces_put(zip->pieces, list_is_target ? offset : block->head.offset,
                        list_is_target ? block->head.offset : offset, pair->length_bytes);
        block->head.offset += pair->length_bytes;
        block->head.count -= pair->length_bytes;
    }
    list->head.count = 0;
    list->has_head = false;
    block->has_head = block->head.count > 0;
    return 0;
}

/* Reduces a list to its last `count` pairs, with `done` bytes of the first taken. */
static void rest_of_list(struct copy_view *list, uint64_t count, uint64_t done)
{
    list->head.pair += list->head.count - count;
    list->head.count = count;
    list->head.done = done;
    list->has_head = count > 0;
}

/* Takes pieces from two lists until one ends; each piece ends a pair. */
static int take_lists(struct zip *zip, struct task *task)
{
    struct copy_item *target = &task->target.head, *source = &task->source.head;
    const uint64_t most = target->count + source->count;
    int r = spend(zip, most);
    if (r == 0)
        r = copy_pieces_reserve(zip->pieces, most);
    if (r < 0)
        return r;
    const struct layout_pair *to = &zip->target.pairs[target->pair],
                             *from = &zip->source.pairs[source->pair];
    const struct layout_pair *to_end = to + target->count, *from_end = from + source->count;
    uint64_t to_done = target->done, from_done = source->done;
    while (to < to_end && from < from_end) {
        const uint64_t to_left = to->length_bytes - to_done,
                       from_left = from->length_bytes - from_done;
        const uint64_t length = to_left < from_left ? to_left : from_left;
        copy_pieces_put(zip->pieces, target->offset + (uint64_t)to->offset_bytes + to_done,
                        source->offset + (uint64_t)from->offset_bytes + from_done, length);
        to_done = to_left == length ? 0 : to_done + length;
        from_done = from_left == length ? 0 : from_done + length;
        to += to_left == length;
        from += from_left == length;
    }
    rest_of_list(&task->target, (uint64_t)(to_end - to), to_done);
    rest_of_list(&task->source, (uint64_t)(from_end - from), from_done);
    return 0;
}

static bool whole_list(const struct copy_side *side, const struct copy_view *list,
                       const struct copy_view *block)
{
    return list->head.kind == LAYOUT_LIST && list->head.done == 0 &&
           block->head.kind == LAYOUT_BLOCK && side->sizes[list->head.op] <= block->head.count;
}

/* Takes as many pieces as possible from the two heads, because lists can be long. */
static int take_pieces(struct zip *zip, struct task *task)
{
    int r;
    if (whole_list(&zip->target, &task->target, &task->source))
        return take_list(zip, &task->target, &zip->target, &task->source, true);
    if (whole_list(&zip->source, &task->source, &task->target))
        return take_list(zip, &task->source, &zip->source, &task->target, false);
    if (task->target.head.kind == LAYOUT_LIST && task->source.head.kind == LAYOUT_LIST)
        return take_lists(zip, task);
    do {
        if ((r = spend(zip, 1)) == 0)
            r = take_piece(zip, task);
    } while (r == 0 && task->target.has_head && task->source.has_head &&
             task->target.head.kind != LAYOUT_LOOP && task->source.head.kind != LAYOUT_LOOP);
    return r;
}

/* Packed bytes of one iteration of a common loop. */
static uint64_t common_unit(const struct task *task)
{
    const struct copy_item *target = &task->target.head, *source = &task->source.head;
    if (target->kind != LAYOUT_LOOP)
        return source->unit;
    if (source->kind != LAYOUT_LOOP)
        return target->unit;
    return target->unit > source->unit ? target->unit : source->unit;
}

static bool has_list(const struct task *task)
{
    return task->target.head.kind == LAYOUT_LIST || task->source.head.kind == LAYOUT_LIST;
}

static int take_loop(struct zip *zip, struct task *task, uint64_t *start)
{
    uint64_t unit = common_unit(task);
    uint64_t target_count = copy_view_iterations(&zip->target, &task->target, unit);
    uint64_t source_count = copy_view_iterations(&zip->source, &task->source, unit);
    uint64_t count = target_count < source_count ? target_count : source_count;
    if (count == 0 || (count < LOOP_OF_LIST_MIN && has_list(task)))
        return -ENOTSUP;

    uint64_t to, from, target_stride, source_stride;
    struct task body = {.op = (uint32_t)zip->op_count};
    body.target = copy_view_body(&zip->target, &task->target, unit, &to, &target_stride);
    body.source = copy_view_body(&zip->source, &task->source, unit, &from, &source_stride);
    copy_view_take(&zip->target, &task->target, count * unit);
    copy_view_take(&zip->source, &task->source, count * unit);

    struct copy_op loop = {
        .kind = COPY_LOOP,
        .start_bytes = *start,
        .size_bytes = count * unit,
        .count = count,
        .unit_bytes = unit,
        .target_offset_bytes = (int64_t)to,
        .source_offset_bytes = (int64_t)from,
        .target_stride_bytes = (int64_t)target_stride,
        .source_stride_bytes = (int64_t)source_stride,
    };
    *start += loop.size_bytes;
    int r = push_op(zip, &loop);
    return r < 0 ? r : push_task(zip, &body);
}

/* Whether to copy block by block: if neither side is a loop, or if a loop of blocks meets or has
 * met a list. */
static bool wants_pieces(const struct zip *zip, const struct task *task)
{
    const struct copy_item *target = &task->target.head, *source = &task->source.head;
    if (!copy_view_has_pieces(&zip->target, &task->target) ||
        !copy_view_has_pieces(&zip->source, &task->source))
        return false;
    return (target->kind != LAYOUT_LOOP && source->kind != LAYOUT_LOOP) || has_list(task) ||
           target->done > 0 || source->done > 0;
}

static int take(struct zip *zip, struct task *task, uint64_t *start)
{
    if (wants_pieces(zip, task))
        return take_pieces(zip, task);
    int r = spend(zip, 1);
    if (r == 0)
        r = flush_pieces(zip, start);
    return r < 0 ? r : take_loop(zip, task, start);
}

/* The children of one loop. */
static int zip_body(struct zip *zip, struct task *task)
{
    uint64_t first = zip->op_count, start = 0;
    int r = 0;
    while (r == 0 && copy_view_next(&zip->target, &task->target) &&
           copy_view_next(&zip->source, &task->source))
        r = take(zip, task, &start);
    if (r == 0)
        r = flush_pieces(zip, &start);
    if (zip->op_count > UINT32_MAX)
        r = -ENOTSUP;
    zip->ops[task->op].first_child = (uint32_t)first;
    zip->ops[task->op].children = (uint32_t)(zip->op_count - first);
    return r;
}

static int zip_all(struct zip *zip, uint64_t size)
{
    struct task whole = {
        .target = copy_view_all(&zip->target, size),
        .source = copy_view_all(&zip->source, size),
    };
    struct copy_op root = {.kind = COPY_LOOP, .count = 1, .size_bytes = size, .unit_bytes = size};
    int r = push_op(zip, &root);
    if (r == 0)
        r = push_task(zip, &whole);
    while (r == 0 && zip->task_count > 0) {
        struct task task = zip->tasks[--zip->task_count];
        r = zip_body(zip, &task);
    }
    return r;
}

static uint64_t work_of(const struct layout *layout)
{
    return layout ? (uint64_t)layout->op_count + layout->pair_count : 1;
}

int copy_tree_init(struct copy_tree *tree, const struct layout *target, const struct layout *source,
                   struct copy_pieces *pieces)
{
    copy_pieces_clear(pieces);
    uint64_t size = target ? target->size_bytes : source->size_bytes;
    struct zip zip = {.pieces = pieces, .work_left = 4 * (work_of(target) + work_of(source))};
    *tree = (struct copy_tree){0};
    if (size == 0)
        return 0;
    int r = copy_side_init(&zip.target, target);
    if (r == 0)
        r = copy_side_init(&zip.source, source);
    if (r == 0)
        r = zip_all(&zip, size);
    struct copy_op *ops = r == 0 ? reallocarray(zip.ops, zip.op_count, sizeof(*ops)) : NULL;
    *tree = (struct copy_tree){.ops = ops ? ops : zip.ops, .op_count = zip.op_count};
    if (r == 0)
        copy_tree_choose(tree);
    else
        copy_tree_deinit(tree);
    free(zip.tasks);
    copy_side_deinit(&zip.target);
    copy_side_deinit(&zip.source);
    return r;
}
