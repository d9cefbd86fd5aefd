/* Loads the driver; contexts; copies. */
#include "client/compat/device/cuda.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PLACES_MAX = 64 };

struct cuda_calls cuda;
static struct cuda_place places[PLACES_MAX];
static size_t place_count; /* used by the program's thread only */

/* The exported symbols: the manual's names are macros for names with a version suffix. */
#define CALL(call, exported)                                                                       \
    {                                                                                              \
        exported, offsetof(struct cuda_calls, call)                                                \
    }
static const struct {
    const char *name;
    size_t at;
} names[] = {
    CALL(cuInit, "cuInit"),
    CALL(cuGetErrorString, "cuGetErrorString"),
    CALL(cuDeviceGetCount, "cuDeviceGetCount"),
    CALL(cuDeviceGet, "cuDeviceGet"),
    CALL(cuDeviceGetAttribute, "cuDeviceGetAttribute"),
    CALL(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain"),
    CALL(cuCtxGetCurrent, "cuCtxGetCurrent"),
    CALL(cuCtxGetDevice, "cuCtxGetDevice"),
    CALL(cuCtxPushCurrent, "cuCtxPushCurrent_v2"),
    CALL(cuCtxPopCurrent, "cuCtxPopCurrent_v2"),
    CALL(cuStreamCreate, "cuStreamCreate"),
    CALL(cuStreamSynchronize, "cuStreamSynchronize"),
    CALL(cuMemAlloc, "cuMemAlloc_v2"),
    CALL(cuMemFree, "cuMemFree_v2"),
    CALL(cuMemGetAddressRange, "cuMemGetAddressRange_v2"),
    CALL(cuMemHostRegister, "cuMemHostRegister_v2"),
    CALL(cuMemHostUnregister, "cuMemHostUnregister"),
    CALL(cuPointerGetAttribute, "cuPointerGetAttribute"),
    CALL(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2"),
    CALL(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2"),
    CALL(cuMemcpyAsync, "cuMemcpyAsync"),
    CALL(cuMemcpy2DAsync, "cuMemcpy2DAsync_v2"),
    CALL(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity"),
    CALL(cuMemCreate, "cuMemCreate"),
    CALL(cuMemRelease, "cuMemRelease"),
    CALL(cuMemAddressReserve, "cuMemAddressReserve"),
    CALL(cuMemAddressFree, "cuMemAddressFree"),
    CALL(cuMemMap, "cuMemMap"),
    CALL(cuMemUnmap, "cuMemUnmap"),
    CALL(cuMemSetAccess, "cuMemSetAccess"),
    CALL(cuMemExportToShareableHandle, "cuMemExportToShareableHandle"),
    CALL(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle"),
};
_Static_assert(sizeof(names) / sizeof(names[0]) == sizeof(cuda) / sizeof(void *),
               "one name for each call");

static const char *text_of(int error)
{
    const char *text = NULL;
    return cuda.cuGetErrorString(error, &text) == CUDA_SUCCESS && text ? text : "unknown error";
}

static tcaresult result_of(int error)
{
    switch (error) {
    case CUDA_OUT_OF_MEMORY:
        return TCA_ERROR_OUT_OF_MEMORY;
    case CUDA_INVALID_VALUE:
        return TCA_ERROR_INVALID_VALUE;
    case CUDA_NOT_SUPPORTED:
    case CUDA_NOT_PERMITTED:
        return TCA_ERROR_NOT_SUPPORTED;
    default:
        return TCA_ERROR_SYSTEM;
    }
}

tcaresult cuda_fail(int error, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return compat_fail(result_of(error), "%s: CUDA driver: %s (%d)", what, text_of(error), error);
}

/* ---- loading ---- */

static bool load(char *ret_why, size_t why_bytes, void *library)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *symbol = dlsym(library, names[i].name);
        if (!symbol) {
            snprintf(ret_why, why_bytes,
                     "libcuda.so.1 has no %s: the driver of CUDA 11 or later is needed",
                     names[i].name);
            return false;
        }
        memcpy((char *)&cuda + names[i].at, &symbol, sizeof(symbol));
    }
    return true;
}

static bool start(char *ret_why, size_t why_bytes)
{
    int count = 0;
    int error = cuda.cuInit(0);
    if (error == CUDA_SUCCESS)
        error = cuda.cuDeviceGetCount(&count);
    if (error == CUDA_SUCCESS && count > 0)
        return true;
    snprintf(ret_why, why_bytes, "libcuda.so.1 was loaded, but cannot be used: %s (%d)",
             text_of(error ? error : CUDA_NO_DEVICE), error ? error : CUDA_NO_DEVICE);
    return false;
}

enum cuda_state cuda_open(char *ret_why, size_t why_bytes)
{
    /* Never closed, because the driver may have threads. */
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(ret_why, why_bytes, "no CUDA driver: %s", dlerror());
        return CUDA_ABSENT;
    }
    return load(ret_why, why_bytes, library) && start(ret_why, why_bytes) ? CUDA_READY
                                                                          : CUDA_UNUSABLE;
}

/* ---- contexts ---- */

int cuda_enter(const struct cuda_place *place)
{
    return cuda.cuCtxPushCurrent(place->context);
}

void cuda_leave(void)
{
    void *context;
    cuda.cuCtxPopCurrent(&context);
}

static int examine(struct cuda_place *place)
{
    int maps = 0, exports = 0;
    int error = cuda.cuCtxGetDevice(&place->device);
    if (error == CUDA_SUCCESS)
        error = cuda.cuDeviceGetAttribute(&maps, CUDA_DEVICE_MAPS_MEMORY, place->device);
    if (error == CUDA_SUCCESS)
        error = cuda.cuDeviceGetAttribute(&exports, CUDA_DEVICE_EXPORTS_MEMORY, place->device);
    place->exports = maps && exports;
    /* A separate stream that does not wait for what the program has queued. */
    return error == CUDA_SUCCESS ? cuda.cuStreamCreate(&place->stream, CUDA_STREAM_NON_BLOCKING)
                                 : error;
}

tcaresult cuda_place_of(void *context, struct cuda_place **ret_place)
{
    for (size_t i = 0; i < place_count; i++)
        if (places[i].context == context) {
            *ret_place = &places[i];
            return TCA_SUCCESS;
        }
    if (place_count == PLACES_MAX)
        return compat_fail(TCA_ERROR_NOT_SUPPORTED, "memory of more than %d CUDA contexts",
                           PLACES_MAX);
    struct cuda_place *place = &places[place_count];
    *place = (struct cuda_place){.context = context};
    int error = cuda_enter(place);
    if (error == CUDA_SUCCESS) {
        error = examine(place);
        cuda_leave();
    }
    if (error != CUDA_SUCCESS)
        return cuda_fail(error, "creating a stream");
    place_count++;
    *ret_place = place;
    return TCA_SUCCESS;
}

tcaresult cuda_place_current(struct cuda_place **ret_place)
{
    static void *first; /* its context, retained once */
    void *context = NULL;
    int device, error = cuda.cuCtxGetCurrent(&context);
    if (error == CUDA_SUCCESS && !context) {
        if (!first && (error = cuda.cuDeviceGet(&device, 0)) == CUDA_SUCCESS)
            error = cuda.cuDevicePrimaryCtxRetain(&first, device);
        context = first;
    }
    return error == CUDA_SUCCESS ? cuda_place_of(context, ret_place)
                                 : cuda_fail(error, "the context of GPU 0");
}

/* ---- copies ---- */

static int queue(struct cuda_place *place, uint64_t to, bool to_device, uint64_t from,
                 bool from_device, uint64_t bytes)
{
    if (!to_device)
        return cuda.cuMemcpyDtoHAsync((void *)(uintptr_t)to, from, bytes, place->stream);
    if (!from_device)
        return cuda.cuMemcpyHtoDAsync(to, (const void *)(uintptr_t)from, bytes, place->stream);
    return cuda.cuMemcpyAsync(to, from, bytes, place->stream);
}

static struct cuda_rows rows_of(const struct cuda_side *side, int device_type)
{
    struct cuda_rows rows = {.type = side->on_device ? device_type : CUDA_MEMORY_HOST,
                             .pitch_bytes = side->pitch_bytes};
    if (side->on_device)
        rows.device = side->address;
    else
        rows.host = (const void *)(uintptr_t)side->address;
    return rows;
}

static int queue_rows(struct cuda_place *place, const struct cuda_side *to,
                      const struct cuda_side *from, uint64_t width_bytes, uint64_t height)
{
    /* Device to device: the memory may be on two GPUs. */
    const int type = to->on_device && from->on_device ? CUDA_MEMORY_UNIFIED : CUDA_MEMORY_DEVICE;
    const struct cuda_copy_2d copy = {.from = rows_of(from, type),
                                      .to = rows_of(to, type),
                                      .width_bytes = width_bytes,
                                      .height = height};
    int error = cuda.cuMemcpy2DAsync(&copy, place->stream);
    if (error != CUDA_INVALID_VALUE)
        return error;
    /* The driver rejects some pitches: copies row by row. */
    error = CUDA_SUCCESS;
    for (uint64_t i = 0; i < height && error == CUDA_SUCCESS; i++)
        error = queue(place, to->address + i * to->pitch_bytes, to->on_device,
                      from->address + i * from->pitch_bytes, from->on_device, width_bytes);
    return error;
}

tcaresult cuda_copy(struct cuda_place *place, const struct cuda_side *to,
                    const struct cuda_side *from, uint64_t width_bytes, uint64_t height)
{
    bool plain =
        height == 1 || (to->pitch_bytes == width_bytes && from->pitch_bytes == width_bytes);
    int error = cuda_enter(place);
    if (error == CUDA_SUCCESS) {
        error = plain ? queue(place, to->address, to->on_device, from->address, from->on_device,
                              width_bytes * height)
                      : queue_rows(place, to, from, width_bytes, height);
        int end = cuda.cuStreamSynchronize(place->stream);
        error = error == CUDA_SUCCESS ? end : error;
        cuda_leave();
    }
    if (error == CUDA_SUCCESS)
        return TCA_SUCCESS;
    return cuda_fail(error, "copying %llu x %llu bytes from %#llx to %#llx",
                     (unsigned long long)height, (unsigned long long)width_bytes,
                     (unsigned long long)from->address, (unsigned long long)to->address);
}

bool cuda_pin(struct cuda_place *place, void *memory, uint64_t bytes)
{
    if (cuda_enter(place) != CUDA_SUCCESS)
        return false;
    int error = cuda.cuMemHostRegister(memory, bytes, CUDA_HOST_REGISTER_PORTABLE);
    cuda_leave();
    return error == CUDA_SUCCESS;
}

void cuda_unpin(struct cuda_place *place, void *memory)
{
    if (cuda_enter(place) != CUDA_SUCCESS)
        return;
    cuda.cuMemHostUnregister(memory);
    cuda_leave();
}
