#include "drivers/copy/pieces.h"

#include <errno.h>
#include <stdlib.h>

/* A block of this length is worth an operation of its own. */
enum { ALONE_BYTES = 64 << 10 };

int copy_pieces_add(struct copy_pieces *pieces, uint64_t target, uint64_t source, uint64_t length)
{
    struct copy_piece *last = pieces->count > 0 ? &pieces->all[pieces->count - 1] : NULL;
    if (last && last->target + last->length == target && last->source + last->length == source) {
        last->length += length;
        return 0;
    }
    if (pieces->count == pieces->room) {
        uint64_t room = pieces->room > 0 ? 2 * pieces->room : 16;
        struct copy_piece *all = reallocarray(pieces->all, room, sizeof(*all));
        if (!all)
            return -ENOMEM;
        pieces->all = all;
        pieces->room = room;
    }
    pieces->all[pieces->count++] = (struct copy_piece){target, source, length};
    return 0;
}

void copy_pieces_clear(struct copy_pieces *pieces)
{
    pieces->count = 0;
}

static bool is_near(uint64_t place, uint64_t base)
{
    return (int64_t)(place - base) == (int32_t)(place - base);
}

/* How many pieces fit into one list: places of 32 bits, from the first one on. */
static uint64_t list_count(const struct copy_piece *pieces, uint64_t count)
{
    uint64_t i = 0, bytes = 0;
    for (; i < count && pieces[i].length < ALONE_BYTES; i++) {
        bytes += pieces[i].length;
        if (bytes > INT32_MAX || !is_near(pieces[i].target, pieces[0].target) ||
            !is_near(pieces[i].source, pieces[0].source))
            break;
    }
    return i;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Lists whose blocks have one length have the faster kernels: a block that is twice or three times
 * as long as the others (neighbours that were merged) is cut up, unless too many are. 0: leave
 * them. */
static uint64_t common_length(const struct copy_piece *pieces, uint64_t count, uint64_t *ret_blocks)
{
    uint64_t divisor = 0, bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        divisor = common_divisor(pieces[i].length, divisor);
        bytes += pieces[i].length;
    }
    *ret_blocks = bytes / divisor;
    if (*ret_blocks <= count + count / 2)
        return divisor;
    *ret_blocks = count;
    return 0;
}

/* The arrays of a list in the making. */
struct arrays {
    int32_t *target, *source;
    uint32_t *starts;
    bool target_packed, source_packed;
};

static int arrays_new(struct arrays *arrays, uint64_t blocks)
{
    *arrays = (struct arrays){
        .target = reallocarray(NULL, blocks, sizeof(int32_t)),
        .source = reallocarray(NULL, blocks, sizeof(int32_t)),
        .starts = reallocarray(NULL, blocks + 1, sizeof(uint32_t)),
        .target_packed = true,
        .source_packed = true,
    };
    return arrays->target && arrays->source && arrays->starts ? 0 : -ENOMEM;
}

static void arrays_fill(struct arrays *arrays, const struct copy_piece *pieces, uint64_t count,
                        uint64_t block)
{
    uint64_t at = 0, start = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length = block > 0 ? block : pieces[i].length;
        for (uint64_t inside = 0; inside < pieces[i].length; inside += length, at++) {
            arrays->target[at] = (int32_t)(pieces[i].target + inside - pieces[0].target);
            arrays->source[at] = (int32_t)(pieces[i].source + inside - pieces[0].source);
            arrays->starts[at] = (uint32_t)start;
            arrays->target_packed &= arrays->target[at] == (int64_t)start;
            arrays->source_packed &= arrays->source[at] == (int64_t)start;
            start += length;
        }
    }
    arrays->starts[at] = (uint32_t)start;
}

/* Keeps what the kernels need, frees the others. */
static void arrays_to_list(struct arrays *arrays, uint64_t block, struct copy_list *list)
{
    *list = (struct copy_list){.block_bytes = block};
    if (!arrays->target_packed) {
        list->target_places = arrays->target;
        arrays->target = NULL;
    }
    if (!arrays->source_packed) {
        list->source_places = arrays->source;
        arrays->source = NULL;
    }
    if (block == 0) {
        list->starts = arrays->starts;
        arrays->starts = NULL;
    }
}

static int make_list(const struct copy_piece *pieces, uint64_t count, struct copy_op *op)
{
    struct arrays arrays;
    uint64_t blocks, block = common_length(pieces, count, &blocks);
    int r = arrays_new(&arrays, blocks);
    if (r == 0) {
        arrays_fill(&arrays, pieces, count, block);
        op->kind = COPY_LIST;
        op->count = blocks;
        op->size_bytes = arrays.starts[blocks];
        arrays_to_list(&arrays, block, &op->list.list);
    }
    free(arrays.target);
    free(arrays.source);
    free(arrays.starts);
    return r;
}

int copy_pieces_op(const struct copy_pieces *pieces, uint64_t *first, struct copy_op *ret_op)
{
    const struct copy_piece *from = &pieces->all[*first];
    uint64_t count = list_count(from, pieces->count - *first);
    struct copy_op op = {
        .kind = COPY_BLOCK,
        .size_bytes = from->length,
        .target_offset_bytes = (int64_t)from->target,
        .source_offset_bytes = (int64_t)from->source,
    };
    if (count > 1) {
        int r = make_list(from, count, &op);
        if (r < 0)
            return r;
    }
    *first += count > 1 ? count : 1;
    *ret_op = op;
    return 0;
}
