/* Block-stride to block-stride; packed bytes are blocks whose stride is their length. */
#include <string.h>

#include "drivers/copy/kernels.h"

/* A block of a size that the compiler knows becomes one load and one store. */
#define FIXED_SIZE_LOOP(bytes)                                                                     \
    do {                                                                                           \
        struct block {                                                                             \
            uint8_t data[bytes];                                                                   \
        } block;                                                                                   \
        for (; count >= 4; count -= 4) {                                                           \
            struct block a, b, c;                                                                  \
            memcpy(&a, source, bytes);                                                             \
            memcpy(&b, source + source_stride, bytes);                                             \
            memcpy(&c, source + 2 * source_stride, bytes);                                         \
            memcpy(&block, source + 3 * source_stride, bytes);                                     \
            memcpy(target, &a, bytes);                                                             \
            memcpy(target + target_stride, &b, bytes);                                             \
            memcpy(target + 2 * target_stride, &c, bytes);                                         \
            memcpy(target + 3 * target_stride, &block, bytes);                                     \
            source += 4 * source_stride;                                                           \
            target += 4 * target_stride;                                                           \
        }                                                                                          \
        for (; count > 0; count--) {                                                               \
            memcpy(&block, source, bytes);                                                         \
            memcpy(target, &block, bytes);                                                         \
            source += source_stride;                                                               \
            target += target_stride;                                                               \
        }                                                                                          \
    } while (0)

static void copy_blocks_4(uint8_t *target, int64_t target_stride, const uint8_t *source,
                          int64_t source_stride, uint64_t count)
{
    FIXED_SIZE_LOOP(4);
}

static void copy_blocks_8(uint8_t *target, int64_t target_stride, const uint8_t *source,
                          int64_t source_stride, uint64_t count)
{
    FIXED_SIZE_LOOP(8);
}

static void copy_blocks_16(uint8_t *target, int64_t target_stride, const uint8_t *source,
                           int64_t source_stride, uint64_t count)
{
    FIXED_SIZE_LOOP(16);
}

void copy_strided(uint8_t *target, int64_t target_stride_bytes, const uint8_t *source,
                  int64_t source_stride_bytes, uint64_t block_bytes, uint64_t count)
{
    switch (block_bytes) {
    case 4:
        copy_blocks_4(target, target_stride_bytes, source, source_stride_bytes, count);
        return;
    case 8:
        copy_blocks_8(target, target_stride_bytes, source, source_stride_bytes, count);
        return;
    case 16:
        copy_blocks_16(target, target_stride_bytes, source, source_stride_bytes, count);
        return;
    default:
        for (; count > 0; count--) {
            memmove(target, source, block_bytes);
            target += target_stride_bytes;
            source += source_stride_bytes;
        }
    }
}
