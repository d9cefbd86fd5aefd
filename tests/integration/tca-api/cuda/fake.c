/* Devices, contexts, streams and copies. */
#include "tests/integration/tca-api/cuda/fake.h"

#include <string.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static bool started;
static struct context primaries[DEVICES] = {{0}, {1}};
static bool retained[DEVICES];

enum { DEPTH = 16 };
static _Thread_local struct {
    struct context *contexts[DEPTH];
    int depth;
} stack;

bool fake_fault(const char *name, long *ret_value)
{
    const char *at = getenv("FAKE_CUDA");
    size_t length = strlen(name);
    while (at && *at) {
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            *ret_value = atol(at + length + 1);
            return true;
        }
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return false;
}

bool fake_started(void)
{
    return started;
}

struct context *fake_context(void)
{
    return stack.depth > 0 ? stack.contexts[stack.depth - 1] : NULL;
}

FAKE_API int cuInit(unsigned flags)
{
    long error;
    if (flags != 0)
        return CUDA_INVALID_VALUE;
    if (fake_fault("init", &error))
        return (int)error;
    started = true;
    return CUDA_SUCCESS;
}

FAKE_API int cuGetErrorString(int error, const char **ret_text)
{
    *ret_text = error == CUDA_OUT_OF_MEMORY ? "out of memory"
                : error == CUDA_NO_DEVICE   ? "no CUDA-capable device is detected"
                                            : "an error of the fake driver";
    return CUDA_SUCCESS;
}

FAKE_API int cuDeviceGetCount(int *ret_count)
{
    if (!started)
        return CUDA_NOT_INITIALIZED;
    *ret_count = DEVICES;
    return CUDA_SUCCESS;
}

static bool is_device(int device)
{
    return device >= 0 && device < DEVICES;
}

FAKE_API int cuDeviceGet(int *ret_device, int ordinal)
{
    if (!started)
        return CUDA_NOT_INITIALIZED;
    if (!is_device(ordinal))
        return CUDA_INVALID_DEVICE;
    *ret_device = ordinal;
    return CUDA_SUCCESS;
}

FAKE_API int cuDeviceGetAttribute(int *ret_value, int attribute, int device)
{
    long value = 1;
    if (!is_device(device))
        return CUDA_INVALID_DEVICE;
    if (attribute != CUDA_DEVICE_MAPS_MEMORY && attribute != CUDA_DEVICE_EXPORTS_MEMORY)
        return CUDA_INVALID_VALUE;
    if (attribute == CUDA_DEVICE_EXPORTS_MEMORY)
        fake_fault("exports", &value);
    *ret_value = (int)value;
    return CUDA_SUCCESS;
}

/* ---- contexts ---- */

FAKE_API int cuDevicePrimaryCtxRetain(void **ret_context, int device)
{
    if (!started)
        return CUDA_NOT_INITIALIZED;
    if (!is_device(device))
        return CUDA_INVALID_DEVICE;
    retained[device] = true;
    *ret_context = &primaries[device];
    return CUDA_SUCCESS;
}

static bool is_context(const struct context *context)
{
    return context == NULL ||
           (context >= primaries && context < primaries + DEVICES && retained[context - primaries]);
}

FAKE_API int cuCtxGetCurrent(void **ret_context)
{
    *ret_context = fake_context();
    return started ? CUDA_SUCCESS : CUDA_NOT_INITIALIZED;
}

FAKE_API int cuCtxGetDevice(int *ret_device)
{
    if (!fake_context())
        return CUDA_INVALID_CONTEXT;
    *ret_device = fake_context()->device;
    return CUDA_SUCCESS;
}

FAKE_API int cuCtxPushCurrent_v2(void *context)
{
    if (!context || !is_context(context) || stack.depth == DEPTH)
        return CUDA_INVALID_CONTEXT;
    stack.contexts[stack.depth++] = context;
    return CUDA_SUCCESS;
}

FAKE_API int cuCtxPopCurrent_v2(void **ret_context)
{
    if (stack.depth == 0)
        return CUDA_INVALID_CONTEXT;
    *ret_context = stack.contexts[--stack.depth];
    return CUDA_SUCCESS;
}

FAKE_API int cuCtxSetCurrent(void *context)
{
    if (!is_context(context))
        return CUDA_INVALID_CONTEXT;
    if (stack.depth == 0)
        stack.depth = 1;
    stack.contexts[stack.depth - 1] = context;
    return CUDA_SUCCESS;
}

/* ---- streams ---- */

struct copy {
    struct cuda_copy_2d what;
    int device;
    struct copy *next;
};

struct stream {
    struct context *context;
    struct copy *first, **last;
};

FAKE_API int cuStreamCreate(void **ret_stream, unsigned flags)
{
    if (!fake_context())
        return CUDA_INVALID_CONTEXT;
    struct stream *stream = calloc(1, sizeof(*stream));
    stream->context = fake_context();
    stream->last = &stream->first;
    *ret_stream = stream;
    return flags <= CUDA_STREAM_NON_BLOCKING ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

/* The address of a row; NULL: it may not be accessed. */
static uint8_t *row_of(const struct cuda_rows *rows, size_t row, size_t bytes, int device)
{
    const uint64_t at = row * rows->pitch_bytes;
    if (rows->type == CUDA_MEMORY_HOST) {
        uint8_t *host = (uint8_t *)rows->host + at;
        return fake_range((uint64_t)(uintptr_t)host) ? NULL : host;
    }
    uint8_t *there = fake_reach(rows->device + at, bytes, device);
    if (!there && rows->type == CUDA_MEMORY_UNIFIED && !fake_range(rows->device + at))
        there = (uint8_t *)(uintptr_t)(rows->device + at);
    return there;
}

static int check(const struct cuda_copy_2d *copy, const struct stream *stream)
{
    long error;
    if (!fake_context())
        return CUDA_INVALID_CONTEXT;
    if (!stream || stream->context != fake_context())
        return CUDA_INVALID_HANDLE;
    if (fake_fault("copy", &error))
        return (int)error;
    for (size_t row = 0; row < copy->height; row++)
        if (!row_of(&copy->from, row, copy->width_bytes, fake_context()->device) ||
            !row_of(&copy->to, row, copy->width_bytes, fake_context()->device))
            return CUDA_ILLEGAL_ADDRESS;
    return CUDA_SUCCESS;
}

static int queue(const struct cuda_copy_2d *what, struct stream *stream)
{
    pthread_mutex_lock(&fake_lock);
    int error = check(what, stream);
    if (error == CUDA_SUCCESS) {
        struct copy *copy = calloc(1, sizeof(*copy));
        *copy = (struct copy){.what = *what, .device = fake_context()->device};
        *stream->last = copy;
        stream->last = &copy->next;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_API int cuStreamSynchronize(void *handle)
{
    struct stream *stream = handle;
    if (!stream || stream->context != fake_context())
        return CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&fake_lock);
    while (stream->first) {
        struct copy *copy = stream->first;
        for (size_t row = 0; row < copy->what.height; row++)
            memmove(row_of(&copy->what.to, row, copy->what.width_bytes, copy->device),
                    row_of(&copy->what.from, row, copy->what.width_bytes, copy->device),
                    copy->what.width_bytes);
        stream->first = copy->next;
        free(copy);
    }
    stream->last = &stream->first;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* ---- copies ---- */

static struct cuda_rows host_rows(const void *host)
{
    return (struct cuda_rows){.type = CUDA_MEMORY_HOST, .host = host};
}

static struct cuda_rows device_rows(cuda_address address, int type)
{
    return (struct cuda_rows){.type = type, .device = address};
}

FAKE_API int cuMemcpyHtoDAsync_v2(cuda_address to, const void *from, size_t bytes, void *stream)
{
    return queue(
        &(struct cuda_copy_2d){host_rows(from), device_rows(to, CUDA_MEMORY_DEVICE), bytes, 1},
        stream);
}

FAKE_API int cuMemcpyDtoHAsync_v2(void *to, cuda_address from, size_t bytes, void *stream)
{
    return queue(
        &(struct cuda_copy_2d){device_rows(from, CUDA_MEMORY_DEVICE), host_rows(to), bytes, 1},
        stream);
}

FAKE_API int cuMemcpyAsync(cuda_address to, cuda_address from, size_t bytes, void *stream)
{
    return queue(&(struct cuda_copy_2d){device_rows(from, CUDA_MEMORY_UNIFIED),
                                        device_rows(to, CUDA_MEMORY_UNIFIED), bytes, 1},
                 stream);
}

FAKE_API int cuMemcpy2DAsync_v2(const struct cuda_copy_2d *copy, void *stream)
{
    long rows = 1;
    fake_fault("rows", &rows);
    if (rows == 0 || copy->from.pitch_bytes < copy->width_bytes ||
        copy->to.pitch_bytes < copy->width_bytes || copy->from.x_bytes || copy->to.x_bytes ||
        copy->from.y || copy->to.y)
        return CUDA_INVALID_VALUE;
    return queue(copy, stream);
}

/* The functions that programs use: complete when they return. */
FAKE_API int cuMemcpyHtoD_v2(cuda_address to, const void *from, size_t bytes)
{
    struct stream stream = {.context = fake_context(), .last = &stream.first};
    int error = cuMemcpyHtoDAsync_v2(to, from, bytes, &stream);
    return error ? error : cuStreamSynchronize(&stream);
}

FAKE_API int cuMemcpyDtoH_v2(void *to, cuda_address from, size_t bytes)
{
    struct stream stream = {.context = fake_context(), .last = &stream.first};
    int error = cuMemcpyDtoHAsync_v2(to, from, bytes, &stream);
    return error ? error : cuStreamSynchronize(&stream);
}
