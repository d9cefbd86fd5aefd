/* Groups of processes that exchange data independently, in orders other than that of the ranks:
 * handles within structs through MPI_Bcast, the same slot and tag in every group, some processes
 * idle. */
#include "check.h"

enum { ROUNDS = 12 };

struct member {
    char name;
    tcaHandle inbox;
    int world;
};

/* Every rank of the group to all others. */
static void exchange(MPI_Comm group)
{
    int own, count, *inbox, *outbox;
    tcaHandle source;
    MPI_Comm_rank(group, &own);
    MPI_Comm_size(group, &count);
    struct member *members = calloc((size_t)count, sizeof(*members));
    TCA_CHECK(tcaMalloc((void **)&inbox, (size_t)count * sizeof(int), tcaMemoryCPU));
    TCA_CHECK(tcaMalloc((void **)&outbox, sizeof(int), tcaMemoryCPU));
    TCA_CHECK(tcaCreateHandle(&source, outbox, sizeof(int), tcaMemoryCPU));
    TCA_CHECK(
        tcaCreateHandle(&members[own].inbox, inbox, (size_t)count * sizeof(int), tcaMemoryCPU));
    members[own].world = rank;
    for (int i = 0; i < count; i++)
        MPI_Bcast(&members[i], sizeof(members[i]), MPI_BYTE, i, group);
    for (int round = 0; round < ROUNDS; round++) {
        tcaDesc *desc = tcaDescNew();
        *outbox = rank * 100 + round;
        for (int i = 0; i < count; i++)
            if (i != own)
                TCA_CHECK(tcaDescSetMemcpy(desc, &members[i].inbox, own * (off_t)sizeof(int),
                                           &source, 0, sizeof(int), tcaDMANotify, 20, 99));
        TCA_CHECK(tcaDescSet(desc, round % 4));
        TCA_CHECK(tcaStartDMADesc(round % 4));
        for (int i = 0; i < count; i++) {
            if (i == own)
                continue;
            TCA_CHECK(tcaWaitDMARecvDesc(&members[i].inbox, 20, 99));
            REQUIRE(inbox[i] == members[i].world * 100 + round);
        }
        TCA_CHECK(tcaWaitDMAC(round % 4));
        TCA_CHECK(tcaDescFree(desc));
        MPI_Barrier(group);
    }
    TCA_CHECK(tcaDestroyHandle(&members[own].inbox));
    TCA_CHECK(tcaFree(inbox, tcaMemoryCPU));
    TCA_CHECK(tcaFree(outbox, tcaMemoryCPU));
    free(members);
}

int main(int argc, char **argv)
{
    MPI_Comm reversed, shuffled, half;
    begin(&argc, &argv);
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
    MPI_Comm_split(MPI_COMM_WORLD, 0, (rank * 5 + 2) % (size + 1), &shuffled);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    exchange(MPI_COMM_WORLD);
    exchange(reversed);
    TCA_CHECK(tcaReset());
    TCA_CHECK(tcaInit());
    exchange(half);
    exchange(shuffled);
    if (rank % 2 == 1)
        exchange(half);
    return end("groups");
}
