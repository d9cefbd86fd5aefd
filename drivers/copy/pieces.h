/* Sibling blocks in one body of a copy tree, before they become operations of it. */
#pragma once

#include "drivers/copy/tree.h"

struct copy_piece {
    uint64_t target, source; /* offsets, modulo 2^64 */
    uint64_t length;
};

struct copy_pieces {
    struct copy_piece *all;
    uint64_t count, room;
};
/* Appends a piece, or extends the last one if both sides are adjacent. 0 or -ENOMEM. */
int copy_pieces_add(struct copy_pieces *pieces, uint64_t target, uint64_t source, uint64_t length);
/* Makes room for `count` more. 0 or -ENOMEM. */
int copy_pieces_reserve(struct copy_pieces *pieces, uint64_t count);
/* As copy_pieces_add(), into reserved room. */
static inline void copy_pieces_put(struct copy_pieces *pieces, uint64_t target, uint64_t source,
                                   uint64_t length)
{
    struct copy_piece *last = pieces->count > 0 ? &pieces->all[pieces->count - 1] : NULL;
    if (last && last->target + last->length == target && last->source + last->length == source)
        last->length += length;
    else
        pieces->all[pieces->count++] = (struct copy_piece){target, source, length};
}
/* Makes one operation, a block or a list, of as many pieces from *first on as fit, and moves *first
 * past them. The caller releases it with copy_op_deinit(). 0 or -ENOMEM. */
int copy_pieces_op(const struct copy_pieces *pieces, uint64_t *first, struct copy_op *ret_op);
void copy_pieces_clear(struct copy_pieces *pieces); /* keeps the room */
void copy_pieces_deinit(struct copy_pieces *pieces);
