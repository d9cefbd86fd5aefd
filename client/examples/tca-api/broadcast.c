/*
 * A broadcast along a binomial tree: a process that has received the data and its notification
 * passes it on to processes without it, each at twice the distance of the one before. The chain of
 * each process is loaded once.
 *
 *     tca-cluster mpirun -n 16 -- broadcast
 */
#include "example.h"

enum { COUNT = 4096, ROUNDS = 10 };

int main(int argc, char **argv)
{
    int *data;
    int step = 1; /* processes that have it when I get it: those before me by less */
    example_begin(&argc, &argv);
    tcaHandle *handles = example_memory(&data, COUNT * sizeof(int), tcaMemoryCPU);
    while (step <= rank)
        step *= 2;
    const int parent = rank - step / 2;

    tcaDesc *desc = tcaDescNew();
    for (int child = rank + step; child < size; child = rank + (step *= 2))
        TCA_CHECK(tcaDescSetMemcpy(desc, &handles[child], 0, &handles[rank], 0, COUNT * sizeof(int),
                                   FLAGS, 0, 0x100));
    TCA_CHECK(tcaDescSet(desc, 0));
    for (int round = 1; round <= ROUNDS; round++) {
        if (rank == 0)
            for (int i = 0; i < COUNT; i++)
                data[i] = i ^ round;
        else
            TCA_CHECK(tcaWaitDMARecvDesc(&handles[parent], 0, 0x100));
        TCA_CHECK(tcaStartDMADesc(0));
        for (int i = 0; i < COUNT; i++)
            wrong += data[i] != (i ^ round);
        TCA_CHECK(tcaWaitDMAC(0));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return example_end("broadcast");
}
