/* What tcaMalloc() has given out, and what of the program's own memory has a handle. */
#pragma once

#include "client/compat/compat.h"
#include "client/compat/device/device.h"

/* Of device memory's region: that others put nothing into, but which becomes stale. */
enum { CARD_BYTES = 8 };

struct allocation {
    struct tca_region *region;
    struct device_memory *device; /* NULL: the region is the memory */
    bool attached;                /* the program's own host memory */
    uint32_t handles;             /* of these, that were made and not destroyed */
    int type;
    struct allocation *next;
};

uint64_t allocation_address(const struct allocation *allocation);
uint64_t allocation_bytes(const struct allocation *allocation);

tcaresult memory_check_type(int type);

/* The memory at an address: from tcaMalloc(), or the program's own, which is made known now. */
tcaresult allocation_find(void *memory, uint64_t bytes, int type,
                          struct allocation **ret_allocation, uint64_t *ret_offset_bytes);
/* The one after `previous` (NULL: the first) that the address lies in: the program's own memory may
 * have been made known as several that overlap. */
struct allocation *allocation_next(struct allocation *previous, uint64_t address,
                                   uint64_t *ret_offset_bytes);

/* Whether memory of the program's own has handles: what is put there takes its time. */
bool allocations_attached(void);

/* The memory of this process that a handle names. */
tcaresult reference_allocation(const struct reference *reference,
                               struct allocation **ret_allocation, uint64_t *ret_offset_bytes);
