/* Notifications are counters, keyed by sender, slot and tag: more sent than waited for, before the
 * first wait, in any order, of more keys than the table has places. */
#include <limits.h>

#include "check.h"

static tcaHandle *handles;

/* One start of a chain of notifications alone to rank `to`, `count` tags from `first` on. */
static void notify(int to, int slot, int first, int count, int channel)
{
    tcaDesc *desc = tcaDescNew();
    for (int i = 0; i < count; i++)
        TCA_CHECK(tcaDescSetMemcpy(desc, &handles[to], 0, &handles[rank], 0, 0, tcaDMANotify, slot,
                                   (int)((unsigned)first + (unsigned)i)));
    TCA_CHECK(tcaDescSet(desc, channel));
    TCA_CHECK(tcaStartDMADesc(channel));
    TCA_CHECK(tcaDescFree(desc));
}

static void counts(int next, int before)
{
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(
        tcaDescSetMemcpy(desc, &handles[next], 8, &handles[rank], 0, 8, tcaDMANotify, 5, 0x100));
    TCA_CHECK(tcaDescSet(desc, 1));
    for (int i = 0; i < 7; i++)
        TCA_CHECK(tcaStartDMADesc(1));
    TCA_CHECK(tcaWaitDMAC(1));
    barrier();
    for (int i = 0; i < 5; i++) /* two are left */
        TCA_CHECK(tcaWaitDMARecvDesc(&handles[before], 5, 0x100));
    TCA_EXPECT(tcaTestDMARecvDesc(&handles[before], 5, 0x101), TCA_ERROR_NOT_READY);
    TCA_EXPECT(tcaTestDMARecvDesc(&handles[before], 6, 0x100), TCA_ERROR_NOT_READY);
    TCA_CHECK(tcaTestDMARecvDesc(&handles[before], 5, 0x100));
    TCA_CHECK(tcaDescFree(desc));
}

static void keys(int next, int before)
{
    static const int tags[] = {0, -1, INT_MIN, INT_MAX, 0x100, 0x12345678};
    enum { TAGS = sizeof(tags) / sizeof(tags[0]) };
    for (int slot = 0; slot < 64; slot++)
        notify(next, slot, slot, 1, slot % 4);
    for (int i = 0; i < TAGS; i++)
        notify(next, 9, tags[i], 1, i % 4);
    for (int i = TAGS - 1; i >= 0; i--)
        TCA_CHECK(tcaWaitDMARecvDesc(&handles[before], 9, tags[i]));
    for (int slot = 63; slot >= 0; slot--)
        TCA_CHECK(tcaWaitDMARecvDesc(&handles[before], slot, slot));
}

/* All bits of a tag count: tags that have some in common are different. The last wait's
 * notification comes after the first. */
static void whole_tags(int next, int before)
{
    static const int others[] = {0, 0x101, 0x100 | INT_MIN, 0x10100, 0x1000100};
    notify(next, 10, 0x100, 1, 0);
    notify(next, 11, 0, 1, 0);
    TCA_CHECK(tcaWaitDMARecvDesc(&handles[before], 11, 0));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        TCA_EXPECT(tcaTestDMARecvDesc(&handles[before], 10, others[i]), TCA_ERROR_NOT_READY);
    TCA_CHECK(tcaTestDMARecvDesc(&handles[before], 10, 0x100));
}

/* The same key from different channels is one counter; from different senders, several. */
static void senders(void)
{
    for (int to = 0; to < size; to++)
        for (int i = 0; i <= rank && to != rank; i++)
            notify(to, 1, 77, 1, i % 4);
    for (int from = size - 1; from >= 0; from--)
        for (int i = 0; i <= from && from != rank; i++)
            TCA_CHECK(tcaWaitDMARecvDesc(&handles[from], 1, 77));
    barrier();
    for (int from = 0; from < size; from++)
        if (from != rank)
            TCA_EXPECT(tcaTestDMARecvDesc(&handles[from], 1, 77), TCA_ERROR_NOT_READY);
}

/* Of two starts with the same notification, in different channels, the first one is counted first:
 * its data is there, however long it is. */
static void first_first(int to, int from)
{
    enum { BYTES = 4 << 20, INTS = BYTES / sizeof(int) };
    int *source, *target;
    TCA_CHECK(tcaMalloc((void **)&source, BYTES, tcaMemoryCPU));
    TCA_CHECK(tcaMalloc((void **)&target, BYTES + sizeof(int), tcaMemoryCPU));
    for (int i = 0; i < INTS; i++)
        source[i] = i + rank;
    tcaHandle own, *there = gather_handles(target, BYTES + sizeof(int), tcaMemoryCPU);
    TCA_CHECK(tcaCreateHandle(&own, source, BYTES, tcaMemoryCPU));
    for (int much = 0; much < 4; much++) {
        const int little = (much + 1) % 4;
        memset(target, 0xff, BYTES + sizeof(int));
        barrier();
        tcaDesc *descs[] = {tcaDescNew(), tcaDescNew()};
        TCA_CHECK(tcaDescSetMemcpy(descs[0], &there[to], 0, &own, 0, BYTES, tcaDMANotify, 12, 5));
        TCA_CHECK(tcaDescSetMemcpy(descs[1], &there[to], BYTES, &own, 4, 4, tcaDMANotify, 12, 5));
        TCA_CHECK(tcaDescSet(descs[0], much));
        TCA_CHECK(tcaDescSet(descs[1], little));
        TCA_CHECK(tcaStartDMADesc(much));
        TCA_CHECK(tcaStartDMADesc(little));
        TCA_CHECK(tcaWaitDMARecvDesc(&there[from], 12, 5));
        for (int i = 0; i < INTS; i++)
            REQUIRE(target[i] == i + from);
        TCA_CHECK(tcaWaitDMARecvDesc(&there[from], 12, 5));
        REQUIRE(target[INTS] == 1 + from);
        TCA_CHECK(tcaWaitDMAC(much));
        TCA_CHECK(tcaWaitDMAC(little));
        TCA_CHECK(tcaDescFree(descs[0]));
        TCA_CHECK(tcaDescFree(descs[1]));
        barrier();
    }
    free(there);
    TCA_CHECK(tcaFree(source, tcaMemoryCPU));
    TCA_CHECK(tcaFree(target, tcaMemoryCPU));
}

/* Tags that are never reused, such as an iteration's number; of two processes more than the table
 * has places (16,384). One of them waits all the time. */
static void many_tags(int next, int before)
{
    enum { BATCH = 900 };
    const int rounds = size == 2 ? 20 : 7;
    notify(next, 2, -1, 1, 0);
    for (int round = 0; round < rounds; round++) {
        notify(next, 2, round * BATCH, BATCH, round % 4);
        for (int i = 0; i < BATCH; i++)
            TCA_CHECK(tcaWaitDMARecvDesc(&handles[before], 2, round * BATCH + (i * 7) % BATCH));
    }
    TCA_CHECK(tcaTestDMARecvDesc(&handles[before], 2, -1));
}

static void to_self(void)
{
    long *memory;
    TCA_CHECK(tcaMalloc((void **)&memory, 4096, tcaMemoryCPU));
    tcaHandle own;
    TCA_CHECK(tcaCreateHandle(&own, memory, 4096, tcaMemoryCPU));
    tcaDesc *desc = tcaDescNew();
    memory[0] = 4711;
    TCA_CHECK(
        tcaDescSetMemcpy(desc, &own, 1024, &own, 0, 8, tcaDMANotify | tcaDMANotifySelf, 3, -5));
    TCA_CHECK(tcaDescSetMemcpy(desc, &own, 2048, &own, 0, 8, tcaDMANotifySelf, 4, -5));
    TCA_CHECK(tcaDescSet(desc, 3));
    TCA_CHECK(tcaStartDMADesc(3));
    TCA_CHECK(tcaWaitDMARecvDesc(&own, 3, -5));
    REQUIRE(memory[128] == 4711);
    TCA_CHECK(tcaWaitDMARecvDesc(&own, 3, -5));
    TCA_CHECK(tcaTestDMARecvDesc(&own, 4, -5));
    TCA_EXPECT(tcaTestDMARecvDesc(&own, 4, -5), TCA_ERROR_NOT_READY);
    TCA_EXPECT(tcaWaitDMARecvDesc(&own, 4, -5), TCA_ERROR_INVALID_VALUE); /* it would be for ever */
    TCA_CHECK(tcaFree(memory, tcaMemoryCPU));
    TCA_EXPECT(tcaStartDMADesc(3), TCA_ERROR_INVALID_VALUE);
    TCA_CHECK(tcaDescFree(desc));
}

/* tcaReset() empties the channels, and leaves what has arrived. */
static void reset(void)
{
    notify(rank, 12, 5, 1, 0);
    TCA_CHECK(tcaReset());
    TCA_EXPECT(tcaStartDMADesc(0), TCA_ERROR_INVALID_VALUE);
    TCA_CHECK(tcaTestDMARecvDesc(&handles[rank], 12, 5));
    TCA_EXPECT(tcaTestDMARecvDesc(&handles[rank], 12, 5), TCA_ERROR_NOT_READY);
}

int main(int argc, char **argv)
{
    char *memory;
    begin(&argc, &argv);
    TCA_CHECK(tcaMalloc((void **)&memory, 64, tcaMemoryGPU));
    handles = gather_handles(memory, 64, tcaMemoryGPU);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    counts(next, before);
    keys(next, before);
    whole_tags(next, before);
    senders();
    first_first(next, before);
    first_first(rank, rank);
    many_tags(next, before);
    to_self();
    reset();
    free(handles);
    return end("notify");
}
