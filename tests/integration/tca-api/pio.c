/* CPU stores: receivers poll; data stored before a flag is there when the flag is; stores of one
 * sender appear in order. */
#include "check.h"

enum { REGION = 64 * 1024, ROUNDS = 40, STORES = 3000 };

static char *memory;
static tcaHandle *handles;

static void poll_for(const char *mark, long expected)
{
    while (__atomic_load_n((const long *)(const void *)mark, __ATOMIC_ACQUIRE) != expected)
        _mm_pause();
}

/* To all ranks, this one too: payload and flag in one store, or the flag in a store of its own. */
static void marks(tcaPIOHandle *pio)
{
    enum { PAYLOAD = 1016 };
    char message[PAYLOAD + 8];
    for (long round = 1; round <= ROUNDS; round++) {
        for (int to = 0; to < size; to++) {
            memset(message, (int)(round + rank), PAYLOAD);
            memcpy(message + PAYLOAD, &round, sizeof(round));
            if (round % 2) {
                TCA_CHECK(tcaSendPIO(&pio[to], 0, message, sizeof(message)));
            } else {
                TCA_CHECK(tcaSendPIO(&pio[to], 0, message, PAYLOAD));
                TCA_CHECK(
                    tcaSendPIO(&pio[to], PAYLOAD, message + PAYLOAD, 8)); /* behind the part */
            }
        }
        tcaSendPIOCommit();
        for (int from = 0; from < size; from++) {
            const char *at = memory + from * 1024;
            poll_for(at + PAYLOAD, round);
            for (int i = 0; i < PAYLOAD; i++)
                REQUIRE(at[i] == (char)(round + from));
        }
        barrier();
    }
}

/* Thousands of words to one address, and then to many. */
static void words(void)
{
    tcaPIOHandle pio;
    int next = (rank + 1) % size;
    TCA_CHECK(tcaSetPIORegion(&pio, &handles[next], REGION / 2, 8));
    for (long i = 1; i <= STORES; i++)
        TCA_CHECK(tcaSendPIO(&pio, 0, &i, 8));
    long last = 0;
    do {
        long now = *(volatile long *)(memory + REGION / 2);
        REQUIRE(now >= last);
        last = now;
    } while (last != STORES);
    barrier();
    for (long i = 0; i < 300; i++) {
        char bytes[12];
        memset(bytes, (int)i, sizeof(bytes));
        TCA_CHECK(tcaSendPIO(&pio, 8 + i * 12, bytes, (size_t)i % 12 + 1));
    }
    long done = -1;
    TCA_CHECK(tcaSendPIO(&pio, REGION / 2 - 8, &done, 8));
    poll_for(memory + REGION - 8, -1);
    for (int i = 0; i < 300 * 12; i++)
        REQUIRE(memory[REGION / 2 + 8 + i] == (i % 12 <= i / 12 % 12 ? (char)(i / 12) : 0));
}

static void limits(void)
{
    tcaPIOHandle pio;
    long word = 0;
    int next = (rank + 1) % size;
    TCA_CHECK(tcaSetPIORegion(&pio, &handles[next], 16, 8));
    TCA_CHECK(tcaSendPIO(&pio, 0, &word, 0));
    TCA_EXPECT(tcaSendPIO(&pio, REGION - 16, &word, 8), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaSendPIO(&pio, REGION - 20, &word, 8), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaSendPIO(&pio, -17, &word, 8), TCA_ERROR_INVALID_VALUE);
    TCA_EXPECT(tcaSetPIORegion(&pio, &handles[next], REGION, 8), TCA_ERROR_INVALID_VALUE);
    memset(&pio, 7, sizeof(pio));
    TCA_EXPECT(tcaSendPIO(&pio, 0, &word, 8), TCA_ERROR_INVALID_VALUE);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    tcaSendPIOCommit(); /* before anything was stored */
    TCA_CHECK(tcaMalloc((void **)&memory, REGION, tcaMemoryCPU));
    memset(memory, 0, REGION);
    handles = gather_handles(memory, REGION, tcaMemoryCPU);
    tcaPIOHandle *pio = (tcaPIOHandle *)malloc(sizeof(tcaPIOHandle) * (size_t)size);
    for (int to = 0; to < size; to++)
        TCA_CHECK(tcaSetPIORegion(&pio[to], &handles[to], rank * 1024, 1016));
    barrier();
    marks(pio);
    words();
    limits();
    free(pio);
    return end("pio");
}
