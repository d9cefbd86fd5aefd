/* The halo exchanges that tests/bench/apps measures: two ranks that have cut a periodic array in
 * two, so that each sends both of its faces to the other. */
#pragma once

#include <stdint.h>

enum { DIMENSIONS_MAX = 3, WIDTH_ACROSS = 64, REPEATS = 9, WARM = 400, BATCH_US = 10000 };

struct bench_case {
    int dimensions;
    int across;                       /* the dimension that is cut */
    uint64_t bytes;                   /* of a face */
    uint64_t extents[DIMENSIONS_MAX]; /* own doubles; the halo is one wide, across only */
};

/* Calls a function for every case. sizes: "1024,65536", powers of two; -EINVAL: anything else. */
int cases_run(const char *sizes, void (*run)(const struct bench_case *one));

/* Elements of the array, and where its faces begin: those that are sent (0: low, 1: high) and the
 * halos. */
uint64_t case_full(const struct bench_case *one, int dimension);
uint64_t case_elements(const struct bench_case *one);
/* Elements from one index across to the next: so many of a face are consecutive. */
uint64_t case_stride(const struct bench_case *one);
uint64_t case_sent(const struct bench_case *one, int high);
uint64_t case_kept(const struct bench_case *one, int high);

/* How often to exchange in one measurement if each takes so long. Rank 0 decides. */
uint64_t count_for(double us);
/* Fills own elements from a seed; returns how many elements of the halos are not those of the
 * neighbour, whose seed this is. */
void case_fill(const struct bench_case *one, double *array, double seed);
uint64_t case_wrong(const struct bench_case *one, const double *array, double seed);

/* One line of JSON. hidden: the part of the time that passes while the ranks compute; NULL: not
 * measured. */
void case_print(const struct bench_case *one, const char *how, double us, const double *hidden);
