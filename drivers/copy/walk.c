/* Runs a copy tree from any packed position. */
#include <string.h>

#include "drivers/copy/tree.h"

/* An address on each side, as a number: intermediate addresses may be outside of the memory. */
struct position {
    uintptr_t target, source;
};

/* The constants of a run. */
struct walk {
    const struct copy_op *ops;
    const struct copy_kernels *stream; /* NULL: ordinary stores */
};

static inline struct position position_add(struct position at, int64_t target, int64_t source,
                                           uint64_t times)
{
    return (struct position){at.target + (uint64_t)target * times,
                             at.source + (uint64_t)source * times};
}

static inline uint8_t *target_of(struct position at)
{
    return (uint8_t *)at.target;
}

static inline const uint8_t *source_of(struct position at)
{
    return (const uint8_t *)at.source;
}

static void run_op(const struct walk *walk, const struct copy_op *op, struct position at,
                   uint64_t skip, uint64_t length);

/* The last child that starts at or before packed position `skip`. */
static const struct copy_op *find_child(const struct copy_op *children, uint32_t count,
                                        uint64_t skip)
{
    while (count > 1) {
        uint32_t half = count / 2;
        if (children[half].start_bytes <= skip) {
            children += half;
            count -= half;
        } else {
            count = half;
        }
    }
    return children;
}

/* Runs part of one iteration, or all of it. */
static void run_children(const struct walk *walk, const struct copy_op *op, struct position at,
                         uint64_t skip, uint64_t length)
{
    const struct copy_op *child = find_child(&walk->ops[op->first_child], op->children, skip);
    skip -= child->start_bytes;
    for (; length > 0; child++) {
        uint64_t left = child->size_bytes - skip, take = left < length ? left : length;
        run_op(walk, child, at, skip, take);
        length -= take;
        skip = 0;
    }
}

static void run_iterations(const struct walk *walk, const struct copy_op *op, struct position at,
                           uint64_t count)
{
    if (count == 0)
        return;
    if (op->loop.kernel) {
        struct copy_nest nest = op->loop.nest;
        *(op->swapped ? &nest.count : &nest.rows) = count;
        at = position_add(at, op->loop.target_offset_bytes, op->loop.source_offset_bytes, 1);
        (walk->stream && op->loop.stream_kernel ? op->loop.stream_kernel : op->loop.kernel)(
            target_of(at), source_of(at), &nest);
        return;
    }
    for (; count > 0; count--) {
        run_children(walk, op, at, 0, op->unit_bytes);
        at = position_add(at, op->target_stride_bytes, op->source_stride_bytes, 1);
    }
}

/* Runs a loop from any position: the rest of an iteration, whole iterations, the start of the
 * last. */
static void run_loop(const struct walk *walk, const struct copy_op *op, struct position at,
                     uint64_t skip, uint64_t length)
{
    const uint64_t unit = op->unit_bytes;
    if (skip >= unit) {
        at = position_add(at, op->target_stride_bytes, op->source_stride_bytes, skip / unit);
        skip %= unit;
    }
    if (skip > 0) {
        uint64_t take = unit - skip < length ? unit - skip : length;
        run_children(walk, op, at, skip, take);
        at = position_add(at, op->target_stride_bytes, op->source_stride_bytes, 1);
        length -= take;
    }
    uint64_t whole = length == op->size_bytes ? op->count : length / unit;
    run_iterations(walk, op, at, whole);
    if (length > whole * unit)
        run_children(walk, op,
                     position_add(at, op->target_stride_bytes, op->source_stride_bytes, whole), 0,
                     length - whole * unit);
}

static void run_block(const struct walk *walk, struct position at, uint64_t skip, uint64_t length)
{
    at = position_add(at, 1, 1, skip);
    if (walk->stream)
        walk->stream->stream(target_of(at), source_of(at), length);
    else
        memmove(target_of(at), source_of(at), length);
}

/* ---- lists ---- */

/* The block from first .. end - 1 that contains a packed position. */
static uint64_t bisect(const uint32_t *starts, uint64_t first, uint64_t end, uint64_t position)
{
    while (end - first > 1) {
        uint64_t middle = first + (end - first) / 2;
        if (starts[middle] <= position)
            first = middle;
        else
            end = middle;
    }
    return first;
}

static uint64_t find_block(const struct copy_list *list, uint64_t count, uint64_t position)
{
    return list->starts ? bisect(list->starts, 0, count, position) : position / list->block_bytes;
}

/* The same for a position at or after block `first`: fast if it is near. */
static uint64_t find_end(const struct copy_list *list, uint64_t first, uint64_t count,
                         uint64_t position)
{
    if (!list->starts)
        return position / list->block_bytes;
    uint64_t step = 1;
    while (step < count - first && list->starts[first + step] <= position) {
        first += step;
        step *= 2;
    }
    return bisect(list->starts, first, step < count - first ? first + step : count, position);
}

/* Runs part of one block. */
static void run_part(const struct walk *walk, const struct copy_list *list, struct position at,
                     uint64_t block, uint64_t skip, uint64_t length)
{
    int64_t start = copy_list_start(list, block);
    at = position_add(at, list->target_places ? list->target_places[block] : start,
                      list->source_places ? list->source_places[block] : start, 1);
    run_block(walk, at, skip, length);
}

static void run_list(const struct walk *walk, const struct copy_op *op, struct position at,
                     uint64_t skip, uint64_t length)
{
    const struct copy_list *list = &op->list.list;
    uint64_t block = skip > 0 ? find_block(list, op->count, skip) : 0;
    uint64_t inside = skip - (uint64_t)copy_list_start(list, block);
    if (inside > 0) {
        uint64_t left = copy_list_length(list, block) - inside,
                 take = left < length ? left : length;
        run_part(walk, list, at, block, inside, take);
        length -= take;
        block++;
    }
    if (length == 0)
        return;
    uint64_t end_position = (uint64_t)copy_list_start(list, block) + length;
    uint64_t end =
        length == op->size_bytes ? op->count : find_end(list, block, op->count, end_position);
    (walk->stream && op->list.stream_kernel ? op->list.stream_kernel : op->list.kernel)(
        target_of(at), source_of(at), list, block, end - block);
    uint64_t rest = end_position - (uint64_t)copy_list_start(list, end);
    if (rest > 0)
        run_part(walk, list, at, end, 0, rest);
}

/* ---- all ---- */

static void run_op(const struct walk *walk, const struct copy_op *op, struct position at,
                   uint64_t skip, uint64_t length)
{
    at = position_add(at, op->target_offset_bytes, op->source_offset_bytes, 1);
    switch (op->kind) {
    case COPY_BLOCK:
        run_block(walk, at, skip, length);
        break;
    case COPY_LIST:
        run_list(walk, op, at, skip, length);
        break;
    case COPY_LOOP:
        run_loop(walk, op, at, skip, length);
        break;
    }
}

/* Runs all of an operation that has a kernel. False: it has none. */
static inline bool run_whole(const struct copy_op *op, struct position at)
{
    at = position_add(at, op->target_offset_bytes, op->source_offset_bytes, 1);
    if (op->kind == COPY_LIST) {
        op->list.kernel(target_of(at), source_of(at), &op->list.list, 0, op->count);
        return true;
    }
    if (op->kind != COPY_LOOP || !op->loop.kernel)
        return false;
    at = position_add(at, op->loop.target_offset_bytes, op->loop.source_offset_bytes, 1);
    op->loop.kernel(target_of(at), source_of(at), &op->loop.nest);
    return true;
}

void copy_tree_run(const struct copy_tree *tree, const struct copy_kernels *stream, uint8_t *target,
                   const uint8_t *source, uint64_t position_bytes, uint64_t length_bytes)
{
    const struct walk walk = {tree->ops, stream};
    /* The usual case, and for short copies a large part of their cost. */
    if (!stream && length_bytes > 0 && length_bytes == tree->top->size_bytes &&
        run_whole(tree->top, (struct position){(uintptr_t)target, (uintptr_t)source}))
        return;
    if (length_bytes > 0)
        run_op(&walk, tree->top, (struct position){(uintptr_t)target, (uintptr_t)source},
               position_bytes, length_bytes);
}
