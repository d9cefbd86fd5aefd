/* halo_mpi SIZES [here|elsewhere]: the exchanges of cases.h by persistent requests and derived
 * datatypes. Rank 0 writes a line of JSON for each; with the word, also how much of each passes
 * while the ranks compute. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "tests/bench/overlap.h"

static int rank;
static bool overlaps;

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

static inline void start(void *operation)
{
    MPI_Startall(4, ((struct exchange *)operation)->requests);
}

static inline void await(void *operation)
{
    MPI_Waitall(4, ((struct exchange *)operation)->requests, MPI_STATUSES_IGNORE);
}

static void together(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static double of_rank_0(double number)
{
    MPI_Bcast(&number, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return number;
}

static double measure(struct exchange *e)
{
    together();
    double us = (double)complete_all(e, WARM) / 1e3 / WARM;

    return of_rank_0(median_us(complete_all, e, (uint64_t)of_rank_0((double)count_for(us))));
}

static void run(const struct bench_case *one)
{
    struct exchange e = {.one = one, .array = malloc(case_elements(one) * sizeof(double))};

    if (!e.array)
        MPI_Abort(MPI_COMM_WORLD, 1);
    case_fill(one, e.array, rank * 1e9);
    make(&e, 1 - rank);
    double us = measure(&e);
    double hidden = overlaps ? hidden_part(&e, us) : 0;
    uint64_t wrong = case_wrong(one, e.array, (1 - rank) * 1e9);
    if (wrong) {
        fprintf(stderr, "halo_mpi: rank %d: %llu elements are wrong\n", rank,
                (unsigned long long)wrong);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        case_print(one, "requests", us, overlaps ? &hidden : NULL);
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
    overlaps = argc == 3;
    if (overlaps)
        compute_where(argv[2]);
    if (argc < 2 || argc > 3 || size != 2 || cases_run(argv[1], run) < 0) {
        fprintf(stderr, "Usage: halo_mpi SIZES [here|elsewhere], with two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
