#include "times.h"

#include <stdlib.h>
#include <time.h>

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

void median_and_p99(uint64_t *times_ns, uint64_t count, uint64_t *ret_median_ns,
                    uint64_t *ret_p99_ns)
{
    *ret_median_ns = *ret_p99_ns = 0;
    if (!count)
        return;
    qsort(times_ns, count, sizeof(*times_ns), by_size);
    *ret_median_ns = times_ns[count / 2];
    *ret_p99_ns = times_ns[count - 1 - count / 100];
}
