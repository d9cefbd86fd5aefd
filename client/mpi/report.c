/* TCA_MPI_REPORT=1: what went which way. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "client/mpi/collective.h"
#include "client/mpi/shim.h"

uint64_t counted[COUNTED];

static_assert(COUNTED_PART == COUNTED_COLLECTIVE + (int)COLLECTIVE_KINDS, "one of each kind");

static const char *const labels[COUNTED] = {
    [COUNTED_SHORT] = "sent by tcad, buffered (2032 bytes at most)",
    [COUNTED_LONG] = "sent by tcad, longer",
    [COUNTED_LAYOUT] = "  of these, gaps in memory: by a layout",
    [COUNTED_PACKED] = "  of these, gaps in memory: packed by the MPI",
    [COUNTED_RECEIVED] = "received by tcad",
    [COUNTED_BYTES] = "bytes sent by tcad",
    [COUNTED_FOREIGN] = "to the MPI: communicator with others",
    [COUNTED_NULL] = "to the MPI: MPI_PROC_NULL",
    [COUNTED_ARGUMENTS] = "to the MPI: argument that it has to refuse",
    [COUNTED_COLLECTIVE + COLLECTIVE_BARRIER] = "barriers of tcad",
    [COUNTED_COLLECTIVE + COLLECTIVE_BROADCAST] = "broadcasts of tcad",
    [COUNTED_COLLECTIVE + COLLECTIVE_REDUCE] = "reduce of tcad",
    [COUNTED_COLLECTIVE + COLLECTIVE_ALLREDUCE] = "allreduce of tcad",
    [COUNTED_COLLECTIVE + COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter_block of tcad",
    [COUNTED_COLLECTIVE + COLLECTIVE_ALLGATHER] = "allgather of tcad",
    [COUNTED_COLLECTIVE + COLLECTIVE_ALLTOALL] = "alltoall of tcad",
    [COUNTED_PART] = "collectives to the MPI: some of the ranks",
    [COUNTED_SHAPE] = "collectives to the MPI: operator, datatype, length",
    [COUNTED_SELDOM] = "collectives to the MPI: first of their shape",
};

void report_print(void)
{
    uint64_t sum[COUNTED];

    next.Reduce(counted, sum, COUNTED, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (shim.rank != 0)
        return;
    fprintf(stderr, "tca-mpi: messages of %d ranks\n", shim.size);
    for (int i = 0; i < (shim.collectives ? COUNTED : COUNTED_COLLECTIVE); i++)
        fprintf(stderr, "  %-50s %20" PRIu64 "\n", labels[i], sum[i]);
}
