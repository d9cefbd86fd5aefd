/*
 * The CUDA driver, found when the process runs. Only the process whose program uses the GPU ever
 * loads it: tcad does not, for a driver's trouble must not be a node's.
 *
 * Calls set the context that they need and leave the caller's as it was. They may be made from
 * several threads.
 */
#pragma once

#include "client/compat/compat.h"
#include "client/compat/device/cuda_abi.h"

enum cuda_state {
    CUDA_READY,
    CUDA_ABSENT,   /* no libcuda.so.1 */
    CUDA_UNUSABLE, /* it is there, and of no use */
};

/* Loads it. ret_why: of at least 256 bytes, why it cannot be used. */
enum cuda_state cuda_open(char *ret_why, size_t why_bytes);

/* A GPU, as one context sees it. Lives as long as the process. */
struct cuda_place;

/* That of the calling thread's context; without one, the first GPU, as for the CUDA runtime. */
tcaresult cuda_place_current(struct cuda_place **ret_place);

enum cuda_kind {
    CUDA_MAPPED,    /* can be handed to other processes by descriptor */
    CUDA_ALLOCATED, /* cannot */
    CUDA_IMPORTED,  /* another process's */
    CUDA_FOREIGN,   /* the program's own */
};

struct cuda_memory {
    enum cuda_kind kind;
    struct cuda_place *place;
    cuda_address address;
    uint64_t bytes;             /* at least what was asked for */
    cuda_allocation allocation; /* mapped, imported */
    uint64_t buffer;            /* foreign: which of all that were ever at this address */
};

tcaresult cuda_memory_new(uint64_t bytes, struct cuda_memory *ret_memory);
/* What the program has from CUDA itself, around an address. */
tcaresult cuda_memory_find(const void *address, struct cuda_memory *ret_memory);
/* Whether foreign memory is what it was. */
bool cuda_memory_same(const struct cuda_memory *memory);
/* A descriptor that stands for mapped memory, to be closed by the caller. */
tcaresult cuda_memory_export(const struct cuda_memory *memory, int *ret_fd);
/* For the GPU of `place` to reach. The descriptor stays the caller's. */
tcaresult cuda_memory_import(struct cuda_place *place, int fd, uint64_t bytes,
                             struct cuda_memory *ret_memory);
void cuda_memory_free(struct cuda_memory *memory);

/* One side of a copy. */
struct cuda_side {
    bool on_device;
    uint64_t address;
    uint64_t pitch_bytes;
};

/* Copies height rows, and returns when they are there. At least one side is device memory. */
tcaresult cuda_copy(struct cuda_place *place, const struct cuda_side *to,
                    const struct cuda_side *from, uint64_t width_bytes, uint64_t height);

/* Makes copies to and from host memory faster, if the driver will: whether it does, until it is
 * told otherwise, which is before the memory goes. */
bool cuda_pin(struct cuda_place *place, void *memory, uint64_t bytes);
void cuda_unpin(struct cuda_place *place, void *memory);

/* ---- between cuda.c and cuda_memory.c ---- */
struct cuda_place {
    void *context;
    int device;
    void *stream;
    bool exports; /* memory can be handed to other processes */
};
extern struct cuda_calls cuda;
/* Notes what the driver said, with what was asked of it, and returns the result. */
__attribute__((format(printf, 2, 3))) tcaresult cuda_fail(int error, const char *format, ...);
/* Between the two, the place's context is the thread's. */
int cuda_enter(const struct cuda_place *place);
void cuda_leave(void);
tcaresult cuda_place_of(void *context, struct cuda_place **ret_place);
