/*
 * Sends a column of a matrix from each process to the next one: as a chain of 1,024 descriptors,
 * one per element, and as one block-stride descriptor.
 *
 *     tca-cluster mpirun -n 4 -- block-stride
 */
#include "example.h"

enum { N = 1024, ROUNDS = 5 };

static double *matrix;

static double value(int owner, int row, int round)
{
    return owner * 1e6 + row * 100 + round;
}

/* Sends the last column to the next process's first, ROUNDS times. */
static void run(const tcaHandle *handles, tcaDesc *desc, int channel)
{
    const int before = (rank + size - 1) % size;
    TCA_CHECK(tcaDescSet(desc, channel));
    for (int round = 0; round < ROUNDS; round++) {
        for (int row = 0; row < N; row++)
            matrix[row * N + N - 1] = value(rank, row, round);
        TCA_CHECK(tcaStartDMADesc(channel));
        TCA_CHECK(tcaWaitDMARecvDesc(&handles[before], 1, channel));
        for (int row = 0; row < N; row++)
            wrong += matrix[row * N] != value(before, row, round);
        TCA_CHECK(tcaWaitDMAC(channel));
        MPI_Barrier(MPI_COMM_WORLD); /* it was read before it is put to again */
    }
    TCA_CHECK(tcaDescFree(desc));
}

int main(int argc, char **argv)
{
    const size_t row_bytes = N * sizeof(double);
    example_begin(&argc, &argv);
    tcaHandle *handles = example_memory(&matrix, N * row_bytes, tcaMemoryGPU);
    const tcaHandle *to = &handles[(rank + 1) % size], *from = &handles[rank];

    tcaDesc *chain = tcaDescNew();
    for (int row = 0; row < N; row++)
        TCA_CHECK(tcaDescSetMemcpy(chain, to, (off_t)(row * row_bytes), from,
                                   (off_t)(row * row_bytes + row_bytes - sizeof(double)),
                                   sizeof(double), row == N - 1 ? FLAGS : FLAGS & ~tcaDMANotify, 1,
                                   0));
    run(handles, chain, 0);

    tcaDesc *stride = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy2D(stride, to, 0, row_bytes, from,
                                 (off_t)(row_bytes - sizeof(double)), row_bytes, sizeof(double), N,
                                 FLAGS, 1, 1));
    run(handles, stride, 1);
    return example_end("block-stride");
}
