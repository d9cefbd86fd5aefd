/* Memory: physical memory, its addresses, and exporting it. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/integration/tca-api/cuda/fake.h"

static struct range *ranges;
static size_t used_bytes[DEVICES];
static unsigned long long last_buffer;
static unsigned imports;

/* How often memory was imported: for tests. */
FAKE_API unsigned fake_cuda_imports(void)
{
    return imports;
}

struct range *fake_range(cuda_address address)
{
    struct range *range = ranges;
    while (range && address - range->address >= range->bytes)
        range = range->next;
    return range;
}

uint8_t *fake_reach(cuda_address address, size_t bytes, int device)
{
    struct range *range = fake_range(address);
    if (!range || !range->allocation || !(range->devices & 1u << device) ||
        bytes > range->bytes - (address - range->address))
        return NULL;
    return range->allocation->bytes_here + (address - range->address);
}

/* ---- physical ---- */

static struct allocation *hold(int fd, size_t bytes, int device)
{
    void *here = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct allocation *allocation = calloc(1, sizeof(*allocation));
    *allocation = (struct allocation){
        .fd = fd, .bytes_here = here, .bytes = bytes, .device = device, .users = 1};
    return allocation;
}

static int create(size_t bytes, int device, struct allocation **ret_allocation)
{
    long limit;
    if (fake_fault("bytes", &limit) && used_bytes[device] + bytes > (size_t)limit)
        return CUDA_OUT_OF_MEMORY;
    int fd = memfd_create("fake-gpu", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        return CUDA_OUT_OF_MEMORY;
    used_bytes[device] += bytes;
    *ret_allocation = hold(fd, bytes, device);
    return CUDA_SUCCESS;
}

/* Memory goes with its last handle or mapping. */
static void drop(struct allocation *allocation)
{
    if (--allocation->users > 0)
        return;
    if (allocation->device >= 0)
        used_bytes[allocation->device] -= allocation->bytes;
    munmap(allocation->bytes_here, allocation->bytes);
    close(allocation->fd);
    free(allocation);
}

static bool is_prop(const struct cuda_allocation_prop *prop)
{
    return prop->type == CUDA_ALLOCATION_PINNED && prop->handle_types == CUDA_HANDLE_DESCRIPTOR &&
           prop->location.type == CUDA_LOCATION_DEVICE && prop->location.id >= 0 &&
           prop->location.id < DEVICES;
}

FAKE_API int cuMemGetAllocationGranularity(size_t *ret_bytes,
                                           const struct cuda_allocation_prop *prop, int option)
{
    if (!is_prop(prop) || option != CUDA_GRANULARITY_MINIMUM)
        return CUDA_INVALID_VALUE;
    *ret_bytes = GRANULARITY;
    return CUDA_SUCCESS;
}

FAKE_API int cuMemCreate(cuda_allocation *ret_allocation, size_t bytes,
                         const struct cuda_allocation_prop *prop, unsigned long long flags)
{
    struct allocation *allocation;
    long error;
    if (fake_fault("create", &error))
        return (int)error;
    if (!is_prop(prop) || bytes == 0 || bytes % GRANULARITY || flags)
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    int result = create(bytes, prop->location.id, &allocation);
    pthread_mutex_unlock(&fake_lock);
    if (result == CUDA_SUCCESS)
        *ret_allocation = (uint64_t)(uintptr_t)allocation;
    return result;
}

FAKE_API int cuMemRelease(cuda_allocation allocation)
{
    pthread_mutex_lock(&fake_lock);
    drop((struct allocation *)(uintptr_t)allocation);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_API int cuMemExportToShareableHandle(void *ret_handle, cuda_allocation handle, int type,
                                          unsigned long long flags)
{
    const struct allocation *allocation = (struct allocation *)(uintptr_t)handle;
    if (type != CUDA_HANDLE_DESCRIPTOR || flags || allocation->device < 0)
        return CUDA_INVALID_VALUE;
    *(int *)ret_handle = fcntl(allocation->fd, F_DUPFD_CLOEXEC, 0);
    return CUDA_SUCCESS;
}

FAKE_API int cuMemImportFromShareableHandle(cuda_allocation *ret_allocation, void *handle, int type)
{
    struct stat status;
    long error;
    int fd = (int)(intptr_t)handle;
    if (fake_fault("import", &error))
        return (int)error;
    if (type != CUDA_HANDLE_DESCRIPTOR || fstat(fd, &status) < 0)
        return CUDA_INVALID_VALUE;
    imports++;
    *ret_allocation =
        (uint64_t)(uintptr_t)hold(fcntl(fd, F_DUPFD_CLOEXEC, 0), (size_t)status.st_size, -1);
    return CUDA_SUCCESS;
}

/* ---- addresses ---- */

static struct range *reserve(size_t bytes)
{
    void *address =
        mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED)
        return NULL;
    struct range *range = calloc(1, sizeof(*range));
    *range =
        (struct range){.address = (uint64_t)(uintptr_t)address, .bytes = bytes, .next = ranges};
    ranges = range;
    return range;
}

static void unreserve(struct range *range)
{
    struct range **link = &ranges;
    while (*link != range)
        link = &(*link)->next;
    *link = range->next;
    munmap((void *)(uintptr_t)range->address, range->bytes);
    free(range);
}

/* The range that begins there and has this length. */
static struct range *exactly(cuda_address address, size_t bytes)
{
    struct range *range = fake_range(address);
    return range && range->address == address && range->bytes == bytes ? range : NULL;
}

FAKE_API int cuMemAddressReserve(cuda_address *ret_address, size_t bytes, size_t alignment,
                                 cuda_address wanted, unsigned long long flags)
{
    if (bytes == 0 || bytes % GRANULARITY || alignment || wanted || flags)
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    struct range *range = reserve(bytes);
    pthread_mutex_unlock(&fake_lock);
    if (!range)
        return CUDA_OUT_OF_MEMORY;
    *ret_address = range->address;
    return CUDA_SUCCESS;
}

FAKE_API int cuMemAddressFree(cuda_address address, size_t bytes)
{
    pthread_mutex_lock(&fake_lock);
    struct range *range = exactly(address, bytes);
    bool good = range && !range->allocation;
    if (good)
        unreserve(range);
    pthread_mutex_unlock(&fake_lock);
    return good ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

FAKE_API int cuMemMap(cuda_address address, size_t bytes, size_t offset, cuda_allocation handle,
                      unsigned long long flags)
{
    struct allocation *allocation = (struct allocation *)(uintptr_t)handle;
    pthread_mutex_lock(&fake_lock);
    struct range *range = exactly(address, bytes);
    bool good = range && !range->allocation && offset == 0 && !flags && allocation->bytes == bytes;
    if (good) {
        range->allocation = allocation;
        range->devices = 0;
        range->buffer = ++last_buffer;
        allocation->users++;
    }
    pthread_mutex_unlock(&fake_lock);
    return good ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

FAKE_API int cuMemUnmap(cuda_address address, size_t bytes)
{
    pthread_mutex_lock(&fake_lock);
    struct range *range = exactly(address, bytes);
    bool good = range && range->allocation && !range->plain;
    if (good) {
        drop(range->allocation);
        range->allocation = NULL;
    }
    pthread_mutex_unlock(&fake_lock);
    return good ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

FAKE_API int cuMemSetAccess(cuda_address address, size_t bytes, const struct cuda_access *access,
                            size_t count)
{
    pthread_mutex_lock(&fake_lock);
    struct range *range = exactly(address, bytes);
    bool good = range && range->allocation;
    for (size_t i = 0; good && i < count; i++) {
        good = access[i].location.type == CUDA_LOCATION_DEVICE && access[i].location.id >= 0 &&
               access[i].location.id < DEVICES && access[i].flags == CUDA_ACCESS_READ_WRITE;
        if (good)
            range->devices |= 1u << access[i].location.id;
    }
    pthread_mutex_unlock(&fake_lock);
    return good ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

/* ---- plain ---- */

FAKE_API int cuMemAlloc_v2(cuda_address *ret_address, size_t bytes)
{
    struct allocation *allocation = NULL;
    struct context *context = fake_context();
    if (!context)
        return CUDA_INVALID_CONTEXT;
    if (bytes == 0)
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    int error = create(bytes, context->device, &allocation);
    if (error == CUDA_SUCCESS) {
        struct range *range = reserve(bytes);
        range->allocation = allocation;
        range->devices = (1u << DEVICES) - 1; /* both are near each other */
        range->plain = true;
        range->buffer = ++last_buffer;
        range->context = context;
        *ret_address = range->address;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_API int cuMemFree_v2(cuda_address address)
{
    pthread_mutex_lock(&fake_lock);
    struct range *range = fake_range(address);
    bool good = range && range->address == address && range->plain;
    if (good) {
        drop(range->allocation);
        unreserve(range);
    }
    pthread_mutex_unlock(&fake_lock);
    return good ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

FAKE_API int cuMemGetAddressRange_v2(cuda_address *ret_base, size_t *ret_bytes,
                                     cuda_address address)
{
    if (!fake_context())
        return CUDA_INVALID_CONTEXT;
    pthread_mutex_lock(&fake_lock);
    struct range *range = fake_range(address);
    bool good = range && range->allocation;
    if (good) {
        *ret_base = range->address;
        *ret_bytes = range->bytes;
    }
    pthread_mutex_unlock(&fake_lock);
    return good ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

FAKE_API int cuPointerGetAttribute(void *ret_value, int attribute, cuda_address address)
{
    if (!fake_started())
        return CUDA_NOT_INITIALIZED;
    pthread_mutex_lock(&fake_lock);
    struct range *range = fake_range(address);
    int error = range && range->allocation ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
    if (error == CUDA_SUCCESS && attribute == CUDA_POINTER_CONTEXT)
        *(void **)ret_value = range->context;
    else if (error == CUDA_SUCCESS && attribute == CUDA_POINTER_MEMORY_TYPE)
        *(unsigned *)ret_value = CUDA_MEMORY_DEVICE;
    else if (error == CUDA_SUCCESS && attribute == CUDA_POINTER_BUFFER_ID)
        *(unsigned long long *)ret_value = range->buffer;
    else
        error = CUDA_INVALID_VALUE;
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- pinned host memory ---- */

enum { PINNED_MAX = 16 };
static void *pinned[PINNED_MAX];

static void **pinned_at(const void *address)
{
    for (int i = 0; i < PINNED_MAX; i++)
        if (pinned[i] == address)
            return &pinned[i];
    return NULL;
}

FAKE_API int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
    if (!fake_context())
        return CUDA_INVALID_CONTEXT;
    if (!address || !bytes || flags != CUDA_HOST_REGISTER_PORTABLE || pinned_at(address))
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    void **place = pinned_at(NULL);
    if (place)
        *place = address;
    pthread_mutex_unlock(&fake_lock);
    return place ? CUDA_SUCCESS : CUDA_OUT_OF_MEMORY;
}

FAKE_API int cuMemHostUnregister(void *address)
{
    pthread_mutex_lock(&fake_lock);
    void **place = address ? pinned_at(address) : NULL;
    if (place)
        *place = NULL;
    pthread_mutex_unlock(&fake_lock);
    return place ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}
