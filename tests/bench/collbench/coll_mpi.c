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

static double batch(MPI_Request *request, uint64_t count)
{
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t start_ns = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        MPI_Start(request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    return (double)(now_ns() - start_ns) / 1e3 / (double)count;
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
    double us[REPEATS], *in = malloc(bytes + 8), *out = malloc(bytes + 8);
    MPI_Request request;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!in || !out)
        return -ENOMEM;
    for (int i = 0; i < count; i++)
        in[i] = out[i] = value((uint32_t)rank, (uint64_t)i);
    if (operation == BARRIER)
        INIT(Barrier)(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else if (operation == BROADCAST)
        INIT(Bcast)(out, count, MPI_DOUBLE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        INIT(Allreduce)
    (in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    uint64_t times = count_for(batch(&request, WARM));
    MPI_Bcast(&times, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int n = 0; n < REPEATS; n++)
        us[n] = batch(&request, times);
    int r = check(operation, out, bytes, size);
    if (r < 0)
        fprintf(stderr, "coll_mpi: a result is wrong\n");
    else if (rank == 0)
        print(operation, bytes, us);
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
