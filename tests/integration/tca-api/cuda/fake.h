/*
 * A CUDA driver for machines without a GPU: two devices whose memory is memfds. Addresses of device
 * memory are mapped to nothing, so whoever touches them with the CPU dies; copies are made when a
 * stream is waited for, not earlier. What the manual calls an error is one here.
 *
 * FAKE_CUDA, a comma-separated list of NAME=NUMBER, makes it fail:
 *   init=ERROR         cuInit()           create=ERROR  cuMemCreate()
 *   import=ERROR       importing          copy=ERROR    every copy
 *   bytes=N            memory of each device
 *   exports=0          descriptors are not supported
 *   rows=0             cuMemcpy2DAsync() takes no pitch
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "client/compat/device/cuda_abi.h"

#define FAKE_API __attribute__((visibility("default")))

enum {
    DEVICES = 2,
    GRANULARITY = 2 << 20,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_INVALID_HANDLE = 400,
};

struct context {
    int device;
};

/* Physical memory, of this process or another. */
struct allocation {
    int fd;
    uint8_t *bytes_here; /* how this driver reaches it */
    size_t bytes;
    int device; /* -1: imported */
    unsigned users;
};

/* A range of addresses. */
struct range {
    cuda_address address;
    size_t bytes;
    struct allocation *allocation; /* NULL: reserved only */
    unsigned devices;              /* that may reach it, a bit each */
    bool plain;                    /* cuMemAlloc()'s */
    unsigned long long buffer;
    struct context *context;
    struct range *next;
};

extern pthread_mutex_t fake_lock;

/* 0: it is not in the list. */
bool fake_fault(const char *name, long *ret_value);
bool fake_started(void);
/* The calling thread's; NULL: none. */
struct context *fake_context(void);

/* Under the lock. */
struct range *fake_range(cuda_address address);
/* Where the bytes are, if the device may reach all of them. */
uint8_t *fake_reach(cuda_address address, size_t bytes, int device);
