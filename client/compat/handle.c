/* Handles: creating and reading them, and finding the memory of this process that they name. */
#include <string.h>

#include "client/compat/memory.h"
#include "client/compat/turn.h"

#define REFERENCE_MAGIC 0x31414354u /* "TCA1" */
_Static_assert(sizeof(struct reference) <= sizeof(tcaHandle), "fits into a handle");

/* ---- making ---- */

/* Fills in a reference to a part of an allocation. */
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
            return compat_fail(
                TCA_ERROR_INVALID_VALUE,
                "tcaCreateHandle: %llu bytes at offset %llu exceed the allocation of "
                "%llu bytes",
                (unsigned long long)reference->bytes, (unsigned long long)offset_bytes,
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
        result = memory_check_type(type);
    if (result != TCA_SUCCESS)
        return result;
    if (!ret_handle)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaCreateHandle: the handle is NULL");
    reference.rank = compat.rank;
    if (size > 0) {
        struct allocation *allocation = NULL;
        result = allocation_find(memory, size, type, &allocation, &offset);
        if (result == TCA_SUCCESS)
            result = name(allocation, offset, &reference);
        if (result != TCA_SUCCESS)
            return result;
        allocation->handles++;
        reference.attached = allocation->attached;
    }
    memset(ret_handle, 0, sizeof(*ret_handle));
    memcpy(ret_handle, &reference, sizeof(reference));
    return TCA_SUCCESS;
}

/* ---- of this process ---- */

static bool is_named(const struct allocation *allocation, uint64_t offset_bytes,
                     const struct reference *reference)
{
    struct tca_handle now;
    if (allocation->device)
        return allocation->device->number == reference->device &&
               reference->bytes <= allocation_bytes(allocation) - offset_bytes;
    return tca_region_handle(allocation->region, offset_bytes, reference->bytes, &now) == 0 &&
           memcmp(&now, &reference->memory, sizeof(now)) == 0;
}

static struct allocation *named(const struct reference *reference, uint64_t *ret_offset_bytes)
{
    struct allocation *allocation = NULL;
    do
        allocation = allocation_next(allocation, reference->address, ret_offset_bytes);
    while (allocation && !is_named(allocation, *ret_offset_bytes, reference));
    return allocation;
}

TCA_API tcaresult tcaDestroyHandle(tcaHandle *handle)
{
    TAKE_TURN();
    struct reference reference;
    uint64_t offset;
    tcaresult result = reference_read(handle, "tcaDestroyHandle", &reference);
    if (result != TCA_SUCCESS)
        return result;
    struct allocation *allocation =
        reference.rank == compat.rank && reference.attached ? named(&reference, &offset) : NULL;
    if (allocation && allocation->handles > 0)
        allocation->handles--;
    memset(handle, 0, sizeof(*handle));
    return TCA_SUCCESS;
}

/* ---- reading ---- */

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
        return compat_fail(TCA_ERROR_INVALID_VALUE, "%s: the handle is NULL", name);
    struct reference reference;
    memcpy(&reference, handle, sizeof(reference));
    bool sound = reference.magic == REFERENCE_MAGIC && reference.rank < compat.size;
    if (sound && reference.bytes > 0)
        sound = reference.device ? is_sound_device(&reference)
                                 : is_sound_memory(&reference, reference.bytes);
    if (!sound)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "%s: not a handle of this job: create it with tcaCreateHandle() and "
                           "copy all of its %zu bytes",
                           name, sizeof(tcaHandle));
    *ret_reference = reference;
    return TCA_SUCCESS;
}

tcaresult reference_allocation(const struct reference *reference,
                               struct allocation **ret_allocation, uint64_t *ret_offset_bytes)
{
    uint64_t offset = 0;
    struct allocation *allocation = named(reference, &offset);
    if (!allocation)
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
