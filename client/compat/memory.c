/* Memory that handles can name. Without a GPU, memory of type tcaMemoryGPU is host memory. */
#include "client/compat/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/compat/channel.h"
#include "client/compat/turn.h"

/* How many attached allocations without a handle are kept, because programs destroy handles and
 * create them again. */
enum { UNUSED_MAX = 32 };

static struct allocation *allocations; /* the newest first */

tcaresult memory_check_type(int type)
{
    if (type == tcaMemoryGPU || type == tcaMemoryCPU)
        return TCA_SUCCESS;
    return compat_fail(TCA_ERROR_INVALID_VALUE,
                       "memory type %d is neither tcaMemoryGPU nor tcaMemoryCPU", type);
}

uint64_t allocation_address(const struct allocation *allocation)
{
    return allocation->device ? allocation->device->cuda.address
                              : (uint64_t)(uintptr_t)tca_region_address(allocation->region);
}

uint64_t allocation_bytes(const struct allocation *allocation)
{
    return allocation->device ? allocation->device->cuda.bytes
                              : tca_region_bytes(allocation->region);
}

/* ---- making and freeing ---- */

static struct allocation *insert(struct allocation allocation)
{
    struct allocation *inserted = malloc(sizeof(*inserted));
    if (!inserted)
        return NULL;
    *inserted = allocation;
    inserted->next = allocations;
    allocations = inserted;
    return inserted;
}

/* Frees an allocation that no program uses any more. */
static int end(struct allocation *allocation)
{
    programs_drop(allocation->region);
    int r = tca_region_free(allocation->region);
    if (r < 0)
        return r;
    if (allocation->device)
        device_end(allocation->device);
    struct allocation **at = &allocations;
    while (*at != allocation)
        at = &(*at)->next;
    *at = allocation->next;
    free(allocation);
    return 0;
}

/* `bytes`: of the region; CARD_BYTES for device memory. */
static tcaresult add(struct allocation *made, uint64_t bytes, struct allocation **ret_allocation)
{
    tcaresult result;
    int r = tca_region_alloc(compat.session, bytes, &made->region);
    if (r < 0) {
        result = compat_fail_errno(r, "memory");
    } else {
        *ret_allocation = insert(*made);
        if (*ret_allocation)
            return TCA_SUCCESS;
        tca_region_free(made->region);
        result = compat_fail(TCA_ERROR_OUT_OF_MEMORY, "out of memory");
    }
    if (made->device)
        device_end(made->device);
    return result;
}

TCA_API tcaresult tcaMalloc(void **ret_memory, size_t size, int type)
{
    TAKE_TURN();
    struct allocation made = {.type = type}, *allocation;
    const bool on_device = type == tcaMemoryGPU && device_ready();
    tcaresult result = compat_ready();
    if (result == TCA_SUCCESS)
        result = memory_check_type(type);
    if (result != TCA_SUCCESS)
        return result;
    if (!ret_memory)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "tcaMalloc: the pointer for the result is NULL");
    size = size ? size : 1;
    if (on_device)
        result = device_new(size, &made.device);
    if (result == TCA_SUCCESS)
        result = add(&made, on_device ? CARD_BYTES : size, &allocation);
    if (result == TCA_SUCCESS)
        *ret_memory = (void *)(uintptr_t)allocation_address(allocation);
    return result;
}

/* Whether it is not from tcaMalloc(). */
static bool is_foreign(const struct allocation *allocation)
{
    return allocation->attached ||
           (allocation->device && allocation->device->cuda.kind == CUDA_FOREIGN);
}

TCA_API tcaresult tcaFree(void *memory, int type)
{
    TAKE_TURN();
    tcaresult result = compat_ready();
    if (result == TCA_SUCCESS)
        result = memory_check_type(type);
    if (result != TCA_SUCCESS || !memory)
        return result;
    struct allocation *allocation = allocations;
    while (allocation && (is_foreign(allocation) ||
                          allocation_address(allocation) != (uint64_t)(uintptr_t)memory))
        allocation = allocation->next;
    if (!allocation || allocation->type != type)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "tcaFree: %p is not from tcaMalloc() with type %d, or was already freed",
                           memory, type);
    int r = end(allocation);
    return r < 0 ? compat_fail_errno(r, "tcaFree") : channels_tell();
}

/* ---- finding ---- */

static bool has_gone(const struct allocation *allocation)
{
    return allocation->device && is_foreign(allocation) &&
           !cuda_memory_same(&allocation->device->cuda);
}

struct allocation *allocation_next(struct allocation *previous, uint64_t address,
                                   uint64_t *ret_offset_bytes)
{
    struct allocation *allocation = previous ? previous->next : allocations;
    for (struct allocation *next; allocation; allocation = next) {
        uint64_t offset = address - allocation_address(allocation);
        next = allocation->next;
        if (offset >= allocation_bytes(allocation))
            continue;
        if (has_gone(allocation)) {
            end(allocation); /* the program has freed it and may have reused the address */
            continue;
        }
        *ret_offset_bytes = offset;
        return allocation;
    }
    return NULL;
}

static struct allocation *find(uint64_t address, uint64_t *ret_offset_bytes)
{
    struct allocation *allocation = NULL;
    do
        allocation = allocation_next(allocation, address, ret_offset_bytes);
    while (allocation && allocation->attached);
    return allocation;
}

static struct allocation *find_attached(uint64_t address, uint64_t bytes,
                                        uint64_t *ret_offset_bytes)
{
    struct allocation *allocation = NULL;
    do
        allocation = allocation_next(allocation, address, ret_offset_bytes);
    while (allocation &&
           (!allocation->attached || allocation_bytes(allocation) - *ret_offset_bytes < bytes));
    return allocation;
}

/* ---- the program's own host memory ---- */

/* Frees attached allocations without a handle, except the newest `kept`. Returns whether there were
 * any. */
static bool trim_attached(unsigned kept)
{
    bool any = false;
    unsigned unused = 0;
    for (struct allocation *allocation = allocations, *next; allocation; allocation = next) {
        next = allocation->next;
        if (allocation->attached && allocation->handles == 0 && unused++ >= kept)
            any |= end(allocation) == 0;
    }
    return any;
}

/* Attaches host memory of the program: also what has an allocation, because the program may have
 * freed it and have other memory at this address now, which becomes shared under the old
 * handles. */
static tcaresult attach(void *memory, uint64_t bytes, int type, struct allocation **ret_allocation,
                        uint64_t *ret_offset_bytes)
{
    struct allocation made = {.type = type, .attached = true};
    trim_attached(UNUSED_MAX);
    int r = tca_region_attach(compat.session, memory, bytes, &made.region);
    if (r == -EDQUOT && trim_attached(0))
        r = tca_region_attach(compat.session, memory, bytes, &made.region);
    if (r < 0)
        return compat_fail_errno(r, "tcaCreateHandle");
    *ret_allocation = find_attached((uint64_t)(uintptr_t)memory, bytes, ret_offset_bytes);
    if (*ret_allocation) {
        tca_region_free(made.region);
        return TCA_SUCCESS;
    }
    *ret_offset_bytes = 0;
    *ret_allocation = insert(made);
    if (*ret_allocation)
        return TCA_SUCCESS;
    tca_region_free(made.region);
    return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "out of memory");
}

/* Device memory that the program allocated with CUDA. */
static tcaresult adopt(void *memory, struct allocation **ret_allocation, uint64_t *ret_offset_bytes)
{
    struct allocation adopted = {.type = tcaMemoryGPU};
    tcaresult result = device_adopt(memory, &adopted.device);
    if (result != TCA_SUCCESS)
        return result;
    if ((result = add(&adopted, CARD_BYTES, ret_allocation)) != TCA_SUCCESS)
        return result;
    *ret_offset_bytes = (uint64_t)(uintptr_t)memory - allocation_address(*ret_allocation);
    return TCA_SUCCESS;
}

tcaresult allocation_find(void *memory, uint64_t bytes, int type,
                          struct allocation **ret_allocation, uint64_t *ret_offset_bytes)
{
    struct allocation *allocation = find((uint64_t)(uintptr_t)memory, ret_offset_bytes);
    if (!allocation)
        return type == tcaMemoryGPU && device_ready()
                   ? adopt(memory, ret_allocation, ret_offset_bytes)
                   : attach(memory, bytes, type, ret_allocation, ret_offset_bytes);
    if (allocation->type != type)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "tcaCreateHandle: %p is from tcaMalloc(), but not with type %d", memory,
                           type);
    *ret_allocation = allocation;
    return TCA_SUCCESS;
}
