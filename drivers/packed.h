/* One side of a put as a sequence of packed bytes: contiguous memory, or a layout with a program that
 * packs or unpacks it. */
#pragma once

#include <stdint.h>

#include "drivers/copy/copy.h"
#include "proto/layout.h"

struct packed {
    uint8_t *base;                /* contiguous: of the bytes; else of the layout */
    struct copy_program *program; /* NULL: contiguous */
    uint64_t size_bytes;
};

/* memory: address of the layout's base. The caller has checked that the layout fits, and may free it
 * afterwards. Returns 0 or -ENOMEM. */
int packed_source_init(struct packed *packed, uint8_t *memory, const struct layout *layout);
int packed_target_init(struct packed *packed, uint8_t *memory, const struct layout *layout);
void packed_deinit(struct packed *packed);

/* Memory used beyond the struct. */
uint64_t packed_memory_bytes(const struct packed *packed);

void packed_read(const struct packed *source, void *buffer, uint64_t position_bytes,
                 uint64_t length_bytes);
void packed_write(const struct packed *target, const void *buffer, uint64_t position_bytes,
                  uint64_t length_bytes);
