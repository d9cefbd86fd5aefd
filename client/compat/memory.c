/* Memory and handles to it. tcaMemoryGPU stands in host memory. */
#include <stdlib.h>
#include <string.h>

#include "client/compat/channel.h"
#include "client/compat/turn.h"

#define REFERENCE_MAGIC 0x31414354u /* "TCA1" */
_Static_assert(sizeof(struct reference) <= sizeof(tcaHandle), "a handle has room for it");

struct allocation {
    struct tca_region *region;
    int type;
    struct allocation *next;
};
static struct allocation *allocations;

static tcaresult check_type(int type)
{
    if (type == tcaMemoryGPU || type == tcaMemoryCPU)
        return TCA_SUCCESS;
    return compat_fail(TCA_ERROR_INVALID_VALUE,
                       "memory type %d: there are tcaMemoryGPU and tcaMemoryCPU", type);
}

TCA_API tcaresult tcaMalloc(void **ret_memory, size_t size, int type)
{
    TAKE_TURN();
    tcaresult result = compat_ready();
    if (result == TCA_SUCCESS)
        result = check_type(type);
    if (result != TCA_SUCCESS)
        return result;
    if (!ret_memory)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaMalloc: no place for the address");
    struct allocation *allocation = malloc(sizeof(*allocation));
    if (!allocation)
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "tcaMalloc of %zu bytes", size);
    int r = tca_region_alloc(compat.session, size ? size : 1, &allocation->region);
    if (r < 0) {
        free(allocation);
        return compat_fail_errno(r, "tcaMalloc");
    }
    allocation->type = type;
    allocation->next = allocations;
    allocations = allocation;
    *ret_memory = tca_region_address(allocation->region);
    return TCA_SUCCESS;
}

TCA_API tcaresult tcaFree(void *memory, int type)
{
    TAKE_TURN();
    tcaresult result = compat_ready();
    if (result == TCA_SUCCESS)
        result = check_type(type);
    if (result != TCA_SUCCESS || !memory)
        return result;
    struct allocation **at = &allocations;
    while (*at && tca_region_address((*at)->region) != memory)
        at = &(*at)->next;
    struct allocation *allocation = *at;
    if (!allocation || allocation->type != type)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "tcaFree: %p is not from tcaMalloc() of type %d, or was freed", memory,
                           type);
    programs_drop(allocation->region);
    int r = tca_region_free(allocation->region);
    if (r < 0)
        return compat_fail_errno(r, "tcaFree");
    *at = allocation->next;
    free(allocation);
    return TCA_SUCCESS;
}

/* The allocation that an address lies in. */
static struct allocation *find(const void *address, uint64_t *ret_offset_bytes)
{
    for (struct allocation *allocation = allocations; allocation; allocation = allocation->next) {
        uint64_t offset = (uint64_t)(uintptr_t)address -
                          (uint64_t)(uintptr_t)tca_region_address(allocation->region);
        if (offset < tca_region_bytes(allocation->region)) {
            *ret_offset_bytes = offset;
            return allocation;
        }
    }
    return NULL;
}

TCA_API tcaresult tcaCreateHandle(tcaHandle *ret_handle, void *memory, size_t size, int type)
{
    TAKE_TURN();
    struct reference reference = {.magic = REFERENCE_MAGIC,
                                  .address = (uint64_t)(uintptr_t)memory,
                                  .bytes = size,
                                  .type = (uint32_t)type};
    uint64_t offset;
    tcaresult result = compat_ready();
    if (result == TCA_SUCCESS)
        result = check_type(type);
    if (result != TCA_SUCCESS)
        return result;
    if (!ret_handle)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaCreateHandle: no place for the handle");
    reference.rank = compat.rank;
    if (size > 0) {
        struct allocation *allocation = find(memory, &offset);
        if (!allocation || allocation->type != type)
            return compat_fail(TCA_ERROR_INVALID_VALUE,
                               "tcaCreateHandle: %p is not memory from tcaMalloc() of type %d",
                               memory, type);
        int r = tca_region_handle(allocation->region, offset, size, &reference.memory);
        if (r < 0)
            return compat_fail_errno(r, "tcaCreateHandle");
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
        sound = tca_handle_bytes(&reference.memory) == (int64_t)reference.bytes &&
                tca_handle_node(&reference.memory) == tca_node_of(compat.session, reference.rank);
    if (!sound)
        return compat_fail(
            TCA_ERROR_INVALID_VALUE,
            "%s: these bytes are no handle of this job: make it by tcaCreateHandle() and "
            "copy all of its %zu bytes",
            name, sizeof(tcaHandle));
    *ret_reference = reference;
    return TCA_SUCCESS;
}

tcaresult reference_region(const struct reference *reference, struct tca_region **ret_region,
                           uint64_t *ret_offset_bytes)
{
    struct tca_handle now;
    uint64_t offset;
    struct allocation *allocation = find((void *)(uintptr_t)reference->address, &offset);
    if (!allocation || tca_region_handle(allocation->region, offset, reference->bytes, &now) < 0 ||
        memcmp(&now, &reference->memory, sizeof(now)) != 0)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "the source handle's memory at %p was freed",
                           (void *)(uintptr_t)reference->address);
    *ret_region = allocation->region;
    *ret_offset_bytes = offset;
    return TCA_SUCCESS;
}
