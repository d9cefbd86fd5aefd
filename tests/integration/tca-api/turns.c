/* One process after another calls tcaInit(), and waits for the others outside the API. */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    TCA_EXPECT(tcaMalloc(&(void *){NULL}, 64, tcaMemoryCPU), TCA_ERROR_NOT_INITIALIZED);
    for (int i = 0; i < size; i++) {
        if (i == rank)
            TCA_CHECK(tcaInit());
        barrier();
    }
    TCA_CHECK(tcaInit());

    int *memory;
    TCA_CHECK(tcaMalloc((void **)&memory, 2 * sizeof(*memory), tcaMemoryCPU));
    memory[0] = rank;
    memory[1] = -1;
    tcaHandle *all = gather_handles(memory, 2 * sizeof(*memory), tcaMemoryCPU);
    barrier();
    tcaDesc *chain = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy(chain, &all[(rank + 1) % size], sizeof(*memory), &all[rank], 0,
                               sizeof(*memory), tcaDMANotify, 0, 0));
    TCA_CHECK(tcaDescSet(chain, 0));
    TCA_CHECK(tcaStartDMADesc(0));
    const int before = (rank + size - 1) % size;
    TCA_CHECK(tcaWaitDMARecvDesc(&all[before], 0, 0));
    REQUIRE(memory[1] == before);
    TCA_CHECK(tcaWaitDMAC(0));
    tcaDescFree(chain);
    free(all);
    return end("turns");
}
