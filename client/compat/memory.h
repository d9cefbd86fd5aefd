/* Memory from tcaMalloc(), and memory of the program that has a handle. */
#pragma once

#include "client/compat/compat.h"
#include "client/compat/device/device.h"

/* Size of a card, the region that stands for device memory. No process puts into it; it serves to
 * make handles stale when the memory is freed. */
enum { CARD_BYTES = 8 };

struct allocation {
    struct tca_region *region;
    struct device_memory *device; /* NULL: host memory, in the region */
    bool attached;                /* host memory that the program allocated itself */
    uint32_t handles;             /* handles that exist */
    int type;
    struct allocation *next;
};

uint64_t allocation_address(const struct allocation *allocation);
uint64_t allocation_bytes(const struct allocation *allocation);

tcaresult memory_check_type(int type);

/* The allocation that contains the memory. Memory that is not from tcaMalloc() is attached. */
tcaresult allocation_find(void *memory, uint64_t bytes, int type,
                          struct allocation **ret_allocation, uint64_t *ret_offset_bytes);
/* The next allocation after `previous` (NULL: the first) that contains the address. Attached
 * allocations can overlap. */
struct allocation *allocation_next(struct allocation *previous, uint64_t address,
                                   uint64_t *ret_offset_bytes);

/* The allocation of a handle to memory of this process. */
tcaresult reference_allocation(const struct reference *reference,
                               struct allocation **ret_allocation, uint64_t *ret_offset_bytes);
