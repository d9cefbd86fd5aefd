/*
 * For test_stores.py: without MPI, processes that store at each other. In each round everybody
 * stores numbered words at all others, in one store and in many, and behind them a mark, and then
 * does nothing but look for the marks of the others: with no call of the library, for a store that
 * is lost has to be noticed all the same. What lies before a mark is of its round.
 *
 * As told on standard input, like the actor (actor.h); process 0 tells the others in its words
 * whether there is another round:
 *   rounds        process 0: goes on, and answers after so many rounds what their number is
 *   stop          process 0: one more round. Others take no commands meanwhile, and answer then
 *   store RANK    one store there
 *   commit
 *   start RANK    a word there by DMA, one more than last time if that has succeeded, with a
 *                 notification
 *   receive RANK  waits for one from there; the word
 *   test RANK     tcaTestDMARecvDesc()
 *   quit RANK     a mark there that it waits for ("await RANK"), and at once exit()
 */
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <tca.h>

#include "tests/integration/tca-api/expect.h"

enum { WORDS = 100, PLACES = 5, SETS = 2, ROUNDS = 40, LAST = 1 << 30 };

/* What one process stores at another. */
struct table {
    int words[WORDS]; /* by one store */
    int places[PLACES];
    int early; /* stored last but one */
    long mark;
};

static struct table *tables; /* [SETS][size] */
static tcaHandle *handles;
static tcaPIOHandle *remote;
static unsigned rank, size;
static int number; /* of the last round */

static off_t offset_of(int round, size_t field)
{
    return (off_t)(((unsigned)round % SETS * size + rank) * sizeof(struct table) + field);
}

static void say(tcaresult result)
{
    if (result == TCA_SUCCESS)
        printf("ok\n");
    else
        printf("error %d %s\n", result, tcaGetErrorString(result));
}

static void store(unsigned to, off_t offset, const void *from, size_t bytes)
{
    expect(tcaSendPIO(&remote[to], offset, from, bytes), TCA_SUCCESS, "tcaSendPIO");
}

static void store_round(unsigned to, int word)
{
    const long mark = number;
    int words[WORDS];
    for (int i = 0; i < WORDS; i++)
        words[i] = word;
    store(to, offset_of(number, offsetof(struct table, words)), words, sizeof(words));
    for (size_t i = 0; i < PLACES; i++)
        store(to, offset_of(number, offsetof(struct table, places) + i * sizeof(int)), &word,
              sizeof(word));
    store(to, offset_of(number, offsetof(struct table, early)), &word, sizeof(word));
    store(to, offset_of(number, offsetof(struct table, mark)), &mark, sizeof(mark));
}

static void wait_for(const struct table *table, long mark)
{
    while (__atomic_load_n(&table->mark, __ATOMIC_ACQUIRE) != mark)
        sched_yield();
}

static void check(unsigned from, int word, int expected)
{
    if ((word & ~LAST) == expected)
        return;
    printf("error %d round %d of process %u: there is word %x before its mark\n", TCA_ERROR_SYSTEM,
           expected, from, (unsigned)word);
    exit(1);
}

/* Whether process 0 announces the last round. */
static bool round_of(bool last)
{
    const int word = ++number | (last ? LAST : 0);
    for (unsigned to = 0; to < size; to++)
        if (to != rank)
            store_round(to, word);
    for (unsigned from = 0; from < size; from++) {
        const struct table *table = &tables[(unsigned)number % SETS * size + from];
        if (from == rank)
            continue;
        wait_for(table, number);
        for (int i = 0; i < WORDS; i++)
            check(from, table->words[i], number);
        for (int i = 0; i < PLACES; i++)
            check(from, table->places[i], number);
        check(from, table->early, number);
        last |= from == 0 && (table->early & LAST);
    }
    return last;
}

static void begin(void)
{
    struct tca *session;
    tcaHandle own;
    expect(tcaInit(), TCA_SUCCESS, "tcaInit");
    session = tcaGetSession();
    rank = tca_rank(session);
    size = tca_size(session);
    const size_t bytes = SETS * size * sizeof(*tables);
    expect(tcaMalloc((void **)&tables, bytes, tcaMemoryCPU), TCA_SUCCESS, "tcaMalloc");
    expect(tcaCreateHandle(&own, tables, bytes, tcaMemoryCPU), TCA_SUCCESS, "tcaCreateHandle");
    handles = calloc(size, sizeof(*handles));
    remote = calloc(size, sizeof(*remote));
    expect(tca_allgather(session, &own, sizeof(own), handles, TCA_FOREVER), 0, "tca_allgather");
    for (unsigned to = 0; to < size; to++)
        expect(tcaSetPIORegion(&remote[to], &handles[to], 0, bytes), TCA_SUCCESS,
               "tcaSetPIORegion");
}

static tcaresult start(unsigned to)
{
    const off_t from = offset_of(1, offsetof(struct table, early)), /* that nobody stores to */
        place = offset_of(0, offsetof(struct table, early));
    int *word = (int *)((char *)tables + from);
    tcaDesc *desc = tcaDescNew();
    *word = number + 1;
    tcaresult result = tcaDescSetMemcpy(desc, &handles[to], place, &handles[rank], from,
                                        sizeof(*word), tcaDMANotify, 0, 0);
    if (result == TCA_SUCCESS)
        result = tcaDescSet(desc, 0);
    if (result == TCA_SUCCESS)
        result = tcaStartDMADesc(0);
    if (result == TCA_SUCCESS)
        result = tcaWaitDMAC(0);
    number += result == TCA_SUCCESS;
    tcaDescFree(desc);
    return result;
}

static void obey(const char *command, unsigned argument)
{
    const long mark = 1;
    if (strcmp(command, "rounds") == 0) {
        for (int i = 0; i < ROUNDS; i++)
            round_of(false);
        printf("ok %d\n", number);
    } else if (strcmp(command, "stop") == 0) {
        while (!round_of(rank == 0))
            ;
        printf("ok %d\n", number);
    } else if (strcmp(command, "store") == 0) {
        number++;
        say(tcaSendPIO(&remote[argument], offset_of(0, offsetof(struct table, words)), &number,
                       sizeof(number)));
    } else if (strcmp(command, "commit") == 0) {
        say(tcaSendPIOCommit());
    } else if (strcmp(command, "start") == 0) {
        say(start(argument));
    } else if (strcmp(command, "receive") == 0) {
        expect(tcaWaitDMARecvDesc(&handles[argument], 0, 0), TCA_SUCCESS, "tcaWaitDMARecvDesc");
        printf("ok %d\n", tables[argument].early);
    } else if (strcmp(command, "test") == 0) {
        say(tcaTestDMARecvDesc(&handles[argument], 0, 0));
    } else if (strcmp(command, "quit") == 0) {
        store(argument, offset_of(0, offsetof(struct table, mark)), &mark, sizeof(mark));
        exit(0);
    } else if (strcmp(command, "await") == 0) {
        wait_for(&tables[argument], mark);
        printf("ok %d\n", tables[argument].words[0]);
    }
}

int main(void)
{
    char command[16];
    unsigned argument;
    setvbuf(stdout, NULL, _IOLBF, 0);
    begin();
    printf("ok\n");
    for (char line[64]; fgets(line, sizeof(line), stdin);) {
        argument = 0;
        if (sscanf(line, "%15s %u", command, &argument) > 0)
            obey(command, argument);
    }
    free(handles);
    free(remote);
    return 0;
}
