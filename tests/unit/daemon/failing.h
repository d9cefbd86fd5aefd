/* An allocator that fails on demand, in every thread of the test. Include it in one source of a
 * test. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static atomic_bool no_memory;
static atomic_uint refused; /* requests */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

enum { CAN_FAIL = false }; /* a sanitizer brings its own */

#else

enum { CAN_FAIL = true };

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);

static bool refuse(void)
{
    if (!atomic_load(&no_memory))
        return false;
    atomic_fetch_add(&refused, 1);
    return true;
}

void *malloc(size_t bytes)
{
    return refuse() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return refuse() ? NULL : __libc_calloc(count, bytes);
}

#endif
