/*
 * A 2-D FFT of a matrix whose rows are spread over ranks, forward and back in each step, by FFTW
 * and tca plans:
 *
 *     tca-cluster run -n 1 --ppn 2 -- fft2d --size 512 --steps 100
 *
 * spectrum.c computes, transpose.c communicates; this file is the loop.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <tca.h>

#include "spectrum.h"
#include "times.h"
#include "transpose.h"

#define CHECKED    2     /* steps before the clock runs, whose result is compared */
#define TOO_FAR    1e-12 /* of the largest value; rounding leaves some 1e-16 */
#define STEPS_MAX  1000000
#define WARM_STEPS 3 /* the check has emptied the caches */

struct options {
    uint64_t n, steps;
    bool json;
};

struct run {
    const struct options *options;
    struct tca *session;
    struct transpose *transpose;
    struct spectrum spectrum;
    double difference;
    uint64_t *step_ns, *turn_ns; /* [steps]: a step, and the transposing in it */
};

static void usage(FILE *out)
{
    fputs("Usage: fft2d [--size N] [--steps N] [--json]\n"
          "Runs under tca-cluster run, mpirun or srun, with up to 16 ranks.\n"
          "\n"
          "  --size   rows and columns of the matrix, complex doubles (default 512)\n"
          "  --steps  the number of 2-D transforms, forward and back (default 50)\n"
          "  --json   print the result as one line of JSON\n",
          out);
}

static int parse_number(const char *text, uint64_t max, uint64_t *ret_number)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);

    if (end == text || *end || *text == '-' || number == 0 || number > max)
        return -EINVAL;
    *ret_number = number;
    return 0;
}

/* 0, 1: only help was wanted, or -EINVAL after saying why. */
static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"size", required_argument, NULL, 's'},
        {"steps", required_argument, NULL, 'n'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    int r = 0;

    *options = (struct options){.n = 512, .steps = 50};
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1 && r >= 0) {
        if (option == 'h') {
            usage(stdout);
            return 1;
        }
        if (option == 's')
            r = parse_number(optarg, 1 << 15, &options->n);
        else if (option == 'n')
            r = parse_number(optarg, STEPS_MAX, &options->steps);
        else if (option == 'j')
            options->json = true;
        else
            r = -EINVAL;
    }
    if (r < 0 || optind < argc) {
        usage(stderr);
        return -EINVAL;
    }
    return 0;
}

/* ---- the loop */

static int step(struct run *run, uint64_t *ret_turn_ns)
{
    uint64_t there_ns, back_ns;
    int r;

    spectrum_rows_forward(&run->spectrum);
    there_ns = now_ns();
    r = transpose_there(run->transpose);
    there_ns = now_ns() - there_ns;
    if (r < 0)
        return r;
    spectrum_columns(&run->spectrum);
    back_ns = now_ns();
    r = transpose_back(run->transpose);
    *ret_turn_ns = there_ns + now_ns() - back_ns;
    if (r >= 0)
        spectrum_rows_backward(&run->spectrum);
    return r;
}

static int check(struct run *run)
{
    uint64_t turn_ns;
    int r = 0;

    spectrum_reset(&run->spectrum);
    for (int n = 0; n < CHECKED && r >= 0; n++)
        r = step(run, &turn_ns);
    if (r >= 0)
        r = transpose_collect(run->transpose);
    if (r < 0 || run->spectrum.me != 0)
        return r;
    run->difference = spectrum_difference(&run->spectrum, transpose_whole(run->transpose), CHECKED);
    if (run->difference >= 0 && run->difference < TOO_FAR)
        return 0;
    fprintf(stderr, "fft2d: differs from a serial FFT by %g of the largest value\n",
            run->difference);
    return -EIO;
}

static int steps(struct run *run)
{
    uint64_t turn_ns;
    int r = 0;

    for (int n = 0; n < WARM_STEPS && r >= 0; n++)
        r = step(run, &turn_ns);
    for (uint64_t n = 0; n < run->options->steps && r >= 0; n++) {
        uint64_t start_ns = now_ns();

        r = step(run, &run->turn_ns[n]);
        run->step_ns[n] = now_ns() - start_ns;
    }
    return r;
}

static int report(struct run *run)
{
    struct tca_receipt receipt;
    uint64_t step_ns, turn_ns, p99_ns;
    int r = transpose_receipt(run->transpose, &receipt);

    if (r < 0)
        return r;
    median_and_p99(run->turn_ns, run->options->steps, &turn_ns, &p99_ns);
    median_and_p99(run->step_ns, run->options->steps, &step_ns, &p99_ns);
    if (run->options->json)
        printf("{\"size\":%llu,\"ranks\":%u,\"steps\":%llu,\"step_us\":%.3f,\"p99_us\":%.3f,"
               "\"transpose_us\":%.3f,"
               "\"difference\":%.3g,\"rail\":\"%s\",\"seat\":\"%s\",\"way\":\"%s\"}\n",
               (unsigned long long)run->options->n, run->spectrum.ranks,
               (unsigned long long)run->options->steps, (double)step_ns / 1e3, (double)p99_ns / 1e3,
               (double)turn_ns / 1e3, run->difference, tca_rail_name(receipt.rail),
               tca_seat_name(receipt.seat), tca_copy_method_name(receipt.copy_method));
    else
        printf("2-D FFT there and back, %llu x %llu complex doubles, %u ranks, %llu steps\n"
               "step       %.1f us (p99 %.1f)\n"
               "transposes %.1f us of it (%.0f %%), by %s in the %s's seat\n"
               "check      %.2g of the largest value from a serial FFT\n",
               (unsigned long long)run->options->n, (unsigned long long)run->options->n,
               run->spectrum.ranks, (unsigned long long)run->options->steps, (double)step_ns / 1e3,
               (double)p99_ns / 1e3, (double)turn_ns / 1e3, (double)turn_ns / (double)step_ns * 100,
               tca_rail_name(receipt.rail), tca_seat_name(receipt.seat), run->difference);
    return 0;
}

static int run_all(struct run *run)
{
    int r = transpose_new(run->session, run->options->n, &run->transpose);

    if (r >= 0)
        r = spectrum_init(&run->spectrum, run->options->n, tca_size(run->session),
                          tca_rank(run->session), transpose_field(run->transpose),
                          transpose_turned(run->transpose));
    run->step_ns = calloc(run->options->steps, sizeof(*run->step_ns));
    run->turn_ns = calloc(run->options->steps, sizeof(*run->turn_ns));
    if (r >= 0 && (!run->step_ns || !run->turn_ns))
        r = -ENOMEM;
    if (r == -ENOMEM)
        fprintf(stderr, "fft2d: no memory for size %llu\n", (unsigned long long)run->options->n);
    if (r >= 0)
        r = check(run);
    if (r >= 0)
        r = tca_barrier(run->session, TCA_FOREVER); /* while rank 0 compares */
    if (r >= 0)
        r = steps(run);
    if (r >= 0 && run->spectrum.me == 0)
        r = report(run);
    if (r >= 0)
        r = tca_barrier(run->session, TCA_DEFAULT); /* nobody leaves while another needs it */
    spectrum_deinit(&run->spectrum);
    transpose_free(run->transpose);
    free(run->step_ns);
    free(run->turn_ns);
    return r;
}

int main(int argc, char **argv)
{
    struct options options;
    struct run run = {.options = &options};
    int r = parse(argc, argv, &options);

    if (r != 0)
        return r < 0 ? 2 : 0;
    r = tca_open(NULL, &run.session);
    if (r < 0) {
        fprintf(stderr, "fft2d: %s\n", tca_error_text());
        return 1;
    }
    if (options.n < tca_size(run.session)) {
        fprintf(stderr, "fft2d: --size %llu: %u ranks need a row each\n",
                (unsigned long long)options.n, tca_size(run.session));
        tca_close(run.session);
        return 2;
    }
    r = run_all(&run);
    tca_close(run.session);
    return r < 0 ? 1 : 0;
}
