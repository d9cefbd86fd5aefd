/* Device memory: allocated here, exported, imported, or allocated by the program. */
#include "client/compat/device/cuda.h"

static struct cuda_allocation_prop prop_of(const struct cuda_place *place)
{
    return (struct cuda_allocation_prop){
        .type = CUDA_ALLOCATION_PINNED,
        .handle_types = CUDA_HANDLE_DESCRIPTOR,
        .location = {.type = CUDA_LOCATION_DEVICE, .id = place->device}};
}

/* Maps memory->allocation. */
static int map(struct cuda_memory *memory)
{
    const struct cuda_access access = {
        .location = {.type = CUDA_LOCATION_DEVICE, .id = memory->place->device},
        .flags = CUDA_ACCESS_READ_WRITE};
    int error = cuda.cuMemAddressReserve(&memory->address, memory->bytes, 0, 0, 0);
    if (error != CUDA_SUCCESS)
        return error;
    error = cuda.cuMemMap(memory->address, memory->bytes, 0, memory->allocation, 0);
    if (error == CUDA_SUCCESS) {
        error = cuda.cuMemSetAccess(memory->address, memory->bytes, &access, 1);
        if (error == CUDA_SUCCESS)
            return CUDA_SUCCESS;
        cuda.cuMemUnmap(memory->address, memory->bytes);
    }
    cuda.cuMemAddressFree(memory->address, memory->bytes);
    return error;
}

static int make_mapped(uint64_t bytes, struct cuda_memory *memory)
{
    const struct cuda_allocation_prop prop = prop_of(memory->place);
    size_t granularity = 0;
    int error = cuda.cuMemGetAllocationGranularity(&granularity, &prop, CUDA_GRANULARITY_MINIMUM);
    if (error != CUDA_SUCCESS)
        return error;
    if (granularity == 0 || bytes > UINT64_MAX - granularity)
        return CUDA_INVALID_VALUE;
    memory->kind = CUDA_MAPPED;
    memory->bytes = (bytes + granularity - 1) / granularity * granularity;
    error = cuda.cuMemCreate(&memory->allocation, memory->bytes, &prop, 0);
    if (error != CUDA_SUCCESS)
        return error;
    error = map(memory);
    if (error != CUDA_SUCCESS)
        cuda.cuMemRelease(memory->allocation);
    return error;
}

static int make_plain(uint64_t bytes, struct cuda_memory *memory)
{
    memory->kind = CUDA_ALLOCATED;
    memory->bytes = bytes;
    return cuda.cuMemAlloc(&memory->address, bytes);
}

/* Falls back to memory that cannot be exported if the GPU or the container rules out the other. */
static int make(uint64_t bytes, struct cuda_memory *memory)
{
    int error = memory->place->exports ? make_mapped(bytes, memory) : CUDA_NOT_SUPPORTED;
    return error == CUDA_SUCCESS || error == CUDA_OUT_OF_MEMORY ? error : make_plain(bytes, memory);
}

tcaresult cuda_memory_new(uint64_t bytes, struct cuda_memory *ret_memory)
{
    struct cuda_memory memory = {0};
    tcaresult result = cuda_place_current(&memory.place);
    if (result != TCA_SUCCESS)
        return result;
    int error = cuda_enter(memory.place);
    if (error == CUDA_SUCCESS) {
        error = make(bytes, &memory);
        cuda_leave();
    }
    if (error != CUDA_SUCCESS)
        return cuda_fail(error, "allocating %llu bytes on GPU %d", (unsigned long long)bytes,
                         memory.place->device);
    *ret_memory = memory;
    return TCA_SUCCESS;
}

void cuda_memory_free(struct cuda_memory *memory)
{
    if (memory->kind == CUDA_FOREIGN || cuda_enter(memory->place) != CUDA_SUCCESS)
        return;
    if (memory->kind == CUDA_ALLOCATED) {
        cuda.cuMemFree(memory->address);
    } else {
        cuda.cuMemUnmap(memory->address, memory->bytes);
        cuda.cuMemAddressFree(memory->address, memory->bytes);
        cuda.cuMemRelease(memory->allocation);
    }
    cuda_leave();
}

/* ---- other processes ---- */

tcaresult cuda_memory_export(const struct cuda_memory *memory, int *ret_fd)
{
    int fd = -1, error;
    if (memory->kind != CUDA_MAPPED)
        return compat_fail(TCA_ERROR_NOT_SUPPORTED, "this device memory cannot be exported");
    error = cuda_enter(memory->place);
    if (error == CUDA_SUCCESS) {
        error =
            cuda.cuMemExportToShareableHandle(&fd, memory->allocation, CUDA_HANDLE_DESCRIPTOR, 0);
        cuda_leave();
    }
    if (error != CUDA_SUCCESS)
        return cuda_fail(error, "exporting memory of GPU %d", memory->place->device);
    *ret_fd = fd;
    return TCA_SUCCESS;
}

tcaresult cuda_memory_import(struct cuda_place *place, int fd, uint64_t bytes,
                             struct cuda_memory *ret_memory)
{
    struct cuda_memory memory = {.kind = CUDA_IMPORTED, .place = place, .bytes = bytes};
    int error = cuda_enter(place);
    if (error == CUDA_SUCCESS) {
        error = cuda.cuMemImportFromShareableHandle(&memory.allocation, (void *)(intptr_t)fd,
                                                    CUDA_HANDLE_DESCRIPTOR);
        if (error == CUDA_SUCCESS && (error = map(&memory)) != CUDA_SUCCESS)
            cuda.cuMemRelease(memory.allocation);
        cuda_leave();
    }
    if (error != CUDA_SUCCESS)
        return cuda_fail(error, "importing another process's memory for GPU %d", place->device);
    *ret_memory = memory;
    return TCA_SUCCESS;
}

/* ---- the program's ---- */

static int buffer_of(cuda_address address, uint64_t *ret_buffer)
{
    unsigned long long buffer = 0;
    int error = cuda.cuPointerGetAttribute(&buffer, CUDA_POINTER_BUFFER_ID, address);
    *ret_buffer = buffer;
    return error;
}

tcaresult cuda_memory_find(const void *pointer, struct cuda_memory *ret_memory)
{
    struct cuda_memory memory = {.kind = CUDA_FOREIGN};
    const cuda_address address = (uint64_t)(uintptr_t)pointer;
    void *context = NULL;
    unsigned type = 0;
    size_t bytes = 0;
    int error = cuda.cuPointerGetAttribute(&type, CUDA_POINTER_MEMORY_TYPE, address);
    if (error == CUDA_SUCCESS && type != CUDA_MEMORY_DEVICE)
        error = CUDA_INVALID_VALUE;
    if (error == CUDA_SUCCESS)
        error = cuda.cuPointerGetAttribute(&context, CUDA_POINTER_CONTEXT, address);
    if (error == CUDA_SUCCESS)
        error = buffer_of(address, &memory.buffer);
    if (error != CUDA_SUCCESS)
        return cuda_fail(error, "looking up device memory at %p", pointer);
    tcaresult result =
        context ? cuda_place_of(context, &memory.place) : cuda_place_current(&memory.place);
    if (result != TCA_SUCCESS)
        return result;
    error = cuda_enter(memory.place);
    if (error == CUDA_SUCCESS) {
        error = cuda.cuMemGetAddressRange(&memory.address, &bytes, address);
        cuda_leave();
    }
    if (error != CUDA_SUCCESS)
        return cuda_fail(error, "looking up the allocation at %p", pointer);
    memory.bytes = bytes;
    *ret_memory = memory;
    return TCA_SUCCESS;
}

bool cuda_memory_same(const struct cuda_memory *memory)
{
    uint64_t buffer;
    return buffer_of(memory->address, &buffer) == CUDA_SUCCESS && buffer == memory->buffer;
}
