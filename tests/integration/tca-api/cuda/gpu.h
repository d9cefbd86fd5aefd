/* The CUDA functions that a program uses, looked up at run time; without a driver, GPU memory is
 * host memory. */
#ifndef GPU_H
#define GPU_H

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include "../check.h"

static struct {
    int ready;
    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*set)(void *);
    int (*get)(void **);
    int (*to)(uint64_t, const void *, size_t);
    int (*from)(void *, uint64_t, size_t);
    int (*alloc)(uint64_t *, size_t);
    int (*free)(uint64_t);
    unsigned (*imports)(void);
} gpu;

static inline void gpu_symbol(void *library, const char *name, void *ret_function)
{
    void *symbol = dlsym(library, name);
    REQUIRE(symbol != NULL);
    memcpy(ret_function, &symbol, sizeof(symbol));
}

/* As after cudaSetDevice(device): after tcaInit(), which comes before the GPU is chosen. */
static inline void gpu_open(int device)
{
    void *context, *library = dlopen("libcuda.so.1", RTLD_NOW);
    const char *wish = getenv("TCA_CUDA");
    if (!library || (wish && strcmp(wish, "off") == 0))
        return;
    gpu_symbol(library, "cuInit", &gpu.init);
    gpu_symbol(library, "cuDevicePrimaryCtxRetain", &gpu.retain);
    gpu_symbol(library, "cuCtxSetCurrent", &gpu.set);
    gpu_symbol(library, "cuCtxGetCurrent", &gpu.get);
    gpu_symbol(library, "cuMemcpyHtoD_v2", &gpu.to);
    gpu_symbol(library, "cuMemcpyDtoH_v2", &gpu.from);
    gpu_symbol(library, "cuMemAlloc_v2", &gpu.alloc);
    gpu_symbol(library, "cuMemFree_v2", &gpu.free);
    gpu_symbol(library, "fake_cuda_imports", &gpu.imports);
    if (gpu.init(0) != 0)
        return; /* no device */
    REQUIRE(gpu.retain(&context, device) == 0 && gpu.set(context) == 0);
    gpu.ready = 1;
}

static inline void gpu_write(void *to, const void *from, size_t bytes)
{
    if (gpu.ready)
        REQUIRE(gpu.to((uint64_t)(uintptr_t)to, from, bytes) == 0);
    else
        memcpy(to, from, bytes);
}

static inline void gpu_read(void *to, const void *from, size_t bytes)
{
    if (gpu.ready)
        REQUIRE(gpu.from(to, (uint64_t)(uintptr_t)from, bytes) == 0);
    else
        memcpy(to, from, bytes);
}

/* Whether the CPU can read there: asks the kernel. */
static inline int gpu_is_host(const void *address)
{
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    int can = write(ends[1], address, 1) == 1;
    REQUIRE(can || errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
    return can;
}

#endif
