/* What tests/bench/coll measures of a persistent collective operation: the time of preparing it, of
 * a start, and of a start until completion, in batches that begin together; and how much of the
 * latter passes while all ranks compute. Included once, by each of the two programs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tca-bench/work.h"

enum { REPEATS = 9, WARM = 20, BATCH_US = 10000, COUNT_MAX = 20000 };
enum operation { BARRIER, BROADCAST, ALLREDUCE, OPERATIONS };

static const char *const operation_names[OPERATIONS] = {"barrier", "broadcast", "allreduce"};

/* How often to start in one batch if each takes so long. */
static inline uint64_t count_for(double us)
{
    double count = BATCH_US / (us > 0.01 ? us : 0.01);

    return count < 1 ? 1 : count > COUNT_MAX ? COUNT_MAX : (uint64_t)count;
}

#include "tests/bench/overlap.h"

/* ---- one operation */

struct times {
    double init_us, start_us, us; /* us: start and completion */
    double hidden;                /* part of `us` that passes while all ranks compute: at most 1 */
};

static uint64_t start_all(void *operation, uint64_t count)
{
    uint64_t total_ns = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t start_ns = now_ns();
        start(operation);
        total_ns += now_ns() - start_ns;
        await(operation);
    }
    return total_ns;
}

static void measure(void *operation, struct times *times)
{
    uint64_t count = count_for(of_rank_0((double)complete_all(operation, WARM) / 1e3 / WARM));

    times->start_us = median_us(start_all, operation, count);
    times->us = of_rank_0(median_us(complete_all, operation, count));
    times->hidden = hidden_part(operation, times->us);
}

/* The value of element i that a rank contributes: sums are exact. */
static inline double value(uint32_t rank, uint64_t i)
{
    return (double)((i + 1) % 1000 * (rank + 1));
}

/* Checks the result at a rank, and reports the times at rank 0. */
static bool finish(enum operation operation, const double *out, uint64_t bytes, uint32_t rank,
                   uint32_t size, const struct times *times)
{
    for (uint64_t i = 0; i < bytes / 8; i++) {
        double expected = operation == BROADCAST ? value(0, i) : 0;
        for (uint32_t from = 0; operation == ALLREDUCE && from < size; from++)
            expected += value(from, i);
        if (out[i] != expected) {
            fprintf(stderr, "element %llu of %s is wrong\n", (unsigned long long)i,
                    operation_names[operation]);
            return false;
        }
    }
    if (rank == 0)
        printf("{\"operation\":\"%s\",\"bytes\":%llu,\"init_us\":%.4f,\"start_us\":%.4f,"
               "\"us\":%.4f,\"hidden\":%.4f}\n",
               operation_names[operation], (unsigned long long)bytes, times->init_us,
               times->start_us, times->us, times->hidden);
    return true;
}

/* Calls a function for each of the operations that are named, but for the barrier with every size,
 * which is a multiple of 8. False: a size is not, or the function returned false. where: the ranks
 * compute "here" or "elsewhere". */
static inline bool for_all(const char *sizes, const char *operations, const char *where,
                           bool (*run)(enum operation, uint64_t bytes))
{
    bool good = true;

    compute_where(where);
    if (strstr(operations, operation_names[BARRIER]))
        good = run(BARRIER, 0);
    for (int o = BROADCAST; o < OPERATIONS; o++)
        for (const char *size = strstr(operations, operation_names[o]) ? sizes : NULL; good && size;
             size = strchr(size, ',')) {
            size += *size == ',';
            uint64_t bytes = strtoull(size, NULL, 10);
            good = bytes > 0 && bytes % 8 == 0 && run((enum operation)o, bytes);
        }
    return good;
}
