/* Counting contiguous blocks. */
#include "proto/layout_internal.h"

/* What a sequence of operations yields: its blocks, those that continue the one before counted with
 * it, and where the first begins and the last ends, relative to the enclosing loop. */
struct runs {
    uint64_t count; /* 0: nothing */
    int64_t first, end;
};

/* Unsigned arithmetic, as in layout_cursor.c: only the places of blocks are known to be in
 * bounds. */
static int64_t plus(int64_t a, uint64_t b)
{
    return (int64_t)((uint64_t)a + b);
}

static void join(struct runs *runs, const struct runs *behind)
{
    if (runs->count == 0) {
        *runs = *behind;
        return;
    }
    runs->count += behind->count - (behind->first == runs->end);
    runs->end = behind->end;
}

static struct runs of_list(const struct layout *layout, const struct layout_op *list)
{
    const struct layout_pair *pairs = layout_pairs(layout) + list->body;
    struct runs runs = {0};
    for (uint64_t i = 0; i < list->count; i++) {
        const int64_t first = plus(pairs[i].offset_bytes, (uint64_t)list->offset_bytes);
        join(&runs, &(struct runs){1, first, plus(first, pairs[i].length_bytes)});
    }
    return runs;
}

static struct runs of_loop(const struct layout_op *loop, struct runs body)
{
    const uint64_t last = (loop->count - 1) * (uint64_t)loop->stride_bytes;
    const bool continues = plus(body.first, (uint64_t)loop->stride_bytes) == body.end;
    return (struct runs){
        .count = body.count * loop->count - (continues ? loop->count - 1 : 0),
        .first = plus(body.first, (uint64_t)loop->offset_bytes),
        .end = plus(body.end, (uint64_t)loop->offset_bytes + last),
    };
}

/* The recursion is at most LAYOUT_DEPTH_MAX deep because the program was checked. */
static struct runs of_ops(const struct layout *layout, uint32_t from, uint32_t to)
{
    struct runs runs = {0};
    for (uint32_t i = from; i < to; i++) {
        const struct layout_op *op = &layout->ops[i];
        struct runs more;
        if (op->kind == LAYOUT_LOOP) {
            more = of_loop(op, of_ops(layout, i + 1, i + 1 + op->body));
            i += op->body;
        } else if (op->kind == LAYOUT_LIST) {
            more = of_list(layout, op);
        } else {
            more = (struct runs){1, op->offset_bytes, plus(op->offset_bytes, op->count)};
        }
        join(&runs, &more);
    }
    return runs;
}

uint64_t layout_runs(const struct layout *layout)
{
    return of_ops(layout, 0, layout->op_count).count;
}
