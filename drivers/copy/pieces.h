/* Blocks that lie side by side in one body of a copy tree, on their way to become operations of it.
 */
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
/* Appends one, or makes the last longer where both sides go on. 0 or -ENOMEM. */
int copy_pieces_add(struct copy_pieces *pieces, uint64_t target, uint64_t source, uint64_t length);
/* Room for so many more. 0 or -ENOMEM. */
int copy_pieces_reserve(struct copy_pieces *pieces, uint64_t count);
/* As copy_pieces_add(), where there is room. */
static inline void copy_pieces_put(struct copy_pieces *pieces, uint64_t target, uint64_t source,
                                   uint64_t length)
{
    struct copy_piece *last = pieces->count > 0 ? &pieces->all[pieces->count - 1] : NULL;
    if (last && last->target + last->length == target && last->source + last->length == source)
        last->length += length;
    else
        pieces->all[pieces->count++] = (struct copy_piece){target, source, length};
}
/* The pieces from *first on that go into one operation: a block or a list. Moves *first behind
 * them. The list's arrays are from malloc. 0 or -ENOMEM. */
int copy_pieces_op(const struct copy_pieces *pieces, uint64_t *first, struct copy_op *ret_op);
void copy_pieces_clear(struct copy_pieces *pieces); /* keeps the room for the next */
void copy_pieces_deinit(struct copy_pieces *pieces);
