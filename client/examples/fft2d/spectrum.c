#include "spectrum.h"

#include <errno.h>
#include <fftw3.h>
#include <math.h>
#include <stdlib.h>

#define DECAY 1e-3 /* of a wave of length n, in one step */

uint64_t spectrum_first(uint64_t n, uint32_t ranks, uint32_t rank)
{
    return n * rank / ranks;
}

uint64_t spectrum_rows(uint64_t n, uint32_t ranks, uint32_t rank)
{
    return spectrum_first(n, ranks, rank + 1) - spectrum_first(n, ranks, rank);
}

/* Each row separately, in place. Not FFTW_MEASURE: its choice, and with it the time of a step,
 * changes from run to run. */
static fftw_plan plan_rows(const struct spectrum *spectrum, double complex *matrix, int sign)
{
    int n = (int)spectrum->n;

    return fftw_plan_many_dft(1, &n, (int)spectrum->rows, matrix, NULL, 1, n, matrix, NULL, 1, n,
                              sign, FFTW_ESTIMATE);
}

/* Waves n/2 .. n - 1 are those with negative numbers. */
static void set_decay(struct spectrum *spectrum)
{
    for (uint64_t k = 0; k < spectrum->n; k++) {
        double number = k <= spectrum->n / 2 ? (double)k : (double)k - (double)spectrum->n;

        spectrum->decay[k] = exp(-DECAY * number * number);
    }
}

int spectrum_init(struct spectrum *spectrum, uint64_t n, uint32_t ranks, uint32_t me,
                  double complex *field, double complex *turned)
{
    if (n < ranks || n > 1 << 15)
        return -EINVAL;
    *spectrum = (struct spectrum){.n = n,
                                  .ranks = ranks,
                                  .me = me,
                                  .first = spectrum_first(n, ranks, me),
                                  .rows = spectrum_rows(n, ranks, me),
                                  .field = field,
                                  .turned = turned};
    spectrum->decay = malloc(n * sizeof(*spectrum->decay));
    spectrum->forward = plan_rows(spectrum, field, FFTW_FORWARD);
    spectrum->backward = plan_rows(spectrum, field, FFTW_BACKWARD);
    spectrum->turned_forward = plan_rows(spectrum, turned, FFTW_FORWARD);
    spectrum->turned_backward = plan_rows(spectrum, turned, FFTW_BACKWARD);
    if (!spectrum->decay || !spectrum->forward || !spectrum->backward ||
        !spectrum->turned_forward || !spectrum->turned_backward) {
        spectrum_deinit(spectrum);
        return -ENOMEM;
    }
    set_decay(spectrum);
    return 0;
}

void spectrum_deinit(struct spectrum *spectrum)
{
    void *plans[] = {spectrum->forward, spectrum->backward, spectrum->turned_forward,
                     spectrum->turned_backward};

    for (int i = 0; i < 4; i++)
        if (plans[i])
            fftw_destroy_plan(plans[i]);
    free(spectrum->decay);
    *spectrum = (struct spectrum){0};
    fftw_cleanup();
}

/* Looks random, in -1 .. 1 for each part. */
static double complex initial(uint64_t i, uint64_t j)
{
    uint32_t mixed = (uint32_t)(i * 2654435761u + j * 2246822519u);

    mixed = (mixed ^ (mixed >> 15)) * 2246822519u;
    mixed ^= mixed >> 13;
    return (mixed & 0xffff) / 32768.0 - 1 + I * ((mixed >> 16) / 32768.0 - 1);
}

static void fill(double complex *field, uint64_t first, uint64_t rows, uint64_t n)
{
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < n; j++)
            field[i * n + j] = initial(first + i, j);
}

void spectrum_reset(struct spectrum *spectrum)
{
    fill(spectrum->field, spectrum->first, spectrum->rows, spectrum->n);
}

/* Rows `first` and on of a spectrum, which may be transposed. There and back is n * n times what it
 * was. */
static void decay(const struct spectrum *spectrum, double complex *waves, uint64_t first,
                  uint64_t rows)
{
    uint64_t n = spectrum->n;
    double scale = 1.0 / ((double)n * (double)n);

    for (uint64_t i = 0; i < rows; i++) {
        double factor = spectrum->decay[first + i] * scale;

        for (uint64_t j = 0; j < n; j++)
            waves[i * n + j] *= factor * spectrum->decay[j];
    }
}

void spectrum_rows_forward(struct spectrum *spectrum)
{
    fftw_execute(spectrum->forward);
}

void spectrum_columns(struct spectrum *spectrum)
{
    fftw_execute(spectrum->turned_forward);
    decay(spectrum, spectrum->turned, spectrum->first, spectrum->rows);
    fftw_execute(spectrum->turned_backward);
}

void spectrum_rows_backward(struct spectrum *spectrum)
{
    fftw_execute(spectrum->backward);
}

/* ---- the check */

static int solve_alone(const struct spectrum *spectrum, double complex *field, uint64_t steps)
{
    int n = (int)spectrum->n;
    fftw_plan forward = fftw_plan_dft_2d(n, n, field, field, FFTW_FORWARD, FFTW_ESTIMATE);
    fftw_plan backward = fftw_plan_dft_2d(n, n, field, field, FFTW_BACKWARD, FFTW_ESTIMATE);
    int r = forward && backward ? 0 : -ENOMEM;

    fill(field, 0, spectrum->n, spectrum->n);
    while (r >= 0 && steps--) {
        fftw_execute(forward);
        decay(spectrum, field, 0, spectrum->n);
        fftw_execute(backward);
    }
    if (forward)
        fftw_destroy_plan(forward);
    if (backward)
        fftw_destroy_plan(backward);
    return r;
}

double spectrum_difference(const struct spectrum *spectrum, const double complex *whole,
                           uint64_t steps)
{
    uint64_t points = spectrum->n * spectrum->n;
    double complex *alone = fftw_malloc(points * sizeof(*alone));
    double largest = 0;
    double difference = 0;

    if (!alone || solve_alone(spectrum, alone, steps) < 0) {
        fftw_free(alone);
        return -1;
    }
    for (uint64_t i = 0; i < points; i++) {
        largest = fmax(largest, cabs(alone[i]));
        difference = fmax(difference, cabs(alone[i] - whole[i]));
    }
    fftw_free(alone);
    return difference / largest;
}
