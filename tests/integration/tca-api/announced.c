/* Data by a DMA channel, announced by a CPU store once the sender has seen the put complete, as an
 * active message is: the data is there when the store is. */
#include "check.h"

#include <stddef.h>

enum { ROUNDS = 400, WORDS = 512 };

/* In memory that the process before writes into, except `acknowledged`, which the next one
 * writes. */
struct box {
    long words[WORDS];
    volatile long announced, acknowledged;
};

static struct box *box;
static tcaHandle *boxes;

static void store(tcaPIOHandle *pio, size_t at, long round)
{
    TCA_CHECK(tcaSendPIO(pio, (off_t)at, &round, sizeof(round)));
    TCA_CHECK(tcaSendPIOCommit());
}

static void poll_for(volatile long *word, long round)
{
    while (*word != round)
        _mm_pause();
}

/* To this process itself: notifications that tcaWaitDMARecvDesc() never waits for here. */
static void poll_put(int slot)
{
    tcaresult result;
    while ((result = tcaTestDMARecvDesc(&boxes[rank], slot, -1)) != TCA_SUCCESS)
        TCA_EXPECT(result, TCA_ERROR_NOT_READY);
}

int main(int argc, char **argv)
{
    tcaPIOHandle to_next, to_before;
    tcaHandle source;
    long *words;
    begin(&argc, &argv);
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    TCA_CHECK(tcaMalloc((void **)&box, sizeof(*box), tcaMemoryCPU));
    TCA_CHECK(tcaMalloc((void **)&words, sizeof(box->words), tcaMemoryCPU));
    TCA_CHECK(tcaCreateHandle(&source, words, sizeof(box->words), tcaMemoryCPU));
    boxes = gather_handles(box, sizeof(*box), tcaMemoryCPU);
    TCA_CHECK(tcaSetPIORegion(&to_next, &boxes[next], 0, sizeof(*box)));
    TCA_CHECK(tcaSetPIORegion(&to_before, &boxes[before], 0, sizeof(*box)));
    barrier();
    for (long round = 1; round <= ROUNDS; round++) {
        tcaDesc *desc = tcaDescNew();
        for (int i = 0; i < WORDS; i++)
            words[i] = round * 1000000 + rank * 1000 + i;
        TCA_CHECK(tcaDescSetMemcpy(desc, &boxes[next], 0, &source, 0, sizeof(box->words),
                                   tcaDMANotifySelf, (int)round % 3, -1));
        TCA_CHECK(tcaDescSet(desc, (int)round % 4));
        TCA_CHECK(tcaStartDMADesc((int)round % 4));
        poll_put((int)round % 3);
        store(&to_next, offsetof(struct box, announced), round);
        poll_for(&box->announced, round);
        for (int i = 0; i < WORDS; i++)
            REQUIRE(box->words[i] == round * 1000000 + before * 1000 + i);
        store(&to_before, offsetof(struct box, acknowledged), round);
        poll_for(&box->acknowledged, round);
        TCA_CHECK(tcaDescFree(desc));
    }
    return end("announced");
}
