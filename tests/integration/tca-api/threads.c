/* One thread waits, one polls, like that of QUDA on TCA, while the main thread makes, starts and
 * frees chains. */
#include "check.h"

#include <pthread.h>

enum { ROUNDS = 150, BYTES = 1 << 14 };

static unsigned char *memory;
static tcaHandle *handles;
static int next, before;
static int polled;

static void *wait_for_all(void *unused)
{
    for (int i = 0; i < ROUNDS; i++)
        TCA_CHECK(tcaWaitDMARecvDesc(&handles[before], 0, 1));
    return unused;
}

static void *poll_for_all(void *unused)
{
    while (__atomic_load_n(&polled, __ATOMIC_SEQ_CST) < ROUNDS)
        if (tcaTestDMARecvDesc(&handles[before], 1, 1) == TCA_SUCCESS)
            __atomic_add_fetch(&polled, 1, __ATOMIC_SEQ_CST);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t waiter, poller;
    begin(&argc, &argv);
    next = (rank + 1) % size, before = (rank + size - 1) % size;
    TCA_CHECK(tcaMalloc((void **)&memory, 2 * BYTES, tcaMemoryGPU));
    memset(memory, rank + 1, BYTES);
    handles = gather_handles(memory, 2 * BYTES, tcaMemoryGPU);
    barrier();
    REQUIRE(pthread_create(&waiter, NULL, wait_for_all, NULL) == 0);
    REQUIRE(pthread_create(&poller, NULL, poll_for_all, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        tcaDesc *desc = tcaDescNew();
        for (int slot = 0; slot < 2; slot++)
            TCA_CHECK(tcaDescSetMemcpy(desc, &handles[next], BYTES + slot * BYTES / 2,
                                       &handles[rank], 0, BYTES / 2, tcaDMANotify, slot, 1));
        TCA_CHECK(tcaDescSet(desc, i % 4));
        TCA_CHECK(tcaStartDMADesc(i % 4));
        TCA_CHECK(tcaDescFree(desc));
    }
    pthread_join(waiter, NULL);
    pthread_join(poller, NULL);
    for (int i = 0; i < BYTES; i++)
        REQUIRE(memory[BYTES + i] == before + 1);
    for (int channel = 0; channel < 4; channel++)
        TCA_CHECK(tcaWaitDMAC(channel));
    return end("threads");
}
