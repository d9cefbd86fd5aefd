/* Loops of blocks of one size. */
#include <stddef.h>

#include "drivers/copy/moves.h"
#include "drivers/copy/variant.h"

/* Four blocks at a time, so that loads do not wait for the stores of other blocks. */
#define ROW(LOAD_BLOCK, STORE_BLOCK, type)                                                         \
    do {                                                                                           \
        uint64_t left = count;                                                                     \
        for (; left >= 4; left -= 4) {                                                             \
            type a, b, c, d;                                                                       \
            LOAD_BLOCK(a, from);                                                                   \
            LOAD_BLOCK(b, from + source_stride);                                                   \
            LOAD_BLOCK(c, from + 2 * source_stride);                                               \
            LOAD_BLOCK(d, from + 3 * source_stride);                                               \
            STORE_BLOCK(to, a);                                                                    \
            STORE_BLOCK(to + target_stride, b);                                                    \
            STORE_BLOCK(to + 2 * target_stride, c);                                                \
            STORE_BLOCK(to + 3 * target_stride, d);                                                \
            from += 4 * source_stride;                                                             \
            to += 4 * target_stride;                                                               \
        }                                                                                          \
        for (; left > 0; left--) {                                                                 \
            type a;                                                                                \
            LOAD_BLOCK(a, from);                                                                   \
            STORE_BLOCK(to, a);                                                                    \
            from += source_stride;                                                                 \
            to += target_stride;                                                                   \
        }                                                                                          \
    } while (0)

#define NEST(name, ONE_ROW)                                                                        \
    static void name(uint8_t *target, const uint8_t *source, const struct copy_nest *nest)         \
    {                                                                                              \
        const uint64_t count = nest->count, block = nest->block_bytes;                             \
        const int64_t target_stride = nest->target_stride_bytes,                                   \
                      source_stride = nest->source_stride_bytes;                                   \
        (void)block;                                                                               \
        for (uint64_t rows = nest->rows; rows > 0; rows--) {                                       \
            uint8_t *to = target;                                                                  \
            const uint8_t *from = source;                                                          \
            ONE_ROW;                                                                               \
            target += nest->target_row_bytes;                                                      \
            source += nest->source_row_bytes;                                                      \
        }                                                                                          \
    }

#define LOAD_1(value, from)  value = LOAD(1, from)
#define STORE_1(to, value)   STORE(1, to, value)
#define LOAD_2(value, from)  value = LOAD(2, from)
#define STORE_2(to, value)   STORE(2, to, value)
#define LOAD_4(value, from)  value = LOAD(4, from)
#define STORE_4(to, value)   STORE(4, to, value)
#define LOAD_8(value, from)  value = LOAD(8, from)
#define STORE_8(to, value)   STORE(8, to, value)
#define LOAD_16(value, from) value = LOAD(16, from)
#define STORE_16(to, value)  STORE(16, to, value)
#define LOAD_32(value, from) value = LOAD(32, from)
#define STORE_32(to, value)  STORE(32, to, value)
#define LOAD_64(value, from) value = LOAD(64, from)
#define STORE_64(to, value)  STORE(64, to, value)

/* Blocks copied by one move. */
#define SINGLE(width) NEST(single_##width, ROW(LOAD_##width, STORE_##width, word##width))
SINGLE(1)
SINGLE(2)
SINGLE(4)
SINGLE(8)
SINGLE(16)
SINGLE(32)
SINGLE(64)

/* Blocks copied by two overlapping moves. */
#define PAIR(width)                                                                                \
    struct pair_of_##width {                                                                       \
        word##width head, tail;                                                                    \
    };                                                                                             \
    NEST(pair_##width, ROW(LOAD_PAIR_##width, STORE_PAIR_##width, struct pair_of_##width))
#define LOAD_PAIR(width, value, from)                                                              \
    value.head = LOAD(width, from), value.tail = LOAD(width, (from) + block - width)
#define STORE_PAIR(width, to, value)                                                               \
    STORE(width, to, value.head), STORE(width, (to) + block - width, value.tail)
#define LOAD_PAIR_2(value, from)  LOAD_PAIR(2, value, from)
#define STORE_PAIR_2(to, value)   STORE_PAIR(2, to, value)
#define LOAD_PAIR_4(value, from)  LOAD_PAIR(4, value, from)
#define STORE_PAIR_4(to, value)   STORE_PAIR(4, to, value)
#define LOAD_PAIR_8(value, from)  LOAD_PAIR(8, value, from)
#define STORE_PAIR_8(to, value)   STORE_PAIR(8, to, value)
#define LOAD_PAIR_16(value, from) LOAD_PAIR(16, value, from)
#define STORE_PAIR_16(to, value)  STORE_PAIR(16, to, value)
#define LOAD_PAIR_32(value, from) LOAD_PAIR(32, value, from)
#define STORE_PAIR_32(to, value)  STORE_PAIR(32, to, value)
#define LOAD_PAIR_64(value, from) LOAD_PAIR(64, value, from)
#define STORE_PAIR_64(to, value)  STORE_PAIR(64, to, value)
PAIR(2)
PAIR(4)
PAIR(8)
PAIR(16)
PAIR(32)
PAIR(64)

#define ROW_OF_LONG(MOVE_BLOCK)                                                                    \
    for (uint64_t left = count; left > 0; left--) {                                                \
        MOVE_BLOCK(to, from, block);                                                               \
        from += source_stride;                                                                     \
        to += target_stride;                                                                       \
    }
/* More than 64 bytes: whole moves, and one at the end that overlaps the last of them. */
static inline void move_long(uint8_t *to, const uint8_t *from, uint64_t block)
{
    const word64 tail = LOAD(64, from + block - 64);
    for (uint64_t at = 0; at < block - 64; at += 64)
        MOVE(64, to + at, from + at);
    STORE(64, to + block - 64, tail);
}
NEST(medium, ROW_OF_LONG(move_long))
NEST(large, ROW_OF_LONG(memmove))

/* From this size on, memmove() is faster. */
enum { LARGE_BYTES = 2048 };

copy_nest_kernel *copy_nest_choose(const struct copy_nest *nest)
{
    const uint64_t block = nest->block_bytes;
    static copy_nest_kernel *const singles[] = {
        [1] = single_1,   [2] = single_2,   [4] = single_4,   [8] = single_8,
        [16] = single_16, [32] = single_32, [64] = single_64, [65] = NULL};
    if (block <= 64 && singles[block])
        return singles[block];
    if (block < 4)
        return pair_2;
    if (block < 8)
        return pair_4;
    if (block < 16)
        return pair_8;
    if (block < 32)
        return pair_16;
    if (block < 64)
        return pair_32;
    if (block <= 128)
        return pair_64;
    return block < LARGE_BYTES ? medium : large;
}
