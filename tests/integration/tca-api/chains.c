/* Chains and channels: long ones, changed ones, channels started while busy, sizes and offsets of
 * every kind, pitches, memory freed meanwhile. */
#include "check.h"

enum { SLICE = 1 << 20 };

static unsigned char *out, *in;
static tcaHandle *outs, *ins;
static int next, before;

static unsigned char value(int of, size_t at, int round)
{
    return (unsigned char)((at * 2654435761u >> 7) + (size_t)of * 31 + (size_t)round * 7);
}

static void fill(int round)
{
    for (size_t i = 0; i < SLICE; i++)
        out[i] = value(rank, i, round);
    memset(in, 0, SLICE);
    barrier();
}

static void expect_bytes(size_t at, size_t from, size_t bytes, int round)
{
    for (size_t i = 0; i < bytes; i++)
        REQUIRE(in[at + i] == value(before, from + i, round));
}

/* Many descriptors of odd sizes at odd offsets, one notification at the end; no byte between them
 * is written. */
static void long_chain(int count)
{
    tcaDesc *desc = tcaDescNew();
    size_t at = 3, from = 1;
    fill(count);
    for (int i = 0; i < count; i++) {
        size_t bytes = (size_t)i % 61;
        TCA_CHECK(tcaDescSetMemcpy(desc, &ins[next], (off_t)at, &outs[rank], (off_t)from, bytes,
                                   i == count - 1 ? tcaDMANotify | tcaDMAPipeline : tcaDMAContinue,
                                   0, count));
        at += bytes + 1;
        from += bytes + 2;
    }
    TCA_CHECK(tcaDescSet(desc, 0));
    TCA_CHECK(tcaStartDMADesc(0));
    TCA_CHECK(tcaDescFree(desc)); /* what is loaded stays */
    TCA_CHECK(tcaWaitDMARecvDesc(&ins[before], 0, count));
    at = 3, from = 1;
    for (int i = 0; i < count; i++) {
        size_t bytes = (size_t)i % 61;
        expect_bytes(at, from, bytes, count);
        REQUIRE(in[at + bytes] == 0);
        at += bytes + 1;
        from += bytes + 2;
    }
    TCA_CHECK(tcaWaitDMAC(0));
}

/* Without a notification: data of a channel is there when the channel is idle. */
static void without_notification(void)
{
    tcaDesc *desc = tcaDescNew();
    fill(1);
    TCA_CHECK(tcaDescSetMemcpy2D(desc, &ins[next], 5, 4096, &outs[rank], 7, 2048, 1001, 200,
                                 tcaDMAUseInternal, 0, 0));
    TCA_CHECK(tcaDescSet(desc, 2));
    TCA_CHECK(tcaWaitDMAC(2));
    TCA_CHECK(tcaStartDMADesc(2));
    TCA_CHECK(tcaWaitDMAC(2));
    barrier();
    for (size_t row = 0; row < 200; row++)
        expect_bytes(5 + row * 4096, 7 + row * 2048, 1001, 1);
    TCA_CHECK(tcaDescFree(desc));
}

/* Loaded, changed, loaded again; the channel has the chain as it was when loaded. */
static void changed(void)
{
    tcaDesc *desc = tcaDescNew();
    fill(2);
    TCA_CHECK(tcaDescSet(desc, 1)); /* empty */
    TCA_CHECK(tcaStartDMADesc(1));
    TCA_CHECK(tcaDescSetMemcpy(desc, &ins[next], 0, &outs[rank], 0, 100, tcaDMANotify, 1, 1));
    TCA_CHECK(tcaDescSet(desc, 1));
    TCA_CHECK(tcaDescSetMemcpy(desc, &ins[next], 200, &outs[rank], 200, 100, tcaDMANotify, 1, 2));
    TCA_CHECK(tcaStartDMADesc(1));
    TCA_CHECK(tcaWaitDMARecvDesc(&ins[before], 1, 1));
    TCA_CHECK(tcaWaitDMAC(1));
    barrier();
    TCA_EXPECT(tcaTestDMARecvDesc(&ins[before], 1, 2), TCA_ERROR_NOT_READY);
    REQUIRE(in[200] == 0 && in[299] == 0);
    barrier();
    TCA_CHECK(tcaDescSet(desc, 1));
    TCA_CHECK(tcaDescSet(desc, 1));
    TCA_CHECK(tcaStartDMADesc(1));
    TCA_CHECK(tcaWaitDMARecvDesc(&ins[before], 1, 2));
    TCA_CHECK(tcaWaitDMARecvDesc(&ins[before], 1, 1));
    expect_bytes(0, 0, 100, 2);
    expect_bytes(200, 200, 100, 2);
    TCA_CHECK(tcaWaitDMAC(1));
    TCA_CHECK(tcaDescFree(desc));
}

/* Started again and again without waiting: the starts run one after the other, and each notifies.
 * Two channels at the same time. */
static void busy(void)
{
    enum { STARTS = 25 };
    tcaDesc *desc[2];
    fill(3);
    for (int i = 0; i < 2; i++) {
        desc[i] = tcaDescNew();
        TCA_CHECK(tcaDescSetMemcpy(desc[i], &ins[next], i * SLICE / 2, &outs[rank], i * SLICE / 2,
                                   SLICE / 2, tcaDMANotify | tcaDMANotifySelf, 20 + i, 9));
        TCA_CHECK(tcaDescSet(desc[i], i));
    }
    for (int i = 0; i < 2 * STARTS; i++)
        TCA_CHECK(tcaStartDMADesc(i % 2));
    for (int i = 0; i < 2 * STARTS; i++) {
        TCA_CHECK(tcaWaitDMARecvDesc(&outs[before], 20 + i % 2, 9));
        TCA_CHECK(tcaWaitDMARecvDesc(&outs[rank], 20 + i % 2, 9));
    }
    expect_bytes(0, 0, SLICE, 3);
    TCA_CHECK(tcaWaitDMAC(0));
    TCA_CHECK(tcaWaitDMAC(1));
    for (int i = 0; i < 2; i++)
        TCA_CHECK(tcaDescFree(desc[i]));
}

/* Tall, and far apart. Most chains are never freed. */
static void tall(size_t rows, size_t pitch)
{
    enum { WIDTH = 24 };
    unsigned char *column, *sheet;
    TCA_CHECK(tcaMalloc((void **)&column, rows * WIDTH, tcaMemoryCPU));
    TCA_CHECK(tcaMalloc((void **)&sheet, (rows - 1) * pitch + WIDTH, tcaMemoryGPU));
    tcaHandle *columns = gather_handles(column, rows * WIDTH, tcaMemoryCPU);
    tcaHandle *sheets = gather_handles(sheet, (rows - 1) * pitch + WIDTH, tcaMemoryGPU);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < WIDTH; j++)
            sheet[i * pitch + j] = value(rank, i * WIDTH + j, 4);
    barrier();
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy2D(desc, &columns[next], 0, WIDTH, &sheets[rank], 0, pitch, WIDTH,
                                 rows, tcaDMANotify | tcaDMANotifySelf, 0, 5));
    TCA_CHECK(tcaDescSet(desc, 3));
    TCA_CHECK(tcaStartDMADesc(3));
    TCA_CHECK(tcaWaitDMARecvDesc(&sheets[before], 0, 5));
    for (size_t i = 0; i < rows * WIDTH; i++)
        REQUIRE(column[i] == value(before, i, 4));
    TCA_CHECK(tcaWaitDMAC(3));
    TCA_CHECK(tcaTestDMARecvDesc(&columns[rank], 0, 5));
    barrier();
    TCA_EXPECT(tcaTestDMARecvDesc(&columns[rank], 0, 5), TCA_ERROR_NOT_READY); /* not one a row */
    if (size > 1)
        TCA_EXPECT(tcaTestDMARecvDesc(&columns[before], 0, 5), TCA_ERROR_NOT_READY);
    TCA_CHECK(tcaFree(sheet, tcaMemoryGPU)); /* a channel still has it */
    TCA_EXPECT(tcaStartDMADesc(3), TCA_ERROR_INVALID_VALUE);
}

/* Small descriptors that overlap, forwards, backwards and in two allocations: the result is that of
 * running them in order. */
static void over_each_other(void)
{
    enum { PIECES = 60, PIECE = 40, STEP = 24 };
    tcaDesc *desc = tcaDescNew();
    fill(5);
    for (int i = 0; i < PIECES; i++) {
        int back = PIECES - 1 - i;
        TCA_CHECK(
            tcaDescSetMemcpy(desc, &ins[next], i * STEP, &outs[rank], i * 64, PIECE, 0, 0, 0));
        TCA_CHECK(tcaDescSetMemcpy2D(desc, &ins[next], 8192 + back * 64, 32, &outs[rank], i * 64,
                                     16, 16, 2, 0, 0, 0));
        TCA_CHECK(tcaDescSetMemcpy(desc, &ins[next], 16384 + i * 12,
                                   i % 2 ? &outs[rank] : &ins[rank], 32768 + i * 8, 12, 0, 0, 0));
    }
    TCA_CHECK(tcaDescSetMemcpy(desc, &ins[next], 1 << 16, &outs[rank], 0, 4, tcaDMANotify, 2, 2));
    memset(in + 32768, 1, PIECES * 8 + 12);
    TCA_CHECK(tcaDescSet(desc, 0));
    TCA_CHECK(tcaStartDMADesc(0));
    TCA_CHECK(tcaWaitDMARecvDesc(&ins[before], 2, 2));
    for (int i = 0; i < PIECES; i++) {
        expect_bytes((size_t)i * STEP, (size_t)i * 64, i < PIECES - 1 ? STEP : PIECE, 5);
        size_t back = (size_t)(PIECES - 1 - i);
        expect_bytes(8192 + back * 64, (size_t)i * 64, 16, 5);
        expect_bytes(8192 + back * 64 + 32, (size_t)i * 64 + 16, 16, 5);
        for (size_t j = 0; j < 12; j++)
            REQUIRE(in[16384 + (size_t)i * 12 + j] ==
                    (i % 2 ? value(before, 32768 + (size_t)i * 8 + j, 5) : 1));
    }
    TCA_CHECK(tcaWaitDMAC(0));
    barrier();
}

/* No notification but a word in other memory, which the receiver polls; and a local one, after
 * which the source is free. */
static void marks(void)
{
    enum { ROWS = 512, PITCH = 2048, ROUNDS = 20 };
    long *words;
    TCA_CHECK(tcaMalloc((void **)&words, 3 * sizeof(long), tcaMemoryCPU));
    tcaHandle *all = gather_handles(words, 3 * sizeof(long), tcaMemoryCPU);
    volatile long *mark = words + 1, *sent = words + 2;
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy2D(desc, &ins[next], 0, PITCH, &outs[rank], 0, PITCH, 8, ROWS,
                                 tcaDMAUseInternal, 0, 0));
    TCA_CHECK(tcaDescSetMemcpy(desc, &all[next], 8, &all[rank], 0, 8, tcaDMAUseInternal, 0, 0));
    TCA_CHECK(tcaDescSetMemcpy(desc, &all[rank], 16, &all[rank], 0, 8, tcaDMAUseInternal, 0, 0));
    TCA_CHECK(tcaDescSet(desc, 0));
    words[1] = words[2] = 0;
    for (long round = 1; round <= ROUNDS; round++) {
        fill((int)round);
        words[0] = round;
        TCA_CHECK(tcaStartDMADesc(0));
        while (*sent != round)
            _mm_pause();
        memset(out, 0, SLICE);
        while (*mark != round)
            _mm_pause();
        for (size_t i = ROWS; i-- > 0;)
            expect_bytes(i * PITCH, i * PITCH, 8, (int)round);
        TCA_CHECK(tcaWaitDMAC(0));
        barrier();
    }
}

/* A new chain for every step, never freed. */
static void anew(void)
{
    fill(6);
    for (int i = 0; i < 300; i++) {
        tcaDesc *desc = tcaDescNew();
        TCA_CHECK(tcaDescSetMemcpy(desc, &ins[next], i % 3 * 64, &outs[rank], i % 3 * 64, 64,
                                   tcaDMANotify, 3, i % 3));
        TCA_CHECK(tcaDescSet(desc, i % 2));
        TCA_CHECK(tcaStartDMADesc(i % 2));
        TCA_CHECK(tcaWaitDMARecvDesc(&ins[before], 3, i % 3));
        expect_bytes((size_t)(i % 3) * 64, (size_t)(i % 3) * 64, 64, 6);
    }
    TCA_CHECK(tcaWaitDMAC(0));
    TCA_CHECK(tcaWaitDMAC(1));
    TCA_EXPECT(tcaTestDMARecvDesc(&ins[before], 3, 0), TCA_ERROR_NOT_READY);
}

static void nothing(void)
{
    void *none;
    tcaHandle handle;
    TCA_CHECK(tcaMalloc(&none, 0, tcaMemoryGPU));
    TCA_CHECK(tcaCreateHandle(&handle, none, 0, tcaMemoryGPU));
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy(desc, &ins[next], 0, &handle, 0, 0, tcaDMANotify, 0, 6));
    TCA_CHECK(tcaDescSetMemcpy2D(desc, &ins[next], 0, 0, &handle, 0, 0, 0, 0, tcaDMANotify, 0, 6));
    TCA_CHECK(tcaDescSet(desc, 0));
    TCA_CHECK(tcaStartDMADesc(0));
    TCA_CHECK(tcaWaitDMARecvDesc(&ins[before], 0, 6));
    TCA_CHECK(tcaWaitDMARecvDesc(&ins[before], 0, 6));
    TCA_CHECK(tcaFree(none, tcaMemoryGPU));
    TCA_CHECK(tcaFree(NULL, tcaMemoryGPU));
    TCA_CHECK(tcaDescFree(desc));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int channel = 0; channel < 4; channel++)
        TCA_CHECK(tcaWaitDMAC(channel)); /* never started */
    TCA_CHECK(tcaMalloc((void **)&out, SLICE, tcaMemoryGPU));
    TCA_CHECK(tcaMalloc((void **)&in, SLICE, tcaMemoryGPU));
    outs = gather_handles(out, SLICE, tcaMemoryGPU);
    ins = gather_handles(in, SLICE, tcaMemoryGPU);
    long_chain(1);
    long_chain(40);
    long_chain(3000);
    without_notification();
    changed();
    busy();
    over_each_other();
    marks();
    anew();
    nothing();
    tall(512, 16 << 10);
    tall(10, 2 << 20);
    return end("chains");
}
