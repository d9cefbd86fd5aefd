/* Regions of drivers that read and write memory where it is mapped: without a registration. */
#pragma once

#include "drivers/driver.h"

struct mapped {
    uint8_t *base;
    uint64_t length_bytes;
    bool dmabuf;
    void (*gone)(void *context); /* struct driver_memory */
    void *context;
};

/* driver_ops.region_add and region_remove. */
int mapped_add(struct driver *driver, const struct driver_memory *memory,
               struct driver_region **ret_region);
void mapped_remove(struct driver *driver, struct driver_region *region);
