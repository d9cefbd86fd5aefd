/*
 * spectrum: the arithmetic: heat spreading over a periodic n * n field of complex numbers, solved
 * exactly by its 2-D Fourier transform. It knows which rows it has, and nothing of how a matrix is
 * transposed.
 *
 * One step: transform the rows; transpose; transform the rows, which are the columns of the field;
 * let every wave decay; transform back; transpose; transform back.
 */
#pragma once

#include <complex.h>
#include <stdint.h>

struct spectrum {
    uint64_t n;
    uint32_t ranks, me;
    uint64_t first, rows;     /* of this rank, of the field and of its transpose */
    double complex *field;    /* the caller's memory, rows * n each */
    double complex *turned;   /* the transpose */
    double *decay;            /* [n]: of a wave with that number in one direction, in one step */
    void *forward, *backward; /* FFTW's plans: rows of `field`, */
    void *turned_forward, *turned_backward; /* and rows of `turned` */
};

/* The rows of any rank, which differ by one at most. */
uint64_t spectrum_first(uint64_t n, uint32_t ranks, uint32_t rank);
uint64_t spectrum_rows(uint64_t n, uint32_t ranks, uint32_t rank);

/* field and turned: rows * n each. -EINVAL: a rank would have no rows;
 * -ENOMEM. */
int spectrum_init(struct spectrum *spectrum, uint64_t n, uint32_t ranks, uint32_t me,
                  double complex *field, double complex *turned);
void spectrum_deinit(struct spectrum *spectrum);

/* The field at the beginning: the same for every number of ranks. */
void spectrum_reset(struct spectrum *spectrum);

/* What one step consists of, between the transpositions. */
void spectrum_rows_forward(struct spectrum *spectrum);
void spectrum_columns(struct spectrum *spectrum);
void spectrum_rows_backward(struct spectrum *spectrum);

/*
 * The largest difference between `whole`, the n * n field after so many steps, and what one process
 * gets with 2-D transforms of FFTW, as a part of the largest value. Negative: no memory.
 */
double spectrum_difference(const struct spectrum *spectrum, const double complex *whole,
                           uint64_t steps);
