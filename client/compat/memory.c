/* Memory and handles to it. Without a GPU, tcaMemoryGPU stands in host memory. */
#include "client/compat/memory.h"

#include <stdlib.h>
#include <string.h>

#include "client/compat/channel.h"
#include "client/compat/turn.h"

#define REFERENCE_MAGIC 0x31414354u /* "TCA1" */
_Static_assert(sizeof(struct reference) <= sizeof(tcaHandle), "a handle has room for it");

static struct allocation *allocations;

static tcaresult check_type(int type)
{
    if (type == tcaMemoryGPU || type == tcaMemoryCPU)
        return TCA_SUCCESS;
    return compat_fail(TCA_ERROR_INVALID_VALUE,
                       "memory type %d: there are tcaMemoryGPU and tcaMemoryCPU", type);
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

/* Chains that use it have finished, and are empty. */
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

/* Of device memory the region is small: it becomes stale with it. */
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
        result = compat_fail(TCA_ERROR_OUT_OF_MEMORY, "no memory for a few words more");
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
        result = check_type(type);
    if (result != TCA_SUCCESS)
        return result;
    if (!ret_memory)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaMalloc: no place for the address");
    size = size ? size : 1;
    if (on_device)
        result = device_new(size, &made.device);
    if (result == TCA_SUCCESS)
        result = add(&made, on_device ? CARD_BYTES : size, &allocation);
    if (result == TCA_SUCCESS)
        *ret_memory = (void *)(uintptr_t)allocation_address(allocation);
    return result;
}

static bool is_foreign(const struct allocation *allocation)
{
    return allocation->device && allocation->device->cuda.kind == CUDA_FOREIGN;
}

TCA_API tcaresult tcaFree(void *memory, int type)
{
    TAKE_TURN();
    tcaresult result = compat_ready();
    if (result == TCA_SUCCESS)
        result = check_type(type);
    if (result != TCA_SUCCESS || !memory)
        return result;
    struct allocation *allocation = allocations;
    while (allocation && (is_foreign(allocation) ||
                          allocation_address(allocation) != (uint64_t)(uintptr_t)memory))
        allocation = allocation->next;
    if (!allocation || allocation->type != type)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "tcaFree: %p is not from tcaMalloc() of type %d, or was freed", memory,
                           type);
    int r = end(allocation);
    return r < 0 ? compat_fail_errno(r, "tcaFree") : TCA_SUCCESS;
}

/* ---- handles ---- */

/* The allocation that an address lies in. */
static struct allocation *find(uint64_t address, uint64_t *ret_offset_bytes)
{
    for (struct allocation *allocation = allocations, *next; allocation; allocation = next) {
        uint64_t offset = address - allocation_address(allocation);
        next = allocation->next;
        if (offset >= allocation_bytes(allocation))
            continue;
        if (is_foreign(allocation) && !cuda_memory_same(&allocation->device->cuda)) {
            end(allocation); /* the program has freed it, and perhaps has other memory there */
            continue;
        }
        *ret_offset_bytes = offset;
        return allocation;
    }
    return NULL;
}

/* Device memory that the program has from CUDA. */
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

/* What of an allocation is to be named. */
static tcaresult name(const struct allocation *allocation, uint64_t offset_bytes,
                      struct reference *reference)
{
    int r = 0;
    if (!allocation->device) {
        r = tca_region_handle(allocation->region, offset_bytes, reference->bytes,
                              &reference->memory);
    } else {
        reference->device = allocation->device->number;
        reference->device_offset_bytes = offset_bytes;
        if (reference->bytes > allocation_bytes(allocation) - offset_bytes)
            return compat_fail(TCA_ERROR_INVALID_VALUE,
                               "tcaCreateHandle: %llu bytes from offset %llu on are more than the "
                               "%llu bytes there",
                               (unsigned long long)reference->bytes,
                               (unsigned long long)offset_bytes,
                               (unsigned long long)allocation_bytes(allocation));
        r = tca_region_handle(allocation->region, 0, CARD_BYTES, &reference->memory);
    }
    return r < 0 ? compat_fail_errno(r, "tcaCreateHandle") : TCA_SUCCESS;
}

TCA_API tcaresult tcaCreateHandle(tcaHandle *ret_handle, void *memory, size_t size, int type)
{
    TAKE_TURN();
    struct reference reference = {.magic = REFERENCE_MAGIC,
                                  .address = (uint64_t)(uintptr_t)memory,
                                  .bytes = size,
                                  .type = (uint32_t)type};
    uint64_t offset = 0;
    tcaresult result = compat_ready();
    if (result == TCA_SUCCESS)
        result = check_type(type);
    if (result != TCA_SUCCESS)
        return result;
    if (!ret_handle)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaCreateHandle: no place for the handle");
    reference.rank = compat.rank;
    if (size > 0) {
        struct allocation *allocation = find(reference.address, &offset);
        if (!allocation && type == tcaMemoryGPU && device_ready())
            result = adopt(memory, &allocation, &offset);
        else if (!allocation || allocation->type != type)
            result = compat_fail(TCA_ERROR_INVALID_VALUE,
                                 "tcaCreateHandle: %p is not memory from tcaMalloc() of type %d",
                                 memory, type);
        if (result == TCA_SUCCESS)
            result = name(allocation, offset, &reference);
        if (result != TCA_SUCCESS)
            return result;
    }
    memset(ret_handle, 0, sizeof(*ret_handle));
    memcpy(ret_handle, &reference, sizeof(reference));
    return TCA_SUCCESS;
}

TCA_API tcaresult tcaDestroyHandle(tcaHandle *handle)
{
    TAKE_TURN();
    struct reference reference;
    tcaresult result = reference_read(handle, "tcaDestroyHandle", &reference);
    if (result == TCA_SUCCESS)
        memset(handle, 0, sizeof(*handle));
    return result;
}

static bool is_sound_memory(const struct reference *reference, uint64_t bytes)
{
    return tca_handle_bytes(&reference->memory) == (int64_t)bytes &&
           tca_handle_node(&reference->memory) == tca_node_of(compat.session, reference->rank);
}

static bool is_sound_device(const struct reference *reference)
{
    uint64_t end;
    return reference->type == tcaMemoryGPU && is_sound_memory(reference, CARD_BYTES) &&
           !__builtin_add_overflow(reference->device_offset_bytes, reference->bytes, &end);
}

tcaresult reference_read(const tcaHandle *handle, const char *name, struct reference *ret_reference)
{
    tcaresult result = compat_ready();
    if (result != TCA_SUCCESS)
        return result;
    if (!handle)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "%s: no handle", name);
    struct reference reference;
    memcpy(&reference, handle, sizeof(reference));
    bool sound = reference.magic == REFERENCE_MAGIC && reference.rank < compat.size;
    if (sound && reference.bytes > 0)
        sound = reference.device ? is_sound_device(&reference)
                                 : is_sound_memory(&reference, reference.bytes);
    if (!sound)
        return compat_fail(
            TCA_ERROR_INVALID_VALUE,
            "%s: these bytes are no handle of this job: make it by tcaCreateHandle() and "
            "copy all of its %zu bytes",
            name, sizeof(tcaHandle));
    *ret_reference = reference;
    return TCA_SUCCESS;
}

tcaresult reference_allocation(const struct reference *reference,
                               struct allocation **ret_allocation, uint64_t *ret_offset_bytes)
{
    struct tca_handle now;
    uint64_t offset = 0;
    struct allocation *allocation = find(reference->address, &offset);
    bool same = allocation != NULL;
    if (same && allocation->device)
        same = allocation->device->number == reference->device &&
               reference->bytes <= allocation_bytes(allocation) - offset;
    else if (same)
        same = tca_region_handle(allocation->region, offset, reference->bytes, &now) == 0 &&
               memcmp(&now, &reference->memory, sizeof(now)) == 0;
    if (!same)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "the handle's memory at %p was freed",
                           (void *)(uintptr_t)reference->address);
    *ret_allocation = allocation;
    *ret_offset_bytes = offset;
    return TCA_SUCCESS;
}

tcaresult reference_region(const struct reference *reference, struct tca_region **ret_region,
                           uint64_t *ret_offset_bytes)
{
    struct allocation *allocation = NULL;
    tcaresult result = reference_allocation(reference, &allocation, ret_offset_bytes);
    if (result == TCA_SUCCESS && allocation->device)
        result = compat_fail(TCA_ERROR_NOT_SUPPORTED, "a plan cannot put from a GPU's memory");
    if (result == TCA_SUCCESS)
        *ret_region = allocation->region;
    return result;
}
