/* coll_mpi SIZES: the operations of bench.h by the persistent collective operations of MPI 4, or of
 * Open MPI's extension. Rank 0 writes a line of JSON for each. */
#include <errno.h>
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#define INIT(name) MPIX_##name##_init
#else
#define INIT(name) MPI_##name##_init
#endif

#include "tests/bench/collbench/bench.h"

static int start(void *operation)
{
    return -MPI_Start(operation);
}

static int await(void *operation)
{
    return -MPI_Wait(operation, MPI_STATUS_IGNORE);
}

static int together(void)
{
    return -MPI_Barrier(MPI_COMM_WORLD);
}

static int of_rank_0(double *number)
{
    return -MPI_Bcast(number, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

static int check(enum operation operation, const double *out, uint64_t bytes, int size)
{
    for (uint64_t i = 0; i < bytes / 8; i++) {
        double expected = operation == BROADCAST ? value(0, i) : 0;
        for (int rank = 0; operation == ALLREDUCE && rank < size; rank++)
            expected += value((uint32_t)rank, i);
        if (out[i] != expected)
            return -EIO;
    }
    return 0;
}

static int run(enum operation operation, uint64_t bytes)
{
    int rank, size, count = (int)(bytes / 8);
    double *in = malloc(bytes + 8), *out = malloc(bytes + 8);
    struct times times;
    MPI_Request request;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!in || !out)
        return -ENOMEM;
    for (int i = 0; i < count; i++)
        in[i] = out[i] = value((uint32_t)rank, (uint64_t)i);
    together();
    uint64_t start_ns = now_ns();
    if (operation == BARRIER)
        INIT(Barrier)(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else if (operation == BROADCAST)
        INIT(Bcast)(out, count, MPI_DOUBLE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        INIT(Allreduce)
    (in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    times.init_us = (double)(now_ns() - start_ns) / 1e3;
    int r = measure(&request, &times);
    if (r >= 0)
        r = check(operation, out, bytes, size);
    if (r < 0)
        fprintf(stderr, "coll_mpi: %s failed or its result is wrong\n", operation_names[operation]);
    else if (rank == 0)
        print(operation, bytes, &times);
    MPI_Request_free(&request);
    free(in);
    free(out);
    return r;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 2 || for_all(argv[1], run) < 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
