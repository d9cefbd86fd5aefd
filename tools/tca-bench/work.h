/*
 * The work of a benchmark iteration besides communication. tca-bench and the programs of
 * tests/bench/peers both include it, so that tcad and its peers do the same work.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* CLOCK_MONOTONIC */
static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* `count` blocks of `block` bytes (a multiple of 8), which begin `stride` bytes apart. */
struct shape {
    uint64_t count, block, stride;
};

static inline uint64_t shape_bytes(const struct shape *shape)
{
    return shape->count * shape->block;
}

static inline uint64_t shape_span(const struct shape *shape)
{
    return (shape->count - 1) * shape->stride + shape->block;
}

/* The sender writes all data that it sends and the receiver reads all that it receives, as a
 * program would. */
static inline void touch_write(char *base, const struct shape *shape, uint64_t value)
{
    for (uint64_t n = 0; n < shape->count; n++) {
        uint64_t *words = (uint64_t *)(void *)(base + n * shape->stride);

        for (uint64_t i = 0; i < shape->block / 8; i++)
            words[i] = value + i;
    }
}

static inline uint64_t touch_read(const char *base, const struct shape *shape)
{
    uint64_t sum = 0;

    for (uint64_t n = 0; n < shape->count; n++) {
        const uint64_t *words = (const uint64_t *)(const void *)(base + n * shape->stride);

        for (uint64_t i = 0; i < shape->block / 8; i++)
            sum += words[i];
    }
    __asm__ volatile("" : : "r"(sum)); /* keeps the sum from being optimised away */
    return sum;
}

/* Round trips before the measurement; few if each takes milliseconds. */
static inline uint64_t warm_up_rounds(const struct shape *shape)
{
    return shape_bytes(shape) >= 256 * 1024 ? 4 : 30;
}

/* Computes in registers only; compute_rounds() relates rounds to time. */
static inline void compute(uint64_t rounds)
{
    uint64_t x = 1;

    for (uint64_t n = 0; n < rounds; n++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x)); /* keeps the rounds sequential */
    }
}

/* The rounds of compute() that take about this long. */
static inline uint64_t compute_rounds(uint64_t wanted_ns)
{
    uint64_t best_ns = UINT64_MAX;

    for (int attempt = 0; attempt < 5; attempt++) {
        uint64_t start_ns = now_ns();

        compute(100000);
        uint64_t took_ns = now_ns() - start_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    return wanted_ns * 100000 / (best_ns ? best_ns : 1) + 1;
}

static inline int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Sorts the values and returns the median; count > 0. */
static inline uint64_t median_of(uint64_t *values, uint64_t count)
{
    qsort(values, count, sizeof(*values), by_size);
    return values[count / 2];
}

/* The share of a transfer that simultaneous computing hides: 1: all of it, 0: none, as one after
 * the other; negative: they slow each other down. The three times must be from one sample, because
 * the machine's speed changes between samples. */
static inline double hidden_share(uint64_t transfer_ns, uint64_t compute_ns, uint64_t both_ns)
{
    return ((double)transfer_ns + (double)compute_ns - (double)both_ns) / (double)transfer_ns;
}

static inline int by_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the values and returns the median; count > 0. */
static inline double median_of_doubles(double *values, uint64_t count)
{
    qsort(values, count, sizeof(*values), by_double);
    return values[count / 2];
}
