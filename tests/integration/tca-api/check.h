/* Shared by the test programs. As programs of the TCA API do, they define these names
 * themselves. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tca-api.h>

#define TCA_CHECK(call) TCA_EXPECT(call, TCA_SUCCESS)
#define TCA_EXPECT(call, expected)                                                                 \
    do {                                                                                           \
        tcaresult result_ = (call);                                                                \
        if (result_ != (expected))                                                                 \
            die(__FILE__, __LINE__, #call, tcaGetErrorString(result_));                            \
    } while (0)
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            die(__FILE__, __LINE__, #condition, "is not so");                                      \
    } while (0)

static int rank, size;

static void die(const char *file, int line, const char *what, const char *why)
{
    fprintf(stderr, "%s:%d: rank %d: %s: %s\n", file, line, rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static inline void begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    TCA_CHECK(tcaInit());
}

/* All ranks' handles, as raw bytes. */
static inline tcaHandle *gather_handles(void *memory, size_t bytes, int type)
{
    tcaHandle own, *all = (tcaHandle *)malloc(sizeof(tcaHandle) * (size_t)size);
    TCA_CHECK(tcaCreateHandle(&own, memory, bytes, type));
    MPI_Allgather(&own, sizeof(own), MPI_BYTE, all, sizeof(own), MPI_BYTE, MPI_COMM_WORLD);
    return all;
}

static inline void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static inline int end(const char *name)
{
    barrier();
    if (rank == 0)
        printf("%s of %d: passed\n", name, size);
    MPI_Finalize();
    return 0;
}

#endif
