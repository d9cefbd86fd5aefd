/* Common to all examples: initialization, gathering handles, checking and reporting results. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tca-api.h>

/* The flags that programs for the board use. */
#define FLAGS (tcaDMAUseInternal | tcaDMAUseNotifyInternal | tcaDMANotify)

#define TCA_CHECK(call)                                                                            \
    do {                                                                                           \
        tcaresult result_ = (call);                                                                \
        if (result_ != TCA_SUCCESS) {                                                              \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                          \
                    tcaGetErrorString(result_));                                                   \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

static int rank, size;
static long wrong; /* values here */

static inline void example_begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    TCA_CHECK(tcaInit());
}

/* Memory of this process, and the handles of the same of every process, in the order of ranks. */
static inline tcaHandle *example_memory(void *ret_memory, size_t bytes, int type)
{
    tcaHandle own, *all = malloc((size_t)size * sizeof(*all));
    void *memory;
    TCA_CHECK(tcaMalloc(&memory, bytes, type));
    TCA_CHECK(tcaCreateHandle(&own, memory, bytes, type));
    MPI_Allgather(&own, sizeof(own), MPI_BYTE, all, sizeof(own), MPI_BYTE, MPI_COMM_WORLD);
    memset(memory, 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD); /* nobody puts before it is cleared */
    memcpy(ret_memory, &memory, sizeof(memory));
    return all;
}

static inline int example_end(const char *name)
{
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s, %d processes: %s\n", name, size, wrong ? "WRONG" : "correct");
    MPI_Finalize();
    return wrong != 0;
}

#endif
