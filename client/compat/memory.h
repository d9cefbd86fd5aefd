/* What tcaMalloc() has given out, and what of the program's own memory has a handle. */
#pragma once

#include "client/compat/compat.h"
#include "client/compat/device/device.h"

/* Of device memory's region: that others put nothing into, but which becomes stale. */
enum { CARD_BYTES = 8 };

struct allocation {
    struct tca_region *region;
    struct device_memory *device; /* NULL: the region is the memory */
    int type;
    struct allocation *next;
};

uint64_t allocation_address(const struct allocation *allocation);
uint64_t allocation_bytes(const struct allocation *allocation);

/* The memory of this process that a handle names. */
tcaresult reference_allocation(const struct reference *reference,
                               struct allocation **ret_allocation, uint64_t *ret_offset_bytes);
