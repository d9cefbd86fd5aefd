#include "drivers/copy/pieces.h"

#include <errno.h>
#include <stdlib.h>

/* A block of this length is worth an operation of its own. */
enum { ALONE_BYTES = 64 << 10 };

static int make_room(struct copy_pieces *pieces, uint64_t room)
{
    struct copy_piece *all = reallocarray(pieces->all, room, sizeof(*all));
    if (!all)
        return -ENOMEM;
    pieces->all = all;
    pieces->room = room;
    return 0;
}

int copy_pieces_reserve(struct copy_pieces *pieces, uint64_t count)
{
    return pieces->room - pieces->count < count ? make_room(pieces, pieces->count + count) : 0;
}

int copy_pieces_add(struct copy_pieces *pieces, uint64_t target, uint64_t source, uint64_t length)
{
    if (pieces->count == pieces->room) {
        int r = make_room(pieces, pieces->room > 0 ? 2 * pieces->room : 16);
        if (r < 0)
            return r;
    }
    copy_pieces_put(pieces, target, source, length);
    return 0;
}

void copy_pieces_clear(struct copy_pieces *pieces)
{
    pieces->count = 0;
}

void copy_pieces_deinit(struct copy_pieces *pieces)
{
    free(pieces->all);
    *pieces = (struct copy_pieces){0};
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
    while (b > 0 && a != b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* What a list will be like. */
struct plan {
    uint64_t bytes;
    uint64_t blocks;
    uint64_t block_bytes; /* 0: they differ */
    bool target_packed, source_packed;
};

/* Lists whose blocks have one length have the faster kernels: a block that is twice or three times
 * as long as the others (neighbours that were merged) is cut up, unless too many are. */
static struct plan make_plan(const struct copy_piece *pieces, uint64_t count)
{
    struct plan plan = {.target_packed = true, .source_packed = true};
    for (uint64_t i = 0; i < count; i++) {
        plan.block_bytes = common_divisor(pieces[i].length, plan.block_bytes);
        plan.target_packed &= pieces[i].target - pieces[0].target == plan.bytes;
        plan.source_packed &= pieces[i].source - pieces[0].source == plan.bytes;
        plan.bytes += pieces[i].length;
    }
    plan.blocks = plan.bytes / plan.block_bytes;
    if (plan.blocks > count + count / 2) {
        plan.blocks = count;
        plan.block_bytes = 0;
    }
    return plan;
}

static void fill_places(int32_t *places, const struct copy_piece *pieces, uint64_t count,
                        uint64_t block_bytes, bool is_target)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t place =
            is_target ? pieces[i].target - pieces[0].target : pieces[i].source - pieces[0].source;
        uint64_t step = block_bytes > 0 ? block_bytes : pieces[i].length;
        for (uint64_t inside = 0; inside < pieces[i].length; inside += step)
            places[at++] = (int32_t)(place + inside);
    }
}

static int make_places(const struct plan *plan, const struct copy_piece *pieces, uint64_t count,
                       bool is_target, const int32_t **ret_places)
{
    int32_t *places = reallocarray(NULL, plan->blocks, sizeof(*places));
    if (!places)
        return -ENOMEM;
    fill_places(places, pieces, count, plan->block_bytes, is_target);
    *ret_places = places;
    return 0;
}

static int make_starts(const struct copy_piece *pieces, uint64_t count, const uint32_t **ret_starts)
{
    uint32_t *starts = reallocarray(NULL, count + 1, sizeof(*starts));
    if (!starts)
        return -ENOMEM;
    starts[0] = 0;
    for (uint64_t i = 0; i < count; i++)
        starts[i + 1] = starts[i] + (uint32_t)pieces[i].length;
    *ret_starts = starts;
    return 0;
}

static int make_list(const struct copy_piece *pieces, uint64_t count, struct copy_op *op)
{
    const struct plan plan = make_plan(pieces, count);
    op->kind = COPY_LIST;
    op->count = plan.blocks;
    op->size_bytes = plan.bytes;
    op->list.list = (struct copy_list){.block_bytes = plan.block_bytes};
    int r = 0;
    if (!plan.target_packed)
        r = make_places(&plan, pieces, count, true, &op->list.list.target_places);
    if (r == 0 && !plan.source_packed)
        r = make_places(&plan, pieces, count, false, &op->list.list.source_places);
    if (r == 0 && plan.block_bytes == 0)
        r = make_starts(pieces, count, &op->list.list.starts);
    if (r < 0)
        copy_op_deinit(op);
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
