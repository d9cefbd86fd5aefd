/* The clock of a test: the linker puts it in the place of the real one (--wrap=clock_gettime). */
#pragma once

#include <stdint.h>
#include <time.h>

static uint64_t now_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = (time_t)(now_ns / 1000000000),
                              .tv_nsec = (long)(now_ns % 1000000000)};
    return 0;
}
