/*
 * churn broadcast|pingpong [ROUNDS]: memory that is allocated for one round and freed as soon as
 * the received data has been read, whether or not the sender knows that it has arrived. No process
 * waits at the end. Checks every value.
 */
#include <stdbool.h>
#include <string.h>

#include "tests/integration/tca-api/expect.h"

enum { FLAGS = tcaDMAUseInternal | tcaDMAUseNotifyInternal | tcaDMANotify };

static int rank, size;

static void check(bool right, const char *what, int round)
{
    if (right)
        return;
    fprintf(stderr, "rank %d, round %d: %s is wrong\n", rank, round, what);
    exit(1);
}

/* Zeroed memory, and the handles of all ranks'. */
static void *memory_new(size_t bytes, tcaHandle **ret_all)
{
    void *memory;
    expect(tcaMalloc(&memory, bytes, tcaMemoryGPU), TCA_SUCCESS, "tcaMalloc");
    memset(memory, 0, bytes);
    tcaCreateHandleList(ret_all, size, memory, bytes);
    return memory;
}

static void memory_free(void *memory, tcaHandle *all)
{
    expect(tcaFree(memory, tcaMemoryGPU), TCA_SUCCESS, "tcaFree");
    free(all);
}

/* ---- down a binomial tree ---- */

static void broadcast(int round)
{
    static const size_t counts[] = {4, 1024, 5000, 60000};
    const size_t count = counts[round % 4], bytes = count * sizeof(int);
    tcaHandle *all;
    int *data = memory_new(bytes, &all), step = 1;
    while (step <= rank)
        step *= 2;
    const int parent = rank - step / 2;
    const bool leaf = rank + step >= size;
    tcaDesc *desc = tcaDescNew();
    for (int child = rank + step; child < size; child = rank + (step *= 2))
        expect(tcaDescSetMemcpy(desc, &all[child], 0, &all[rank], 0, bytes, FLAGS, 0, 0x100),
               TCA_SUCCESS, "tcaDescSetMemcpy");
    if (!leaf)
        expect(tcaDescSet(desc, 0), TCA_SUCCESS, "tcaDescSet");
    if (rank == 0)
        for (size_t i = 0; i < count; i++)
            data[i] = (int)i ^ round << 20;
    else
        expect(tcaWaitDMARecvDesc(&all[parent], 0, 0x100), TCA_SUCCESS, "tcaWaitDMARecvDesc");
    if (!leaf)
        expect(tcaStartDMADesc(0), TCA_SUCCESS, "tcaStartDMADesc");
    for (size_t i = 0; i < count; i++)
        check(data[i] == ((int)i ^ round << 20), "a value", round);
    if (!leaf)
        expect(tcaWaitDMAC(0), TCA_SUCCESS, "tcaWaitDMAC");
    expect(tcaDescFree(desc), TCA_SUCCESS, "tcaDescFree");
    memory_free(data, all);
}

/* ---- columns back and forth, between ranks 2n and 2n + 1 ---- */

enum { N = 256, TURNS = 6 };

static double value(int owner, int row, int turn, int round)
{
    return owner * 1e9 + round * 1e6 + turn * 1e4 + row;
}

/* One descriptor an element, or one for all of them. */
static tcaDesc *column(const tcaHandle *to, const tcaHandle *from, bool stride)
{
    const size_t row_bytes = N * sizeof(double);
    const off_t last = (off_t)(row_bytes - sizeof(double));
    tcaDesc *desc = tcaDescNew();
    if (stride) {
        expect(tcaDescSetMemcpy2D(desc, to, 0, row_bytes, from, last, row_bytes, sizeof(double), N,
                                  FLAGS, 1, 7),
               TCA_SUCCESS, "tcaDescSetMemcpy2D");
        return desc;
    }
    for (int row = 0; row < N; row++) {
        const off_t at = (off_t)(row * row_bytes);
        expect(tcaDescSetMemcpy(desc, to, at, from, at + last, sizeof(double),
                                row == N - 1 ? FLAGS : FLAGS & ~tcaDMANotify, 1, 7),
               TCA_SUCCESS, "tcaDescSetMemcpy");
    }
    return desc;
}

static void send(double *matrix, int turn, int round)
{
    expect(tcaWaitDMAC(1), TCA_SUCCESS, "tcaWaitDMAC");
    for (int row = 0; row < N; row++)
        matrix[row * N + N - 1] = value(rank, row, turn, round);
    expect(tcaStartDMADesc(1), TCA_SUCCESS, "tcaStartDMADesc");
}

static void receive(const double *matrix, const tcaHandle *from, int turn, int round)
{
    expect(tcaWaitDMARecvDesc(from, 1, 7), TCA_SUCCESS, "tcaWaitDMARecvDesc");
    for (int row = 0; row < N; row++)
        check(matrix[row * N] == value(rank ^ 1, row, turn, round), "a row", round);
}

static void pingpong(int round)
{
    tcaHandle *all;
    double *matrix = memory_new(N * N * sizeof(double), &all);
    const tcaHandle *other = &all[rank ^ 1];
    tcaDesc *desc = column(other, &all[rank], round % 2 == 0);
    expect(tcaDescSet(desc, 1), TCA_SUCCESS, "tcaDescSet");
    for (int turn = 0; turn < TURNS; turn++) {
        if (rank % 2 == 0)
            send(matrix, turn, round);
        receive(matrix, other, turn, round);
        if (rank % 2 == 1)
            send(matrix, turn, round);
    }
    expect(tcaWaitDMAC(1), TCA_SUCCESS, "tcaWaitDMAC");
    expect(tcaDescFree(desc), TCA_SUCCESS, "tcaDescFree");
    memory_free(matrix, all);
}

int main(int argc, char **argv)
{
    const bool tree = argc > 1 && strcmp(argv[1], "broadcast") == 0;
    const int rounds = argc > 2 ? atoi(argv[2]) : 10;
    rank = atoi(getenv("TCA_RANK"));
    size = atoi(getenv("TCA_SIZE"));
    expect(tcaInit(), TCA_SUCCESS, "tcaInit");
    for (int round = 1; round <= rounds; round++) {
        if (tree)
            broadcast(round);
        else
            pingpong(round);
    }
    if (rank == 0)
        printf("churn of %d: passed\n", size);
    return 0;
}
