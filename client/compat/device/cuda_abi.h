/*
 * The part of the CUDA driver API that is used here, as documented in its reference manual. So no
 * CUDA header is needed to build; libcuda.so.1 is loaded at run time. Names differ from the
 * manual's where these would clash with <cuda.h>.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    CUDA_SUCCESS = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_NOT_PERMITTED = 800,
    CUDA_NOT_SUPPORTED = 801,

    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_HOST_REGISTER_PORTABLE = 1, /* for all contexts */

    CUDA_DEVICE_MAPS_MEMORY = 102, /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
    CUDA_DEVICE_EXPORTS_MEMORY =
        103, /* CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */

    CUDA_POINTER_CONTEXT = 1,
    CUDA_POINTER_MEMORY_TYPE = 2,
    CUDA_POINTER_BUFFER_ID = 7,

    CUDA_MEMORY_HOST = 1,
    CUDA_MEMORY_DEVICE = 2,
    CUDA_MEMORY_UNIFIED = 4, /* found by the driver from the address */

    CUDA_ALLOCATION_PINNED = 1,
    CUDA_HANDLE_DESCRIPTOR = 1, /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
    CUDA_LOCATION_DEVICE = 1,
    CUDA_ACCESS_READ_WRITE = 3,
    CUDA_GRANULARITY_MINIMUM = 0,
};

typedef uint64_t cuda_address;    /* CUdeviceptr */
typedef uint64_t cuda_allocation; /* CUmemGenericAllocationHandle */

struct cuda_location {
    int type;
    int id;
};

struct cuda_allocation_prop {
    int type;
    int handle_types;
    struct cuda_location location;
    void *windows;
    struct {
        unsigned char compression;
        unsigned char rdma_capable;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
};
_Static_assert(sizeof(struct cuda_allocation_prop) == 32, "CUmemAllocationProp");

struct cuda_access {
    struct cuda_location location;
    int flags;
};
_Static_assert(sizeof(struct cuda_access) == 12, "CUmemAccessDesc");

struct cuda_rows {
    size_t x_bytes, y;
    int type;
    const void *host;
    cuda_address device;
    void *array;
    size_t pitch_bytes;
};

/* CUDA_MEMCPY2D. */
struct cuda_copy_2d {
    struct cuda_rows from, to;
    size_t width_bytes, height;
};
_Static_assert(sizeof(struct cuda_copy_2d) == 128 && offsetof(struct cuda_copy_2d, to) == 56,
               "CUDA_MEMCPY2D");

/* Named as in the manual. 0: success. */
struct cuda_calls {
    int (*cuInit)(unsigned flags);
    int (*cuGetErrorString)(int error, const char **ret_text);
    int (*cuDeviceGetCount)(int *ret_count);
    int (*cuDeviceGet)(int *ret_device, int ordinal);
    int (*cuDeviceGetAttribute)(int *ret_value, int attribute, int device);
    int (*cuDevicePrimaryCtxRetain)(void **ret_context, int device);
    int (*cuCtxGetCurrent)(void **ret_context);
    int (*cuCtxGetDevice)(int *ret_device);
    int (*cuCtxPushCurrent)(void *context);
    int (*cuCtxPopCurrent)(void **ret_context);
    int (*cuStreamCreate)(void **ret_stream, unsigned flags);
    int (*cuStreamSynchronize)(void *stream);
    int (*cuMemAlloc)(cuda_address *ret_address, size_t bytes);
    int (*cuMemFree)(cuda_address address);
    int (*cuMemGetAddressRange)(cuda_address *ret_base, size_t *ret_bytes, cuda_address address);
    int (*cuMemHostRegister)(void *address, size_t bytes, unsigned flags);
    int (*cuMemHostUnregister)(void *address);
    int (*cuPointerGetAttribute)(void *ret_value, int attribute, cuda_address address);
    int (*cuMemcpyHtoDAsync)(cuda_address to, const void *from, size_t bytes, void *stream);
    int (*cuMemcpyDtoHAsync)(void *to, cuda_address from, size_t bytes, void *stream);
    int (*cuMemcpyAsync)(cuda_address to, cuda_address from, size_t bytes, void *stream);
    int (*cuMemcpy2DAsync)(const struct cuda_copy_2d *copy, void *stream);
    int (*cuMemGetAllocationGranularity)(size_t *ret_bytes, const struct cuda_allocation_prop *prop,
                                         int option);
    int (*cuMemCreate)(cuda_allocation *ret_allocation, size_t bytes,
                       const struct cuda_allocation_prop *prop, unsigned long long flags);
    int (*cuMemRelease)(cuda_allocation allocation);
    int (*cuMemAddressReserve)(cuda_address *ret_address, size_t bytes, size_t alignment,
                               cuda_address wanted, unsigned long long flags);
    int (*cuMemAddressFree)(cuda_address address, size_t bytes);
    int (*cuMemMap)(cuda_address address, size_t bytes, size_t offset, cuda_allocation allocation,
                    unsigned long long flags);
    int (*cuMemUnmap)(cuda_address address, size_t bytes);
    int (*cuMemSetAccess)(cuda_address address, size_t bytes, const struct cuda_access *access,
                          size_t count);
    int (*cuMemExportToShareableHandle)(void *ret_handle, cuda_allocation allocation, int type,
                                        unsigned long long flags);
    int (*cuMemImportFromShareableHandle)(cuda_allocation *ret_allocation, void *handle, int type);
};
