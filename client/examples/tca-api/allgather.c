/*
 * A ring allgather: in each step every process passes on the block that it received in the step
 * before. Each step has its own chain. Two channels alternate, so that the next chain is loaded
 * while one runs.
 *
 *     tca-cluster mpirun -n 8 -- allgather
 */
#include "example.h"

enum { COUNT = 10000, ROUNDS = 3 };
static const size_t BLOCK = COUNT * sizeof(double);

static void pass_on(const tcaHandle *handles, int step)
{
    const int block = (rank - step + size) % size, channel = step % 2;
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy(desc, &handles[(rank + 1) % size], (off_t)(block * BLOCK),
                               &handles[rank], (off_t)(block * BLOCK), BLOCK, FLAGS, step, 0));
    TCA_CHECK(tcaDescSet(desc, channel));
    TCA_CHECK(tcaStartDMADesc(channel));
    TCA_CHECK(tcaDescFree(desc)); /* the channel keeps what it has */
}

int main(int argc, char **argv)
{
    double *all;
    example_begin(&argc, &argv);
    tcaHandle *handles = example_memory(&all, (size_t)size * BLOCK, tcaMemoryGPU);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            all[rank * COUNT + i] = rank + i * 1e-6 + round;
        for (int step = 0; step < size - 1; step++) {
            pass_on(handles, step);
            TCA_CHECK(tcaWaitDMARecvDesc(&handles[(rank + size - 1) % size], step, 0));
        }
        for (int i = 0; i < size * COUNT; i++)
            wrong += all[i] != i / COUNT + i % COUNT * 1e-6 + round;
        TCA_CHECK(tcaWaitDMAC(0));
        TCA_CHECK(tcaWaitDMAC(1));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return example_end("allgather");
}
