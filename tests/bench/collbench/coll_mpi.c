/* coll_mpi SIZES OPERATIONS here|elsewhere: the operations of bench.h by the persistent collective
 * operations of MPI 4, or of Open MPI's extension. Rank 0 writes a line of JSON for each. */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#define INIT(name) MPIX_##name##_init
#else
#define INIT(name) MPI_##name##_init
#endif

#include "tests/bench/collbench/bench.h"

static void start(void *operation)
{
    MPI_Start(operation);
}

static void await(void *operation)
{
    MPI_Wait(operation, MPI_STATUS_IGNORE);
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

static bool run(enum operation operation, uint64_t bytes)
{
    int rank, size, count = (int)(bytes / 8);
    double *in = malloc(bytes + 8), *out = malloc(bytes + 8);
    struct times times;
    MPI_Request request;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!in || !out)
        return false;
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
    measure(&request, &times);
    bool good = finish(operation, out, bytes, (uint32_t)rank, (uint32_t)size, &times);
    MPI_Request_free(&request);
    free(in);
    free(out);
    return good;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4 || !for_all(argv[1], argv[2], argv[3], run))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
