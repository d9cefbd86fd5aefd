/* The loops that move bytes. Source and target may overlap (both are a user's): the bytes are then
 * unspecified, and nothing else happens. */
#pragma once

#include <stdint.h>

/* `count` blocks of block_bytes; strides of any sign. */
void copy_strided(uint8_t *target, int64_t target_stride_bytes, const uint8_t *source,
                  int64_t source_stride_bytes, uint64_t block_bytes, uint64_t count);
