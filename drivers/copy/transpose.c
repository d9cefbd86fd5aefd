/* Transposing nests: rows are adjacent in the target, the blocks of a row in the source. The rows
 * that share a cache line of the target are copied together, so that each target line is written at
 * once, from as many source streams. (Square tiles are not faster, and slower for small blocks;
 * prefetching does not help either.) */
#include <stddef.h>

#include "drivers/copy/moves.h"
#include "drivers/copy/variant.h"

#define MOVE_WIDE_1(to, from)  MOVE(1, to, from)
#define MOVE_WIDE_2(to, from)  MOVE(2, to, from)
#define MOVE_WIDE_4(to, from)  MOVE(4, to, from)
#define MOVE_WIDE_8(to, from)  MOVE(8, to, from)
#define MOVE_WIDE_16(to, from) MOVE(16, to, from)
#define MOVE_UPTO_16(to, from) MOVE_PAIR(8, to, from, block)
#define MOVE_UPTO_32(to, from) MOVE_PAIR(16, to, from, block)

#define TRANSPOSE(name, group, MOVE_BLOCK)                                                         \
    static void name(uint8_t *target, const uint8_t *source, const struct copy_nest *nest)         \
    {                                                                                              \
        const uint64_t block = nest->block_bytes;                                                  \
        const int64_t target_stride = nest->target_stride_bytes,                                   \
                      source_stride = nest->source_stride_bytes,                                   \
                      target_row = nest->target_row_bytes, source_row = nest->source_row_bytes;    \
        uint64_t rows = nest->rows;                                                                \
        (void)block;                                                                               \
        for (; rows >= group; rows -= group) {                                                     \
            uint8_t *to = target;                                                                  \
            const uint8_t *from = source;                                                          \
            for (uint64_t left = nest->count; left > 0; left--) {                                  \
                _Pragma("GCC unroll 16") for (int row = 0; row < group; row++)                     \
                    MOVE_BLOCK(to + row * target_row, from + row * source_row);                    \
                to += target_stride;                                                               \
                from += source_stride;                                                             \
            }                                                                                      \
            target += group * target_row;                                                          \
            source += group * source_row;                                                          \
        }                                                                                          \
        if (rows == 0)                                                                             \
            return;                                                                                \
        struct copy_nest rest = *nest;                                                             \
        rest.rows = rows;                                                                          \
        copy_nest_choose (&rest)(target, source, &rest);                                           \
    }
TRANSPOSE(transpose_1, 16, MOVE_WIDE_1)
TRANSPOSE(transpose_2, 16, MOVE_WIDE_2)
TRANSPOSE(transpose_4, 16, MOVE_WIDE_4)
TRANSPOSE(transpose_8, 8, MOVE_WIDE_8)
TRANSPOSE(transpose_16, 4, MOVE_WIDE_16)
TRANSPOSE(transpose_pair_8, 8, MOVE_UPTO_16)
TRANSPOSE(transpose_pair_16, 4, MOVE_UPTO_32)

copy_nest_kernel *copy_nest_choose_transpose(const struct copy_nest *nest)
{
    switch (nest->block_bytes) {
    case 1:
        return transpose_1;
    case 2:
        return transpose_2;
    case 4:
        return transpose_4;
    case 8:
        return transpose_8;
    case 16:
        return transpose_16;
    default:
        return nest->block_bytes > 32   ? NULL
               : nest->block_bytes > 16 ? transpose_pair_16
               : nest->block_bytes > 8  ? transpose_pair_8
                                        : NULL;
    }
}
