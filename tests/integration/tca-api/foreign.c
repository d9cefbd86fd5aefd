/* Memory that is not from tcaMalloc(): heap, stack, globals, at both ends, by descriptors and
 * stores; handles that overlap, are made twice, or outlive their memory. */
#include <sys/mman.h>

#include "check.h"

enum { BYTES = 256 * 1024, ROUNDS = 8, PITCH = 1024, WIDTH = 200, HEIGHT = 100, MANY = 300 };

/* MPI has threads of its own, so pages with initialized data cannot be shared. */
static char global[BYTES] __attribute__((aligned(4096)));
static int next, previous;

static char byte_of(int who, int round, int i)
{
    return (char)(who * 31 + round * 7 + i);
}

static void fill(char *memory, int bytes, int round)
{
    for (int i = 0; i < bytes; i++)
        memory[i] = byte_of(rank, round, i);
}

static void compare(const char *memory, int bytes, int from, int round)
{
    for (int i = 0; i < bytes; i++)
        REQUIRE(memory[i] == byte_of(from, round, i));
}

static void make(tcaHandle *handle, void *memory, size_t bytes)
{
    TCA_CHECK(tcaCreateHandle(handle, memory, bytes, tcaMemoryCPU));
}

static void load(const tcaHandle *to, const tcaHandle *from, size_t bytes, int flags, int slot)
{
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy(desc, to, 0, from, 0, bytes, flags, slot, 5));
    TCA_CHECK(tcaDescSet(desc, 0));
    TCA_CHECK(tcaDescFree(desc));
}

/* From this process's memory to the next one's, with a notification. */
static void notified(char *target, char *source)
{
    tcaHandle from, *handles = gather_handles(target, BYTES, tcaMemoryCPU);
    make(&from, source, BYTES);
    load(&handles[next], &from, BYTES, tcaDMANotify | tcaDMANotifySelf, 1);
    for (int round = 0; round < ROUNDS; round++) {
        fill(source, BYTES, round);
        TCA_CHECK(tcaStartDMADesc(0));
        TCA_CHECK(tcaWaitDMARecvDesc(&handles[previous], 1, 5));
        compare(target, BYTES, previous, round);
        TCA_CHECK(tcaWaitDMARecvDesc(&handles[rank], 1, 5));
        TCA_CHECK(tcaWaitDMAC(0));
        barrier();
    }
    free(handles);
}

/* Without a notification: a process that waits for the channel and then enters a barrier knows that
 * the data is there. */
static void unnotified(char *target, char *source)
{
    tcaHandle from, *handles = gather_handles(target, BYTES, tcaMemoryCPU);
    make(&from, source, BYTES);
    for (int to = 0; to < size; to++) {
        barrier();
        if (rank == (to + 1) % size) {
            fill(source, BYTES, to);
            load(&handles[to], &from, BYTES, 0, 0);
            TCA_CHECK(tcaStartDMADesc(0));
            TCA_CHECK(tcaWaitDMAC(0));
        }
        barrier();
        if (rank == to)
            compare(target, BYTES, (to + 1) % size, to);
    }
    free(handles);
}

/* Rows, then a few words, then a flag in memory of the API that the receiver polls. */
static void chain(char *target, char *source)
{
    int *flag;
    tcaHandle from, from_flag, *handles = gather_handles(target, BYTES, tcaMemoryCPU);
    TCA_CHECK(tcaMalloc((void **)&flag, 2 * sizeof(*flag), tcaMemoryCPU));
    tcaHandle *flags = gather_handles(flag, 2 * sizeof(*flag), tcaMemoryCPU);
    make(&from, source, BYTES);
    make(&from_flag, flag, 2 * sizeof(*flag));
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy2D(desc, &handles[next], 0, PITCH, &from, 0, PITCH, WIDTH, HEIGHT, 0,
                                 0, 0));
    for (int i = 0; i < MANY; i++)
        TCA_CHECK(tcaDescSetMemcpy(desc, &handles[next], HEIGHT * PITCH + i * 16, &from,
                                   HEIGHT * PITCH + i * 16, 8, 0, 0, 0));
    TCA_CHECK(tcaDescSetMemcpy(desc, &flags[next], 4, &from_flag, 0, 4, 0, 0, 0));
    TCA_CHECK(tcaDescSet(desc, 2));
    for (int round = 1; round <= ROUNDS; round++) {
        fill(source, BYTES, round);
        memset(target, 0, BYTES);
        flag[0] = round;
        barrier();
        TCA_CHECK(tcaStartDMADesc(2));
        while (__atomic_load_n(&flag[1], __ATOMIC_ACQUIRE) != round)
            _mm_pause();
        for (int i = 0; i < HEIGHT * PITCH; i++)
            REQUIRE(target[i] == (i % PITCH < WIDTH ? byte_of(previous, round, i) : 0));
        for (int i = HEIGHT * PITCH; i < HEIGHT * PITCH + MANY * 16; i++)
            REQUIRE(target[i] == (i % 16 < 8 ? byte_of(previous, round, i) : 0));
        TCA_CHECK(tcaWaitDMAC(2));
        barrier();
    }
    TCA_CHECK(tcaDescFree(desc));
    free(handles);
    free(flags);
}

/* Within this process: from one half to the other. */
static void oneself(char *memory)
{
    tcaHandle whole, half;
    make(&whole, memory, BYTES);
    make(&half, memory + BYTES / 2, BYTES / 2);
    load(&half, &whole, BYTES / 2, tcaDMANotify, 3);
    for (int round = 0; round < ROUNDS; round++) {
        fill(memory, BYTES / 2, round);
        TCA_CHECK(tcaStartDMADesc(0));
        TCA_CHECK(tcaWaitDMARecvDesc(&whole, 3, 5));
        compare(memory + BYTES / 2, BYTES / 2, rank, round);
    }
}

/* Payload into the program's own memory, followed by the flag, there or in memory of the API. */
static void stores(char *target)
{
    enum { PAYLOAD = 4000 };
    long *mark;
    char message[PAYLOAD];
    TCA_CHECK(tcaMalloc((void **)&mark, sizeof(*mark), tcaMemoryCPU));
    *mark = 0;
    memset(target, 0, BYTES);
    tcaHandle *handles = gather_handles(target, BYTES, tcaMemoryCPU),
              *marks = gather_handles(mark, sizeof(*mark), tcaMemoryCPU);
    tcaPIOHandle pio, pio_mark;
    TCA_CHECK(tcaSetPIORegion(&pio, &handles[next], 0, BYTES));
    TCA_CHECK(tcaSetPIORegion(&pio_mark, &marks[next], 0, sizeof(*mark)));
    barrier();
    for (long round = 1; round <= 2 * ROUNDS; round++) {
        const long *polled = round % 2 ? mark : (const long *)(const void *)(target + PAYLOAD);
        fill(message, PAYLOAD, (int)round);
        TCA_CHECK(tcaSendPIO(&pio, 0, message, PAYLOAD));
        if (round % 2)
            TCA_CHECK(tcaSendPIO(&pio_mark, 0, &round, sizeof(round)));
        else
            TCA_CHECK(tcaSendPIO(&pio, PAYLOAD, &round, sizeof(round)));
        while (__atomic_load_n(polled, __ATOMIC_ACQUIRE) != round)
            _mm_pause();
        compare(target, PAYLOAD, previous, (int)round);
        barrier();
    }
    free(handles);
    free(marks);
}

/* From one half to the next process's other one; no handle is destroyed. */
static void exchange(char *memory, int round)
{
    tcaHandle first, second, *handles = gather_handles(memory, BYTES / 2, tcaMemoryCPU);
    make(&first, memory, BYTES / 4);
    make(&second, memory, BYTES / 4);
    fill(memory, BYTES / 4, round);
    barrier();
    tcaDesc *desc = tcaDescNew();
    TCA_CHECK(tcaDescSetMemcpy(desc, &handles[next], BYTES / 4, round % 2 ? &first : &second, 0,
                               BYTES / 4, tcaDMANotify, 0, round));
    TCA_CHECK(tcaDescSet(desc, 1));
    TCA_CHECK(tcaStartDMADesc(1));
    TCA_CHECK(tcaWaitDMARecvDesc(&handles[previous], 0, round));
    compare(memory + BYTES / 4, BYTES / 4, previous, round);
    TCA_CHECK(tcaWaitDMAC(1));
    TCA_CHECK(tcaDescFree(desc));
    barrier();
    free(handles);
}

/* Memory that is freed, and other memory at the same address or at another one. */
static void again(void)
{
    for (int round = 0; round < 20; round++) {
        char *memory = (char *)malloc(BYTES / 2 + (size_t)round % 3 * 4096);
        exchange(memory, round);
        free(memory);
    }
    char *memory = NULL;
    for (int round = 0; round < 4; round++) { /* always at the same one */
        memory = (char *)mmap(memory, BYTES / 2, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | (memory ? MAP_FIXED : 0), -1, 0);
        REQUIRE(memory != MAP_FAILED);
        exchange(memory, round);
    }
    munmap(memory, BYTES / 2);
}

/* Many more handles than a process may have regions, each destroyed. */
static void many(char *memory)
{
    tcaHandle handle;
    for (int i = 0; i < 3000; i++) {
        make(&handle, memory + i * 64, 65);
        TCA_CHECK(tcaDestroyHandle(&handle));
    }
}

static void refused(void)
{
    tcaHandle handle;
    char *memory;
    TCA_CHECK(tcaMalloc((void **)&memory, BYTES, tcaMemoryCPU));
    TCA_EXPECT(tcaCreateHandle(&handle, memory, BYTES, tcaMemoryGPU), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaCreateHandle(&handle, memory, 2 * BYTES, tcaMemoryCPU), TCA_ERROR_INVALID_VALUE);
    TCA_CHECK(tcaFree(memory, tcaMemoryCPU));
    TCA_EXPECT(tcaCreateHandle(&handle, memory, BYTES, tcaMemoryCPU), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaCreateHandle(&handle, NULL, BYTES, tcaMemoryCPU), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaFree(global, tcaMemoryCPU), TCA_ERROR_INVALID_VALUE);
}

int main(int argc, char **argv)
{
    static char local[BYTES] __attribute__((aligned(4096)));
    char stack[BYTES], *heap = (char *)malloc(BYTES);
    begin(&argc, &argv);
    next = (rank + 1) % size;
    previous = (rank + size - 1) % size;
    notified(heap, stack);
    notified(stack, global);
    unnotified(global, heap);
    chain(heap, local);
    oneself(stack);
    stores(heap);
    again();
    many(local);
    refused();
    free(heap);
    return end("foreign");
}
