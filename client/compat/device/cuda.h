/*
 * The CUDA driver, loaded at run time. Only processes whose programs use a GPU load it. tcad does
 * not, so that trouble with the driver does not affect a whole node.
 *
 * Calls set the context that they need and restore the caller's. Any thread may call them.
 */
#pragma once

#include "client/compat/compat.h"
#include "client/compat/device/cuda_abi.h"

enum cuda_state {
    CUDA_READY,
    CUDA_ABSENT,   /* no libcuda.so.1 */
    CUDA_UNUSABLE, /* loaded, but cannot be used */
};

/* Loads the driver. ret_why, at least 256 bytes: why it cannot be used. */
enum cuda_state cuda_open(char *ret_why, size_t why_bytes);

/* A GPU in one context. Never freed. */
struct cuda_place;

/* The place of the calling thread's context or, without one, of the first GPU, as in the CUDA
 * runtime. */
tcaresult cuda_place_current(struct cuda_place **ret_place);

enum cuda_kind {
    CUDA_MAPPED,    /* can be exported to other processes as a descriptor */
    CUDA_ALLOCATED, /* cannot */
    CUDA_IMPORTED,  /* from another process */
    CUDA_FOREIGN,   /* allocated by the program */
};

struct cuda_memory {
    enum cuda_kind kind;
    struct cuda_place *place;
    cuda_address address;
    uint64_t bytes;             /* at least as requested */
    cuda_allocation allocation; /* mapped, imported */
    uint64_t
        buffer; /* foreign: id of the buffer, which tells apart successive ones at this address */
};

tcaresult cuda_memory_new(uint64_t bytes, struct cuda_memory *ret_memory);
/* The memory that the program has allocated with CUDA and that contains the address. */
tcaresult cuda_memory_find(const void *address, struct cuda_memory *ret_memory);
/* Whether foreign memory is still the same buffer. */
bool cuda_memory_same(const struct cuda_memory *memory);
/* Exports mapped memory as a descriptor, which the caller closes. */
tcaresult cuda_memory_export(const struct cuda_memory *memory, int *ret_fd);
/* Maps the memory for the GPU of `place`. The caller keeps the descriptor. */
tcaresult cuda_memory_import(struct cuda_place *place, int fd, uint64_t bytes,
                             struct cuda_memory *ret_memory);
void cuda_memory_free(struct cuda_memory *memory);

/* One side of a copy. */
struct cuda_side {
    bool on_device;
    uint64_t address;
    uint64_t pitch_bytes;
};

/* Copies `height` rows and waits for completion. At least one side must be device memory. */
tcaresult cuda_copy(struct cuda_place *place, const struct cuda_side *to,
                    const struct cuda_side *from, uint64_t width_bytes, uint64_t height);

/* Pins host memory to make copies faster. Returns whether the driver has pinned it; then the caller
 * must unpin it before the memory is freed. */
bool cuda_pin(struct cuda_place *place, void *memory, uint64_t bytes);
void cuda_unpin(struct cuda_place *place, void *memory);

/* ---- between cuda.c and cuda_memory.c ---- */
struct cuda_place {
    void *context;
    int device;
    void *stream;
    bool exports; /* its memory can be exported */
};
extern struct cuda_calls cuda;
/* Records the driver's error and the failed operation; returns the result. */
__attribute__((format(printf, 2, 3))) tcaresult cuda_fail(int error, const char *format, ...);
/* Between these calls, the place's context is current in the thread. */
int cuda_enter(const struct cuda_place *place);
void cuda_leave(void);
tcaresult cuda_place_of(void *context, struct cuda_place **ret_place);
