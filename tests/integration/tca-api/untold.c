/*
 * untold free|reset|exit: a start of rank 0 fails unobserved, because rank 1 frees its target too
 * early. The next call that would hide the error returns it, once, or it is printed at exit.
 */
#include <string.h>
#include <unistd.h>

#include "tests/integration/tca-api/expect.h"

enum { BYTES = 16 << 20, TIMES = 1000 };

/* Much more than is put before the target is freed. */
static void start_much(const tcaHandle *to, const tcaHandle *from)
{
    tcaDesc *desc = tcaDescNew();
    for (int i = 0; i < TIMES; i++)
        expect(tcaDescSetMemcpy(desc, to, 0, from, 0, BYTES, tcaDMANotify, i, 0), TCA_SUCCESS,
               "tcaDescSetMemcpy");
    expect(tcaDescSet(desc, 0), TCA_SUCCESS, "tcaDescSet");
    expect(tcaStartDMADesc(0), TCA_SUCCESS, "tcaStartDMADesc");
    expect(tcaDescFree(desc), TCA_SUCCESS, "tcaDescFree");
}

static unsigned char *memory_new(void)
{
    void *memory;
    expect(tcaMalloc(&memory, BYTES, tcaMemoryGPU), TCA_SUCCESS, "tcaMalloc");
    memset(memory, 0, BYTES);
    return memory;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    tcaHandle *all;
    expect(tcaInit(), TCA_SUCCESS, "tcaInit");
    unsigned char *memory = memory_new(), *other = memory_new();
    tcaCreateHandleList(&all, 2, (double *)(void *)memory, BYTES);
    if (strcmp(getenv("TCA_RANK"), "1") == 0) {
        while (__atomic_load_n(&memory[0], __ATOMIC_ACQUIRE) == 0)
            usleep(100);
        expect(tcaFree(memory, tcaMemoryGPU), TCA_SUCCESS, "tcaFree of the target");
        /* The end of this process is not the cause of the failure. */
        expect(tcaWaitDMARecvDesc(&all[0], TIMES, 0), TCA_ERROR_PEER_LOST, "the end of rank 0");
        return 0;
    }
    memset(memory, 0x5a, BYTES);
    start_much(&all[1], &all[0]);
    if (strcmp(how, "free") == 0)
        expect(tcaFree(memory, tcaMemoryGPU), TCA_ERROR_INVALID_VALUE, "tcaFree");
    else if (strcmp(how, "reset") == 0)
        expect(tcaReset(), TCA_ERROR_INVALID_VALUE, "tcaReset");
    else if (strcmp(how, "exit") == 0)
        exit(0);
    printf("told: %s\n", tcaGetErrorString(TCA_ERROR_INVALID_VALUE));
    expect(tcaWaitDMAC(0), TCA_SUCCESS, "tcaWaitDMAC after it was told");
    expect(tcaFree(other, tcaMemoryGPU), TCA_SUCCESS, "tcaFree after it was told");
    expect(tcaReset(), TCA_SUCCESS, "tcaReset after it was told");
    printf("untold: passed\n");
    return 0;
}
