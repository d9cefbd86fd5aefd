/* The older calls: tables of descriptors, chained by tcaDMAContinue. And tcaCreateHandleList(). */
#include "check.h"

enum { CELLS = 64 };
static double *cells;
static tcaHandle *list;
static int next, before;

static void expect_cells(int first, int count, double base)
{
    for (int i = first; i < first + count; i++)
        REQUIRE(cells[CELLS + i] == base + before * 1000 + i);
}

static void fill(double base)
{
    for (int i = 0; i < CELLS; i++) {
        cells[i] = base + rank * 1000 + i;
        cells[CELLS + i] = -1;
    }
    barrier();
}

static void internal(void)
{
    const int flags = tcaDMAUseInternal | tcaDMAUseNotifyInternal;
    int slot = 100, first = slot;
    fill(0);
    TCA_CHECK(tcaDMADescInt_Init());
    for (int i = 0; i < 10; i++)
        TCA_CHECK(tcaSetDMADescInt_Memcpy(slot, &slot, &list[next], (CELLS + i) * 8, &list[rank],
                                          i * 8, 8, flags | tcaDMAContinue, 0, 0));
    TCA_CHECK(tcaSetDMADescInt_Memcpy2D(slot, &slot, &list[next], (CELLS + 10) * 8, 32, &list[rank],
                                        80, 32, 16, 4, flags | tcaDMANotify, 2, 0x100));
    REQUIRE(slot > first);
    /* After the end of the chain. */
    TCA_CHECK(tcaSetDMADescInt_Memcpy(slot, &slot, &list[next], (CELLS + 30) * 8, &list[rank],
                                      30 * 8, 8, flags, 0, 0));
    TCA_CHECK(tcaSetDMAChainInt(0, first));
    for (int i = 0; i < 3; i++) {
        TCA_CHECK(tcaStartDMADesc(0));
        TCA_CHECK(tcaWaitDMARecvDesc(&list[before], 2, 0x100));
    }
    expect_cells(0, 12, 0);
    expect_cells(14, 2, 0);
    REQUIRE(cells[CELLS + 12] == -1 && cells[CELLS + 13] == -1 && cells[CELLS + 30] == -1);
    TCA_CHECK(tcaWaitDMAC(0));
    TCA_EXPECT(tcaSetDMAChainInt(0, 1000), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaSetDMADescInt_Memcpy(1024, &slot, &list[next], 0, &list[rank], 0, 8, 0, 0, 0),
               TCA_ERROR_INVALID_VALUE);
}

static void tables(void)
{
    int tag, other, slot = 0;
    fill(0.5);
    TCA_CHECK(tcaCreateDMADesc(&tag, 1024));
    TCA_CHECK(tcaCreateDMADesc(&other, 1024));
    REQUIRE(tag != other);
    for (int i = 0; i < 1024; i++)
        TCA_CHECK(tcaSetDMADesc_Memcpy(tag, slot, &slot, &list[next], (CELLS + i % 40) * 8,
                                       &list[rank], i % 40 * 8, 8,
                                       i < 1023 ? tcaDMAContinue : tcaDMANotify, 7, 3));
    TCA_EXPECT(tcaSetDMADesc_Memcpy(tag, slot, &slot, &list[next], 0, &list[rank], 0, 8, 0, 0, 0),
               TCA_ERROR_INVALID_VALUE);
    TCA_CHECK(tcaSetDMADesc_Memcpy2D(other, 0, &slot, &list[next], (CELLS + 40) * 8, 16,
                                     &list[rank], 40 * 8, 16, 8, 12, tcaDMANotify, 7, 4));
    TCA_CHECK(tcaSetDMAChain(1, tag));
    TCA_CHECK(tcaSetDMAChain(2, other));
    TCA_CHECK(tcaStartDMADesc(1));
    TCA_CHECK(tcaStartDMADesc(2));
    TCA_CHECK(tcaWaitDMARecvDesc(&list[before], 7, 4));
    TCA_CHECK(tcaWaitDMARecvDesc(&list[before], 7, 3));
    expect_cells(0, 40, 0.5);
    for (int i = 0; i < 12; i++)
        expect_cells(40 + 2 * i, 1, 0.5);
    TCA_CHECK(tcaWaitDMAC(1));
    TCA_CHECK(tcaWaitDMAC(2));
    TCA_CHECK(tcaDestroyDMADesc(tag));
    TCA_EXPECT(tcaSetDMAChain(1, tag), TCA_ERROR_INVALID_VALUE);
    TCA_CHECK(tcaDestroyDMADesc(other));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    next = (rank + 1) % size, before = (rank + size - 1) % size;
    TCA_CHECK(tcaReset());
    TCA_CHECK(tcaMalloc((void **)&cells, 2 * CELLS * sizeof(double), tcaMemoryGPU));
    tcaCreateHandleList(&list, size + 3, cells,
                        2 * CELLS * sizeof(double)); /* more than there are */
    TCA_EXPECT(tcaTestDMARecvDesc(&list[size + 2], 0, 0), TCA_ERROR_INVALID_VALUE);
    internal();
    tables();
    TCA_CHECK(tcaReset());
    TCA_EXPECT(tcaStartDMADesc(1), TCA_ERROR_INVALID_VALUE);
    free(list);
    return end("older");
}
