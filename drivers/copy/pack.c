/* Copies between a layout and packed bytes, without a compiled program. */
#include "drivers/copy/copy.h"

#include <string.h>

#include "drivers/copy/kernels.h"

enum direction {
    PACK,
    UNPACK,
};

static inline void move(enum direction direction, uint8_t *memory, uint8_t *packed, uint64_t bytes)
{
    if (direction == PACK)
        memmove(packed, memory, bytes);
    else
        memmove(memory, packed, bytes);
}

static inline void move_blocks(enum direction direction, uint8_t *memory,
                               const struct layout_strided *strided, uint8_t *packed,
                               uint64_t count)
{
    struct copy_nest nest = {.block_bytes = strided->block_bytes, .count = count, .rows = 1};
    copy_nest_kernel *kernel;
    if (direction == PACK) {
        nest.target_stride_bytes = (int64_t)nest.block_bytes;
        nest.source_stride_bytes = strided->stride_bytes;
        kernel = copy_kernels()->nest(&nest);
        kernel(packed, memory, &nest);
    } else {
        nest.target_stride_bytes = strided->stride_bytes;
        nest.source_stride_bytes = (int64_t)nest.block_bytes;
        kernel = copy_kernels()->nest(&nest);
        kernel(memory, packed, &nest);
    }
}

static inline void transfer_strided(enum direction direction, uint8_t *memory,
                                    const struct layout_strided *strided, uint64_t position,
                                    uint8_t *packed, uint64_t length)
{
    const uint64_t block = strided->block_bytes;
    uint64_t inside = position % block;
    memory += strided->offset_bytes + (int64_t)(position / block) * strided->stride_bytes;

    if (inside > 0) {
        uint64_t rest = block - inside < length ? block - inside : length;
        move(direction, memory + inside, packed, rest);
        memory += strided->stride_bytes;
        packed += rest;
        length -= rest;
    }
    uint64_t whole = length / block;
    move_blocks(direction, memory, strided, packed, whole);
    if (length > whole * block)
        move(direction, memory + (int64_t)whole * strided->stride_bytes, packed + whole * block,
             length - whole * block);
}

static inline void transfer(enum direction direction, uint8_t *base, const struct layout *layout,
                            uint64_t position, uint8_t *packed, uint64_t length)
{
    if (length == 0)
        return;
    struct layout_strided strided;
    if (layout_as_strided(layout, &strided)) {
        transfer_strided(direction, base, &strided, position, packed, length);
        return;
    }
    struct layout_cursor cursor;
    layout_cursor_init(&cursor, layout, position);
    int64_t offset;
    uint64_t piece;
    while (length > 0 && layout_cursor_next(&cursor, length, &offset, &piece)) {
        move(direction, base + offset, packed, piece);
        packed += piece;
        length -= piece;
    }
}

void copy_pack(void *target, const void *base, const struct layout *layout, uint64_t position_bytes,
               uint64_t length_bytes)
{
    transfer(PACK, (uint8_t *)base, layout, position_bytes, target, length_bytes);
}

void copy_unpack(void *base, const struct layout *layout, uint64_t position_bytes,
                 const void *source, uint64_t length_bytes)
{
    transfer(UNPACK, base, layout, position_bytes, (uint8_t *)source, length_bytes);
}
