/* One side of a put as a sequence of packed bytes: contiguous memory, or a layout with a program
 * that packs or unpacks it. */
#pragma once

#include <stdint.h>
#include <sys/uio.h>

#include "drivers/copy/copy.h"
#include "drivers/driver.h"
#include "proto/layout.h"

struct packed {
    uint8_t *base;                /* contiguous: of the bytes; else of the layout */
    struct copy_program *program; /* NULL: contiguous */
    uint64_t size_bytes;
    /* NULL, or the layout: its blocks are so long that they are better read or written where they
     * lie than copied once more. See packed_parts(). */
    const struct layout *blocks;
};

/* memory: address of the layout's base. The caller has checked that the layout fits. The layout
 * must outlive `packed` where packed_parts() is used; else the caller may free it afterwards.
 * program: NULL, or what the functions below have made of this layout; if used, *program = NULL.
 * Returns 0 or -ENOMEM. */
int packed_source_init(struct packed *packed, uint8_t *memory, const struct layout *layout,
                       struct copy_program **program);
int packed_target_init(struct packed *packed, uint8_t *memory, const struct layout *layout,
                       struct copy_program **program);
/* driver_ops.put_compile and landing_compile of drivers whose puts have packed sources and
 * targets. */
int packed_put_compile(const struct driver_put_args *args, struct copy_program **ret_program);
int packed_landing_compile(const struct driver_landing_args *args,
                           struct copy_program **ret_program);
void packed_deinit(struct packed *packed);

/* Memory used beyond the struct. */
uint64_t packed_memory_bytes(const struct packed *packed);

void packed_read(const struct packed *source, void *buffer, uint64_t position_bytes,
                 uint64_t length_bytes);
void packed_write(const struct packed *target, const void *buffer, uint64_t position_bytes,
                  uint64_t length_bytes);

/* Where packed bytes position .. position + length lie, if they are contiguous or in long blocks:
 * the first `max` parts of them. Returns their number; 0: neither. */
unsigned packed_parts(const struct packed *packed, uint64_t position_bytes, uint64_t length_bytes,
                      struct iovec *ret_parts, unsigned max);
