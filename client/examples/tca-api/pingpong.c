/*
 * Pairs of processes put a message to each other in turns, GPU to GPU. The sender of each turn
 * changes it, the receiver checks it. A process without a partner is idle.
 *
 *     tca-cluster mpirun -n 2 -- pingpong
 */
#include "example.h"

enum { BYTES_MAX = 1 << 20, TURNS = 200 };

int main(int argc, char **argv)
{
    unsigned char *memory;
    example_begin(&argc, &argv);
    tcaHandle *handles = example_memory(&memory, BYTES_MAX, tcaMemoryGPU);
    if (size < 2) {
        fprintf(stderr, "pingpong: two processes or more, not one\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const int peer = rank ^ 1;
    for (size_t bytes = 8; bytes <= BYTES_MAX && peer < size; bytes *= 8) {
        tcaDesc *desc = tcaDescNew();
        TCA_CHECK(tcaDescSetMemcpy(desc, &handles[peer], 0, &handles[rank], 0, bytes, FLAGS, 0, 0));
        TCA_CHECK(tcaDescSet(desc, 0));
        double start = MPI_Wtime();
        for (int turn = 0; turn < TURNS; turn++) {
            if (turn % 2 == rank % 2) {
                memory[0] = memory[bytes - 1] = (unsigned char)turn;
                TCA_CHECK(tcaStartDMADesc(0));
                TCA_CHECK(tcaWaitDMAC(0));
            } else {
                TCA_CHECK(tcaWaitDMARecvDesc(&handles[peer], 0, 0));
                wrong +=
                    memory[0] != (unsigned char)turn || memory[bytes - 1] != (unsigned char)turn;
            }
        }
        if (rank == 0)
            printf("%8zu bytes: %9.1f us one way\n", bytes, (MPI_Wtime() - start) / TURNS * 1e6);
        TCA_CHECK(tcaDescFree(desc));
    }
    return example_end("pingpong");
}
