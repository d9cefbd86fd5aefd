/* How much of a communication passes while all ranks compute. Included once by a program, which
 * defines REPEATS, count_for() and the functions below; an error ends it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "tools/tca-bench/work.h"

static void start(void *operation);
static void await(void *operation);
static void together(void);             /* a barrier */
static double of_rank_0(double number); /* everybody gets it */

/* batch: the time of so many, or of a part of each, in ns. */
static double median_us(uint64_t (*batch)(void *, uint64_t), void *operation, uint64_t count)
{
    double us[REPEATS];

    for (int n = 0; n < REPEATS; n++) {
        together();
        us[n] = (double)batch(operation, count) / 1e3 / (double)count;
    }
    return median_of_doubles(us, REPEATS);
}

static uint64_t complete_all(void *operation, uint64_t count)
{
    uint64_t start_ns = now_ns();

    for (uint64_t i = 0; i < count; i++) {
        start(operation);
        await(operation);
    }
    return now_ns() - start_ns;
}

static uint64_t steps; /* of computing beside each operation, */
static bool elsewhere; /* by something that needs no processor: then so many ns */

/* where: the ranks compute "here" or "elsewhere". */
static void compute_where(const char *where)
{
    elsewhere = strcmp(where, "elsewhere") == 0;
}

static void compute_beside(void)
{
    const struct timespec time = {(time_t)(steps / 1000000000), (long)(steps % 1000000000)};

    if (elsewhere)
        nanosleep(&time, NULL);
    else
        compute(steps);
}

static uint64_t compute_all(void *operation, uint64_t count)
{
    uint64_t start_ns = now_ns();

    (void)operation;
    for (uint64_t i = 0; i < count; i++)
        compute_beside();
    return now_ns() - start_ns;
}

static uint64_t overlap_all(void *operation, uint64_t count)
{
    uint64_t start_ns = now_ns();

    for (uint64_t i = 0; i < count; i++) {
        start(operation);
        compute_beside();
        await(operation);
    }
    return now_ns() - start_ns;
}

/* The part of an operation, which takes `us` at rank 0, that passes while all ranks compute for
 * twice as long: at most 1. */
static double hidden_part(void *operation, double us)
{
    steps = 100000;
    steps = (uint64_t)of_rank_0((double)steps * 2 * us / median_us(compute_all, operation, 10)) + 1;
    /* sleeping takes longer than the time that is asked for */
    uint64_t count =
        (uint64_t)of_rank_0((double)count_for(us + median_us(compute_all, operation, 10)));
    double compute_us = median_us(compute_all, operation, count);
    return 1 - (median_us(overlap_all, operation, count) - compute_us) / us;
}
