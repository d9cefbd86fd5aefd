/*
 * fft2d_mpi: the same 2-D FFT (client/examples/fft2d/spectrum.c), transposing by MPI's derived
 * datatypes. Rank 0 writes one line of JSON to stdout.
 *
 *     fft2d_mpi SIZE STEPS alltoall|persistent
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/examples/fft2d/spectrum.h"
#include "client/examples/himeno/times.h"

#define CHECKED    2 /* as fft2d does */
#define TOO_FAR    1e-12
#define WARM_STEPS 3

struct run {
    struct spectrum spectrum;
    bool persistent;
    /* to and from each rank */
    int *ones;
    int *send_at, *receive_at; /* bytes */
    MPI_Datatype *send_types, *receive_types;
    MPI_Request *requests[2]; /* both directions; 2 * ranks each */
};

static void *zeroed(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);

    if (!memory)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return memory;
}

/* The block for a rank, row by row; and where a block from it lies, its rows as columns. */
static void make_types(struct run *run, int rank)
{
    const struct spectrum *spectrum = &run->spectrum;
    int n = (int)spectrum->n;
    int mine = (int)spectrum->rows;
    int theirs = (int)spectrum_rows(spectrum->n, spectrum->ranks, (uint32_t)rank);
    MPI_Datatype column;

    run->ones[rank] = 1;
    run->send_at[rank] = run->receive_at[rank] =
        (int)(spectrum_first(spectrum->n, spectrum->ranks, (uint32_t)rank) *
              sizeof(double complex));
    MPI_Type_vector(mine, theirs, n, MPI_C_DOUBLE_COMPLEX, &run->send_types[rank]);
    MPI_Type_vector(mine, 1, n, MPI_C_DOUBLE_COMPLEX, &column);
    MPI_Type_create_hvector(theirs, 1, sizeof(double complex), column, &run->receive_types[rank]);
    MPI_Type_free(&column);
    MPI_Type_commit(&run->send_types[rank]);
    MPI_Type_commit(&run->receive_types[rank]);
}

static void make_requests(struct run *run, int back)
{
    char *from = (char *)(back ? run->spectrum.turned : run->spectrum.field);
    char *to = (char *)(back ? run->spectrum.field : run->spectrum.turned);
    int ranks = (int)run->spectrum.ranks;

    for (int rank = 0; rank < ranks; rank++) {
        MPI_Recv_init(to + run->receive_at[rank], 1, run->receive_types[rank], rank, back,
                      MPI_COMM_WORLD, &run->requests[back][rank]);
        MPI_Send_init(from + run->send_at[rank], 1, run->send_types[rank], rank, back,
                      MPI_COMM_WORLD, &run->requests[back][ranks + rank]);
    }
}

static void prepare(struct run *run)
{
    uint32_t ranks = run->spectrum.ranks;

    run->ones = zeroed(ranks, sizeof(int));
    run->send_at = zeroed(ranks, sizeof(int));
    run->receive_at = zeroed(ranks, sizeof(int));
    run->send_types = zeroed(ranks, sizeof(MPI_Datatype));
    run->receive_types = zeroed(ranks, sizeof(MPI_Datatype));
    for (int rank = 0; rank < (int)ranks; rank++)
        make_types(run, rank);
    for (int back = 0; back < 2; back++) {
        run->requests[back] = zeroed(2 * (size_t)ranks, sizeof(MPI_Request));
        make_requests(run, back);
    }
}

static void clean_up(struct run *run)
{
    for (uint32_t rank = 0; rank < run->spectrum.ranks; rank++) {
        MPI_Type_free(&run->send_types[rank]);
        MPI_Type_free(&run->receive_types[rank]);
        for (int back = 0; back < 2; back++) {
            MPI_Request_free(&run->requests[back][rank]);
            MPI_Request_free(&run->requests[back][run->spectrum.ranks + rank]);
        }
    }
    free(run->ones);
    free(run->send_at);
    free(run->receive_at);
    free(run->send_types);
    free(run->receive_types);
    free(run->requests[0]);
    free(run->requests[1]);
}

static uint64_t turn(struct run *run, int back)
{
    int ranks = (int)run->spectrum.ranks;
    uint64_t start_ns = now_ns();

    if (run->persistent) {
        MPI_Startall(2 * ranks, run->requests[back]);
        MPI_Waitall(2 * ranks, run->requests[back], MPI_STATUSES_IGNORE);
    } else {
        MPI_Alltoallw(back ? run->spectrum.turned : run->spectrum.field, run->ones, run->send_at,
                      run->send_types, back ? run->spectrum.field : run->spectrum.turned, run->ones,
                      run->receive_at, run->receive_types, MPI_COMM_WORLD);
    }
    return now_ns() - start_ns;
}

static uint64_t step(struct run *run)
{
    uint64_t turn_ns;

    spectrum_rows_forward(&run->spectrum);
    turn_ns = turn(run, 0);
    spectrum_columns(&run->spectrum);
    turn_ns += turn(run, 1);
    spectrum_rows_backward(&run->spectrum);
    return turn_ns;
}

/* At rank 0, the same check as fft2d's. */
static double check(struct run *run)
{
    const struct spectrum *spectrum = &run->spectrum;
    int ranks = (int)spectrum->ranks;
    int *counts = zeroed(spectrum->ranks, sizeof(int));
    int *offsets = zeroed(spectrum->ranks, sizeof(int));
    double complex *whole =
        spectrum->me == 0 ? zeroed(spectrum->n * spectrum->n, sizeof(*whole)) : NULL;
    double difference = 0;

    for (int rank = 0; rank < ranks; rank++) {
        counts[rank] =
            (int)(spectrum_rows(spectrum->n, spectrum->ranks, (uint32_t)rank) * spectrum->n);
        offsets[rank] =
            (int)(spectrum_first(spectrum->n, spectrum->ranks, (uint32_t)rank) * spectrum->n);
    }
    spectrum_reset(&run->spectrum);
    for (int n = 0; n < CHECKED; n++)
        step(run);
    MPI_Gatherv(spectrum->field, counts[spectrum->me], MPI_C_DOUBLE_COMPLEX, whole, counts, offsets,
                MPI_C_DOUBLE_COMPLEX, 0, MPI_COMM_WORLD);
    if (spectrum->me == 0) {
        difference = spectrum_difference(spectrum, whole, CHECKED);
        if (!(difference >= 0 && difference < TOO_FAR)) {
            fprintf(stderr, "fft2d_mpi: differs from a serial FFT by %g\n", difference);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    free(whole);
    free(counts);
    free(offsets);
    return difference;
}

static void measure(struct run *run, uint64_t steps, double difference)
{
    uint64_t *step_ns = zeroed(steps, sizeof(*step_ns));
    uint64_t *turn_ns = zeroed(steps, sizeof(*turn_ns));
    uint64_t median_ns, median_turn_ns, p99_ns;

    for (int n = 0; n < WARM_STEPS; n++)
        step(run);
    for (uint64_t n = 0; n < steps; n++) {
        uint64_t start_ns = now_ns();

        turn_ns[n] = step(run);
        step_ns[n] = now_ns() - start_ns;
    }
    median_and_p99(turn_ns, steps, &median_turn_ns, &p99_ns);
    median_and_p99(step_ns, steps, &median_ns, &p99_ns);
    if (run->spectrum.me == 0)
        printf("{\"size\":%llu,\"ranks\":%u,\"steps\":%llu,\"step_us\":%.3f,\"p99_us\":%.3f,"
               "\"transpose_us\":%.3f,\"difference\":%.3g}\n",
               (unsigned long long)run->spectrum.n, run->spectrum.ranks, (unsigned long long)steps,
               (double)median_ns / 1e3, (double)p99_ns / 1e3, (double)median_turn_ns / 1e3,
               difference);
    free(step_ns);
    free(turn_ns);
}

int main(int argc, char **argv)
{
    struct run run = {0};
    uint64_t n = argc == 4 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t steps = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
    double complex *field, *turned;
    uint64_t bytes;
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (n == 0 || steps == 0) {
        fputs("Usage: fft2d_mpi SIZE STEPS alltoall|persistent\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    run.persistent = strcmp(argv[3], "persistent") == 0;
    bytes = spectrum_rows(n, (uint32_t)ranks, (uint32_t)rank) * n * sizeof(double complex);
    field = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    turned = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!field || !turned ||
        spectrum_init(&run.spectrum, n, (uint32_t)ranks, (uint32_t)rank, field, turned) < 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    prepare(&run);
    measure(&run, steps, check(&run));
    clean_up(&run);
    spectrum_deinit(&run.spectrum);
    free(field);
    free(turned);
    MPI_Finalize();
    return 0;
}
