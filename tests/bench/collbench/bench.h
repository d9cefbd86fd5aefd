/* What tests/bench/coll measures: the time of a start of a persistent collective operation until its
 * completion, in batches that begin together. Included once, by each of the two programs. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 9, WARM = 20, BATCH_US = 10000, COUNT_MAX = 20000 };
enum operation { BARRIER, BROADCAST, ALLREDUCE, OPERATIONS };

static const char *const operation_names[OPERATIONS] = {"barrier", "broadcast", "allreduce"};

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static inline void print(enum operation operation, uint64_t bytes, double *us)
{
    qsort(us, REPEATS, sizeof(*us), by_size);
    printf("{\"operation\":\"%s\",\"bytes\":%llu,\"us\":%.4f}\n", operation_names[operation],
           (unsigned long long)bytes, us[REPEATS / 2]);
}

/* How often to start in one batch if each takes so long. */
static inline uint64_t count_for(double us)
{
    double count = BATCH_US / (us > 0.01 ? us : 0.01);

    return count < 1 ? 1 : count > COUNT_MAX ? COUNT_MAX : (uint64_t)count;
}

/* Calls a function for the barrier, and for the others with every size, which is a multiple of 8: its
 * first negative result, or 0. */
static inline int for_all(const char *sizes, int (*run)(enum operation, uint64_t bytes))
{
    int r = run(BARRIER, 0);

    for (int o = BROADCAST; o < OPERATIONS; o++)
        for (const char *size = sizes; r >= 0 && size; size = strchr(size, ',')) {
            size += *size == ',';
            uint64_t bytes = strtoull(size, NULL, 10);
            r = bytes > 0 && bytes % 8 == 0 ? run((enum operation)o, bytes) : -1;
        }
    return r;
}

/* The value of element i that a rank contributes: sums are exact. */
static inline double value(uint32_t rank, uint64_t i)
{
    return (double)((i + 1) % 1000 * (rank + 1));
}
