/* Deadlines (end_ns): CLOCK_MONOTONIC in ns, END_NEVER for none. */
#pragma once

#include <stdint.h>
#include <time.h>

#include "client/include/tca.h"
#include "proto/wait.h"

#define END_NEVER UINT64_MAX

/* The deadline after timeout_ns, which is >= 0 or TCA_FOREVER. */
static inline uint64_t clock_end(int64_t timeout_ns)
{
    return timeout_ns < 0 ? END_NEVER : clock_now_ns() + (uint64_t)timeout_ns;
}

static inline uint64_t clock_left(uint64_t end_ns)
{
    uint64_t now_ns = clock_now_ns();
    return now_ns < end_ns ? end_ns - now_ns : 0;
}

static inline struct timespec clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

/* Polls a descriptor: 1 ready, or failed (the next call on it returns the error); 0 the deadline
 * has passed. Continues after signals. */
int clock_poll(int fd, short events, uint64_t end_ns);
