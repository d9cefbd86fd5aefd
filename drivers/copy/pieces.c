#include "drivers/copy/pieces.h"

#include <errno.h>
#include <stdlib.h>

/* A block of at least this length becomes an operation of its own. */
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

static bool is_near(uint64_t offset, uint64_t base)
{
    return (int64_t)(offset - base) == (int32_t)(offset - base);
}

/* The greatest common divisor of a length and all previous ones (0: none yet). Fast for equal
 * lengths and for multiples of a power of two. */
static uint64_t common_divisor(uint64_t divisor, uint64_t length)
{
    if (divisor == length ||
        ((divisor & (divisor - 1)) == 0 && (length & (divisor - 1)) == 0 && divisor > 0))
        return divisor;
    while (divisor > 0) {
        uint64_t rest = length % divisor;
        length = divisor;
        divisor = rest;
    }
    return length;
}

/* The properties of a list to be made. */
struct plan {
    uint64_t pieces;
    uint64_t bytes;
    uint64_t blocks;
    uint64_t block_bytes; /* 0: they differ */
    bool target_packed, source_packed;
};

/* Plans a list of as many pieces as fit, with 32-bit offsets from the first one. Lists of equal
 * blocks have faster kernels, so a block two or three times as long as the others (merged
 * neighbours) is split, unless too many are. */
static struct plan make_plan(const struct copy_piece *pieces, uint64_t count)
{
    const uint64_t target = pieces->target, source = pieces->source;
    uint64_t i = 0, bytes = 0, divisor = 0, target_gaps = 0, source_gaps = 0;
    for (; i < count && pieces[i].length < ALONE_BYTES; i++) {
        const struct copy_piece *piece = &pieces[i];
        if (bytes + piece->length > INT32_MAX || !is_near(piece->target, target) ||
            !is_near(piece->source, source))
            break;
        divisor = common_divisor(divisor, piece->length);
        target_gaps |= piece->target - target - bytes;
        source_gaps |= piece->source - source - bytes;
        bytes += piece->length;
    }
    struct plan plan = {.pieces = i,
                        .bytes = bytes,
                        .block_bytes = divisor,
                        .target_packed = target_gaps == 0,
                        .source_packed = source_gaps == 0};
    if (i > 0)
        plan.blocks = bytes / divisor;
    if (plan.blocks > i + i / 2) {
        plan.blocks = i;
        plan.block_bytes = 0;
    }
    return plan;
}

static void fill_places(int32_t *places, const struct copy_piece *pieces, const struct plan *plan,
                        bool is_target)
{
    const uint64_t base = is_target ? pieces->target : pieces->source;
    uint64_t at = 0;
    for (uint64_t i = 0; i < plan->pieces; i++) {
        uint64_t offset = (is_target ? pieces[i].target : pieces[i].source) - base;
        places[at++] = (int32_t)offset;
        for (uint64_t inside = plan->block_bytes; inside < pieces[i].length && inside > 0;
             inside += plan->block_bytes)
            places[at++] = (int32_t)(offset + inside);
    }
}

static int make_places(const struct plan *plan, const struct copy_piece *pieces, bool is_target,
                       const int32_t **ret_places)
{
    int32_t *places = reallocarray(NULL, plan->blocks, sizeof(*places));
    if (!places)
        return -ENOMEM;
    if (is_target)
        fill_places(places, pieces, plan, true);
    else
        fill_places(places, pieces, plan, false);
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

static int make_list(const struct plan *plan, const struct copy_piece *pieces, struct copy_op *op)
{
    op->kind = COPY_LIST;
    op->count = plan->blocks;
    op->size_bytes = plan->bytes;
    op->list.list = (struct copy_list){.block_bytes = plan->block_bytes};
    int r = 0;
    if (!plan->target_packed)
        r = make_places(plan, pieces, true, &op->list.list.target_places);
    if (r == 0 && !plan->source_packed)
        r = make_places(plan, pieces, false, &op->list.list.source_places);
    if (r == 0 && plan->block_bytes == 0)
        r = make_starts(pieces, plan->pieces, &op->list.list.starts);
    if (r < 0)
        copy_op_deinit(op);
    return r;
}

int copy_pieces_op(const struct copy_pieces *pieces, uint64_t *first, struct copy_op *ret_op)
{
    const struct copy_piece *from = &pieces->all[*first];
    const struct plan plan = make_plan(from, pieces->count - *first);
    struct copy_op op = {
        .kind = COPY_BLOCK,
        .size_bytes = from->length,
        .target_offset_bytes = (int64_t)from->target,
        .source_offset_bytes = (int64_t)from->source,
    };
    if (plan.pieces > 1) {
        int r = make_list(&plan, from, &op);
        if (r < 0)
            return r;
    }
    *first += plan.pieces > 1 ? plan.pieces : 1;
    *ret_op = op;
    return 0;
}
