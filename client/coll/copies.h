/* Operations that move data through memory of their own only: a start first copies there what this
 * rank contributes, and what it receives is copied from there when the start is complete. The
 * program's memory can then be anywhere, and another one in each start, without a word to other
 * ranks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct coll_met;
struct coll_shape;
struct tca_coll;
struct tca_coll_args;

/* Of the program's memory and the own. No bytes: nothing is copied. */
struct coll_copies {
    bool used; /* else all of this is zero */
    bool by_blocks;
    const uint8_t *give;
    uint8_t *give_to;
    uint64_t give_bytes;
    uint8_t *take;
    const uint8_t *take_from; /* of set 0; that of the next one is take_turn bytes further on */
    uint64_t take_bytes, take_turn;
};

/* Decides whether it has memory of its own: if it is short, or if args want that. -EINVAL: they do,
 * and it cannot. */
int coll_copies_choose(struct tca_coll *coll, const struct tca_coll_args *args);
/* Of all that a rank gives or receives: the same at all ranks, unless the blocks are irregular. */
uint64_t coll_common_bytes(const struct coll_shape *shape);
/* Makes the own memory, behind the scratch memory, and binds the program's. The last step of the
 * rank's program is left out if it only copies the result. */
int coll_copies_make(struct tca_coll *coll, struct coll_met *met);
/* The program's memory, as in the call that prepared the operation. -EINVAL. */
int coll_copies_bind(struct tca_coll *coll, const void *in, void *out);
/* Instead of copies->take_bytes in one piece, from where the result is: the blocks of an allgather
 * that need not be next to one another. */
void coll_copies_take_blocks(const struct tca_coll *coll, const uint8_t *from);

static inline void coll_copies_move(void *to, const void *from, uint64_t bytes)
{
    if (bytes == sizeof(uint64_t))
        memcpy(to, from, sizeof(uint64_t));
    else if (bytes > 0)
        memcpy(to, from, bytes);
}

static inline void coll_copies_give(const struct coll_copies *copies)
{
    coll_copies_move(copies->give_to, copies->give, copies->give_bytes);
}
