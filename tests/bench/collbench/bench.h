/* What tests/bench/coll measures of a persistent collective operation: the time of preparing it, of
 * a start, and of a start until completion, in batches that begin together; and how much of the
 * latter passes while all ranks compute. Included once, by each of the two programs. */
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

/* How often to start in one batch if each takes so long. */
static inline uint64_t count_for(double us)
{
    double count = BATCH_US / (us > 0.01 ? us : 0.01);

    return count < 1 ? 1 : count > COUNT_MAX ? COUNT_MAX : (uint64_t)count;
}

/* ---- one operation, by either library. Results: 0 or negative. */

static int start(void *operation);
static int await(void *operation);
static int together(void);            /* a barrier */
static int of_rank_0(double *number); /* everybody gets it */

struct times {
    double init_us, start_us, us; /* us: start and completion */
    double hidden;                /* part of `us` that passes while all ranks compute: at most 1 */
};

static int median_us(int (*batch)(void *, uint64_t, double *), void *operation, uint64_t count,
                     double *ret_us)
{
    double us[REPEATS];

    for (int n = 0; n < REPEATS; n++) {
        int r = together();
        if (r >= 0)
            r = batch(operation, count, &us[n]);
        if (r < 0)
            return r;
        us[n] /= (double)count;
    }
    qsort(us, REPEATS, sizeof(*us), by_size);
    *ret_us = us[REPEATS / 2];
    return 0;
}

static int complete_all(void *operation, uint64_t count, double *ret_us)
{
    uint64_t start_ns = now_ns();
    int r = 0;

    for (uint64_t i = 0; i < count && r >= 0; i++) {
        r = start(operation);
        if (r >= 0)
            r = await(operation);
    }
    *ret_us = (double)(now_ns() - start_ns) / 1e3;
    return r;
}

static int start_all(void *operation, uint64_t count, double *ret_us)
{
    uint64_t total_ns = 0;
    int r = 0;

    for (uint64_t i = 0; i < count && r >= 0; i++) {
        uint64_t start_ns = now_ns();
        r = start(operation);
        total_ns += now_ns() - start_ns;
        if (r >= 0)
            r = await(operation);
    }
    *ret_us = (double)total_ns / 1e3;
    return r;
}

/* Work of the processor alone, without memory; `steps` is set beforehand. */
static uint64_t steps;
static volatile double result;

static void compute(void)
{
    double x = 1;

    for (uint64_t i = 0; i < steps; i++)
        x = x * 0.999999 + 1e-6;
    result = x;
}

static int compute_all(void *operation, uint64_t count, double *ret_us)
{
    uint64_t start_ns = now_ns();

    (void)operation;
    for (uint64_t i = 0; i < count; i++)
        compute();
    *ret_us = (double)(now_ns() - start_ns) / 1e3;
    return 0;
}

static int overlap_all(void *operation, uint64_t count, double *ret_us)
{
    uint64_t start_ns = now_ns();
    int r = 0;

    for (uint64_t i = 0; i < count && r >= 0; i++) {
        r = start(operation);
        compute();
        if (r >= 0)
            r = await(operation);
    }
    *ret_us = (double)(now_ns() - start_ns) / 1e3;
    return r;
}

/* Computes for twice as long as the operation takes. */
static int measure_overlap(void *operation, struct times *times)
{
    double compute_us, both_us, wanted;

    steps = 100000;
    int r = median_us(compute_all, operation, 10, &compute_us);
    wanted = r >= 0 ? (double)steps * 2 * times->us / compute_us : 0;
    if (r >= 0)
        r = of_rank_0(&wanted);
    steps = (uint64_t)wanted + 1;
    if (r >= 0)
        r = median_us(compute_all, operation, count_for(3 * times->us), &compute_us);
    if (r >= 0)
        r = median_us(overlap_all, operation, count_for(3 * times->us), &both_us);
    if (r >= 0)
        times->hidden = 1 - (both_us - compute_us) / times->us;
    return r;
}

static int measure(void *operation, struct times *times)
{
    double warm_us;
    int r = complete_all(operation, WARM, &warm_us);

    times->us = warm_us / WARM;
    if (r >= 0)
        r = of_rank_0(&times->us);
    uint64_t count = count_for(times->us);
    if (r >= 0)
        r = median_us(start_all, operation, count, &times->start_us);
    if (r >= 0)
        r = median_us(complete_all, operation, count, &times->us);
    if (r >= 0)
        r = of_rank_0(&times->us);
    return r < 0 ? r : measure_overlap(operation, times);
}

static void print(enum operation operation, uint64_t bytes, const struct times *times)
{
    printf("{\"operation\":\"%s\",\"bytes\":%llu,\"init_us\":%.4f,\"start_us\":%.4f,\"us\":%.4f,"
           "\"hidden\":%.4f}\n",
           operation_names[operation], (unsigned long long)bytes, times->init_us, times->start_us,
           times->us, times->hidden);
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
