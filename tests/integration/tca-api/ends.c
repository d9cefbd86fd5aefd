/* Without MPI: rank 1 sends and exits at once, without waiting; rank 0 receives all of it, and then
 * an error. */
#include <string.h>

#include "tests/integration/tca-api/expect.h"

enum { BYTES = 3 << 20, TIMES = 3 };

static tcaDesc *chain(const tcaHandle *to, const tcaHandle *from, size_t bytes)
{
    tcaDesc *desc = tcaDescNew();
    expect(tcaDescSetMemcpy(desc, to, 0, from, 0, bytes, tcaDMANotify, 0, 0), TCA_SUCCESS,
           "tcaDescSetMemcpy");
    return desc;
}

int main(void)
{
    unsigned char *memory;
    tcaHandle *list;
    expect(tcaInit(), TCA_SUCCESS, "tcaInit");
    expect(tcaMalloc((void **)&memory, BYTES, tcaMemoryGPU), TCA_SUCCESS, "tcaMalloc");
    tcaHandle own;
    expect(tcaCreateHandle(&own, memory, BYTES, tcaMemoryGPU), TCA_SUCCESS, "tcaCreateHandle");
    memset(memory, 0, BYTES);
    tcaCreateHandleList(&list, 2, (double *)(void *)memory, BYTES);
    if (memcmp(&own, &list[0], sizeof(own)) != 0) { /* rank 1 */
        memset(memory, 0x5a, BYTES);
        expect(tcaDescSet(chain(&list[0], &own, BYTES), 2), TCA_SUCCESS, "tcaDescSet");
        for (int i = 0; i < TIMES; i++)
            expect(tcaStartDMADesc(2), TCA_SUCCESS, "tcaStartDMADesc");
        return 0;
    }
    for (int i = 0; i < TIMES; i++)
        expect(tcaWaitDMARecvDesc(&list[1], 0, 0), TCA_SUCCESS, "tcaWaitDMARecvDesc");
    for (size_t i = 0; i < BYTES; i++)
        expect(memory[i] == 0x5a ? TCA_SUCCESS : 1, TCA_SUCCESS, "a byte");
    expect(tcaWaitDMARecvDesc(&list[1], 0, 0), TCA_ERROR_PEER_LOST, "one that will not come");
    expect(tcaTestDMARecvDesc(&list[1], 0, 0), TCA_ERROR_PEER_LOST,
           "one that will not come, tested");
    expect(tcaDescSet(chain(&list[1], &own, 8), 0), TCA_ERROR_PEER_LOST,
           "a chain to a process that has ended");
    printf("ends: passed\n");
    return 0;
}
