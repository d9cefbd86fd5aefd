/* halo_mpi SIZES: the exchanges of cases.h by persistent requests and derived datatypes. Rank 0 writes a line of JSON for each. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "tools/tca-bench/work.h"

static int rank;

struct exchange {
    const struct bench_case *one;
    double *array;
    MPI_Datatype sides[4]; /* sent low, sent high, kept low, kept high */
    MPI_Request requests[4];
};

/* The part of the array at one index across. */
static MPI_Datatype slice(const struct bench_case *one, int index)
{
    int full[DIMENSIONS_MAX], sizes[DIMENSIONS_MAX], starts[DIMENSIONS_MAX];
    MPI_Datatype type;

    for (int d = 0; d < one->dimensions; d++) {
        full[d] = sizes[d] = (int)case_full(one, d);
        starts[d] = 0;
    }
    sizes[one->across] = 1;
    starts[one->across] = index;
    MPI_Type_create_subarray(one->dimensions, full, sizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

/* Data sent up carries tag 1, data sent down tag 0. */
static void make(struct exchange *e, int peer)
{
    static const int at[4] = {1, WIDTH_ACROSS, 0, WIDTH_ACROSS + 1};

    for (int i = 0; i < 4; i++)
        e->sides[i] = slice(e->one, at[i]);
    MPI_Recv_init(e->array, 1, e->sides[2], peer, 1, MPI_COMM_WORLD, &e->requests[0]);
    MPI_Recv_init(e->array, 1, e->sides[3], peer, 0, MPI_COMM_WORLD, &e->requests[1]);
    MPI_Send_init(e->array, 1, e->sides[0], peer, 0, MPI_COMM_WORLD, &e->requests[2]);
    MPI_Send_init(e->array, 1, e->sides[1], peer, 1, MPI_COMM_WORLD, &e->requests[3]);
}

static double batch(struct exchange *e, uint64_t count)
{
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t start_ns = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        MPI_Startall(4, e->requests);
        MPI_Waitall(4, e->requests, MPI_STATUSES_IGNORE);
    }
    return (double)(now_ns() - start_ns) / 1e3 / (double)count;
}

static double measure(struct exchange *e)
{
    uint64_t count = count_for(batch(e, WARM));
    double us[REPEATS];

    MPI_Bcast(&count, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int n = 0; n < REPEATS; n++)
        us[n] = batch(e, count);
    return median_of_doubles(us, REPEATS);
}

static void run(const struct bench_case *one)
{
    struct exchange e = {.one = one, .array = malloc(case_elements(one) * sizeof(double))};

    if (!e.array)
        MPI_Abort(MPI_COMM_WORLD, 1);
    case_fill(one, e.array, rank * 1e9);
    make(&e, 1 - rank);
    double us = measure(&e);
    uint64_t wrong = case_wrong(one, e.array, (1 - rank) * 1e9);
    if (wrong) {
        fprintf(stderr, "halo_mpi: rank %d: %llu elements are wrong\n", rank,
                (unsigned long long)wrong);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        case_print(one, "requests", us);
    for (int i = 0; i < 4; i++) {
        MPI_Request_free(&e.requests[i]);
        MPI_Type_free(&e.sides[i]);
    }
    free(e.array);
}

int main(int argc, char **argv)
{
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 2 || size != 2 || cases_run(argv[1], run) < 0) {
        fprintf(stderr, "Usage: halo_mpi SIZES, with two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
