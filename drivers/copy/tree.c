#include "drivers/copy/tree.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- kernels ---- */

static uint64_t distance(int64_t stride)
{
    return stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
}

/* Chooses the kernel of a loop around a block: its iterations become the kernel's inner loop. */
static void choose_row(struct copy_op *loop, const struct copy_op *block)
{
    loop->swapped = true;
    loop->loop.target_offset_bytes = block->target_offset_bytes;
    loop->loop.source_offset_bytes = block->source_offset_bytes;
    loop->loop.nest = (struct copy_nest){
        .block_bytes = block->size_bytes,
        .count = loop->count,
        .target_stride_bytes = loop->target_stride_bytes,
        .source_stride_bytes = loop->source_stride_bytes,
        .rows = 1,
    };
    loop->loop.kernel = copy_kernels()->nest(&loop->loop.nest);
    loop->loop.stream_kernel = copy_kernels()->nest_stream(&loop->loop.nest);
}

/* Rough cost of a stride: proportional up to one cache line, then slightly growing up to one
 * page. */
static uint64_t step_cost(uint64_t bytes)
{
    const uint64_t line = 64, page = (uint64_t)sysconf(_SC_PAGESIZE); /* no system call */
    return (bytes < line ? bytes : line) * page + (bytes < page ? bytes : page);
}

/* Whether to swap the two loops, so that the inner one has the smaller strides, both sides
 * together. */
static bool is_better_swapped(const struct copy_op *outer, const struct copy_op *inner)
{
    return step_cost(distance(outer->target_stride_bytes)) +
               step_cost(distance(outer->source_stride_bytes)) <
           step_cost(distance(inner->target_stride_bytes)) +
               step_cost(distance(inner->source_stride_bytes));
}

/* Whether one loop walks along the cache lines of the target, and the other along those of the
 * source. */
static bool is_transpose(const struct copy_op *along_target, const struct copy_op *along_source)
{
    enum { LINE = 64 };
    return distance(along_target->target_stride_bytes) < LINE &&
           distance(along_source->source_stride_bytes) < LINE &&
           distance(along_target->source_stride_bytes) >= LINE &&
           distance(along_source->target_stride_bytes) >= LINE;
}

static void set_plane(struct copy_op *outer, const struct copy_op *inner,
                      const struct copy_op *block, bool swapped)
{
    const struct copy_op *row = swapped ? outer : inner, *rows = swapped ? inner : outer;
    outer->swapped = swapped;
    outer->loop.target_offset_bytes =
        copy_plus(inner->target_offset_bytes, block->target_offset_bytes);
    outer->loop.source_offset_bytes =
        copy_plus(inner->source_offset_bytes, block->source_offset_bytes);
    outer->loop.nest = (struct copy_nest){
        .block_bytes = block->size_bytes,
        .count = row->count,
        .target_stride_bytes = row->target_stride_bytes,
        .source_stride_bytes = row->source_stride_bytes,
        .rows = rows->count,
        .target_row_bytes = rows->target_stride_bytes,
        .source_row_bytes = rows->source_stride_bytes,
    };
}

/* Chooses the kernel of a loop around a loop around a block. */
static void choose_plane(struct copy_op *outer, const struct copy_op *inner,
                         const struct copy_op *block)
{
    if (is_transpose(outer, inner) || is_transpose(inner, outer)) {
        set_plane(outer, inner, block, is_transpose(inner, outer));
        outer->loop.kernel = copy_kernels()->nest_transpose(&outer->loop.nest);
    }
    if (!outer->loop.kernel) {
        set_plane(outer, inner, block, is_better_swapped(outer, inner));
        outer->loop.kernel = copy_kernels()->nest(&outer->loop.nest);
    }
    outer->loop.stream_kernel = copy_kernels()->nest_stream(&outer->loop.nest);
}

static void choose_loop(const struct copy_tree *tree, struct copy_op *loop)
{
    const struct copy_op *child = &tree->ops[loop->first_child];
    if (loop->children != 1 || loop->count == 1)
        return;
    if (child->kind == COPY_BLOCK)
        choose_row(loop, child);
    else if (child->kind == COPY_LOOP && child->children == 1 &&
             tree->ops[child->first_child].kind == COPY_BLOCK)
        choose_plane(loop, child, &tree->ops[child->first_child]);
}

void copy_tree_choose(struct copy_tree *tree)
{
    for (uint64_t i = 0; i < tree->op_count; i++) {
        struct copy_op *op = &tree->ops[i];
        if (op->kind == COPY_LOOP) {
            choose_loop(tree, op);
        } else if (op->kind == COPY_LIST) {
            op->list.kernel = copy_kernels()->list(&op->list.list);
            op->list.stream_kernel = copy_kernels()->list_stream(&op->list.list);
        }
    }
    tree->top = tree->ops->children == 1 ? &tree->ops[tree->ops->first_child] : tree->ops;
}

/* ---- end ---- */

void copy_op_deinit(struct copy_op *op)
{
    if (op->kind == COPY_LIST) {
        free((void *)op->list.list.target_places);
        free((void *)op->list.list.source_places);
        free((void *)op->list.list.starts);
    }
}

uint64_t copy_tree_bytes(const struct copy_tree *tree)
{
    uint64_t bytes = tree->op_count * sizeof(*tree->ops);
    for (uint64_t i = 0; i < tree->op_count; i++) {
        const struct copy_op *op = &tree->ops[i];
        const struct copy_list *list = &op->list.list;
        if (op->kind != COPY_LIST)
            continue;
        bytes += op->count * (list->target_places ? sizeof(*list->target_places) : 0);
        bytes += op->count * (list->source_places ? sizeof(*list->source_places) : 0);
        bytes += (op->count + 1) * (list->starts ? sizeof(*list->starts) : 0);
    }
    return bytes;
}

void copy_tree_deinit(struct copy_tree *tree)
{
    for (uint64_t i = 0; i < tree->op_count; i++)
        copy_op_deinit(&tree->ops[i]);
    free(tree->ops);
    *tree = (struct copy_tree){0};
}
