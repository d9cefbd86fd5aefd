/* Without MPI, three processes: process 2 exits without notice during the test. Puts into the
 * device memory of the others still arrive, and puts into its own fail. */
#include <tca.h>
#include <unistd.h>

#include "tests/integration/tca-api/expect.h"

enum { BYTES = 300 << 10, TIMES = 30 };

/* To device memory, and a notification. */
static void load(const tcaHandle *to, const tcaHandle *from)
{
    tcaDesc *desc = tcaDescNew();
    expect(tcaDescSetMemcpy(desc, to, 0, from, 0, BYTES, tcaDMANotify, 0, 0), TCA_SUCCESS,
           "tcaDescSetMemcpy");
    expect(tcaDescSet(desc, 0), TCA_SUCCESS, "tcaDescSet");
    tcaDescFree(desc);
}

static void start_often(void)
{
    for (int i = 0; i < TIMES; i++)
        expect(tcaStartDMADesc(0), TCA_SUCCESS, "tcaStartDMADesc");
    expect(tcaWaitDMAC(0), TCA_SUCCESS, "tcaWaitDMAC");
}

static void wait_often(const tcaHandle *from, int times)
{
    for (int i = 0; i < times; i++)
        expect(tcaWaitDMARecvDesc(from, 0, 0), TCA_SUCCESS, "tcaWaitDMARecvDesc");
}

static void start_until_lost(void)
{
    tcaresult result;
    do
        if ((result = tcaStartDMADesc(0)) == TCA_SUCCESS)
            result = tcaWaitDMAC(0);
    while (result == TCA_SUCCESS);
    expect(result, TCA_ERROR_PEER_LOST, "into the memory of who has gone");
}

int main(void)
{
    void *memory;
    tcaHandle *all;
    expect(tcaInit(), TCA_SUCCESS, "tcaInit");
    expect(tcaMalloc(&memory, BYTES, tcaMemoryGPU), TCA_SUCCESS, "tcaMalloc");
    tcaCreateHandleList(&all, 3, memory, BYTES);
    switch (tca_rank(tcaGetSession())) {
    case 0:
        load(&all[1], &all[0]);
        start_often();
        load(&all[2], &all[0]);
        start_until_lost();
        load(&all[1], &all[0]);
        start_often();
        expect(tcaStartDMADesc(0), TCA_SUCCESS, "a last one"); /* until here process 1 stays */
        printf("gone: passed\n");
        break;
    case 1:
        wait_often(&all[2], TIMES);
        wait_often(&all[0], 2 * TIMES + 1);
        break;
    default:
        load(&all[1], &all[2]);
        start_often();
        wait_often(&all[0], 1);
        tcaStartDMADesc(0);
        _exit(0);
    }
    return 0;
}
