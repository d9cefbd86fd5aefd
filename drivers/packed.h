/* One side of a put as a sequence of packed bytes: contiguous memory, or a layout and a program that
 * packs it or unpacks into it. */
#pragma once

#include <stdint.h>

#include "drivers/copy/copy.h"
#include "proto/layout.h"

struct packed {
    uint8_t *base; /* the bytes themselves if they are contiguous, else of the layout */
    struct copy_program *program; /* NULL: contiguous */
    uint64_t size_bytes;
};

/* memory: of the layout's base. The layout was checked to fit, and can be freed afterwards. Returns 0
 * or -ENOMEM. */
int packed_source_init(struct packed *packed, uint8_t *memory, const struct layout *layout);
int packed_target_init(struct packed *packed, uint8_t *memory, const struct layout *layout);
void packed_deinit(struct packed *packed);

/* What it takes besides the struct. */
uint64_t packed_memory_bytes(const struct packed *packed);

void packed_read(const struct packed *source, void *buffer, uint64_t position_bytes,
                 uint64_t length_bytes);
void packed_write(const struct packed *target, const void *buffer, uint64_t position_bytes,
                  uint64_t length_bytes);
