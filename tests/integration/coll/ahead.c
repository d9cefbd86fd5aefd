/*
 * coll-ahead [die]: short broadcasts whose root has completed several starts before any other rank
 * begins the first, also when they are freed and made again; then all go on at their own pace, or
 * the root kills itself, and the others learn of it. Every byte is checked after every start. Ends
 * with 0, or prints what was wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>

#include "client/include/tca-coll.h"
#include "tests/integration/expect.h"

enum {
    AHEAD = 4 /* as tca-coll.h promises */,
    STARTS = 41,
    TURNS = 4, /* the same operation, freed and made again */
    BYTES_MAX = 4096,
    SEGMENT_BYTES = 1000,
    ROOT = 1
};

static struct tca *session;
static uint8_t *memory;

static uint8_t value(uint32_t start, uint64_t i)
{
    return (uint8_t)(start * 31 + i * 7 + 1);
}

static void once(struct tca_coll *coll, uint64_t bytes, uint32_t start)
{
    for (uint64_t i = 0; i < bytes; i++)
        memory[i] = rank == ROOT ? value(start, i) : 0xa5;
    check(tca_coll_start(coll), "start");
    check(tca_coll_wait(coll, TCA_DEFAULT), "wait");
    for (uint64_t i = 0; i < bytes; i++)
        if (memory[i] != value(start, i)) {
            printf("rank %u, %lu bytes, start %u: byte %lu is wrong\n", rank, bytes, start, i);
            exit(1);
        }
    memset(memory, 0x5a, bytes);
}

/* In the client's seat, a rank at the end of the tree that is on its parent's node has no plan. */
static void check_text(const struct tca_coll *coll, enum tca_coll_algorithm algorithm,
                       uint64_t bytes)
{
    bool expected = rank != ROOT && bytes > 0 && bytes <= SEGMENT_BYTES && !getenv("TCA_SEAT") &&
                    tca_node_of(session, rank) == tca_node_of(session, ROOT);
    char text[2048];

    tca_coll_explain(coll, text, sizeof(text));
    if (algorithm != TCA_COLL_DIRECT || !!strstr(text, "without a plan") == expected)
        return;
    printf("rank %u, %lu bytes: explained as %s\n", rank, bytes, text);
    exit(1);
}

/* After the root's death, every second rank tests, instead of waiting. */
static void run_to_death(void)
{
    const struct tca_coll_args args = {.algorithm = TCA_COLL_DIRECT};
    struct tca_coll *coll;

    check(tca_coll_broadcast(session, memory, 8, ROOT, &args, &coll), "preparing it");
    for (uint32_t start = 0; start < AHEAD; start++)
        once(coll, 8, start);
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    if (rank == ROOT)
        raise(SIGKILL);
    int r = tca_coll_start(coll);
    if (r >= 0 && rank % 4 < 2)
        r = tca_coll_wait(coll, TCA_DEFAULT);
    while (r == 0)
        r = tca_coll_test(coll);
    expect(r, -EOWNERDEAD, NULL, "a start after the root's death");
    tca_coll_free(coll);
}

static void run(enum tca_coll_algorithm algorithm, uint64_t bytes, int turn)
{
    const struct tca_coll_args args = {.algorithm = algorithm, .segment_bytes = SEGMENT_BYTES};
    struct tca_coll *coll;
    uint32_t start = 0;

    check(tca_coll_broadcast(session, memory, bytes, ROOT, &args, &coll), "preparing it");
    check_text(coll, algorithm, bytes);
    for (; rank == ROOT && start < AHEAD; start++)
        once(coll, bytes, start);
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    for (; start < STARTS - (uint32_t)turn; start++)
        once(coll, bytes, start);
    tca_coll_free(coll);
}

static void run_all(void)
{
    static const enum tca_coll_algorithm algorithms[] = {TCA_COLL_DIRECT, TCA_COLL_BINOMIAL,
                                                         TCA_COLL_CHAIN, TCA_COLL_TRINARY,
                                                         TCA_COLL_HIERARCHICAL};
    static const uint64_t bytes[] = {0, 8, SEGMENT_BYTES, BYTES_MAX};

    for (size_t a = 0; a < sizeof(algorithms) / sizeof(algorithms[0]); a++)
        for (size_t b = 0; b < sizeof(bytes) / sizeof(bytes[0]); b++)
            for (int turn = 0; turn < TURNS; turn++)
                run(algorithms[a], bytes[b], turn);
}

int main(int argc, char **argv)
{
    void *allocated;

    check(tca_open(NULL, &session), "opening");
    rank = tca_rank(session);
    check(tca_alloc(session, BYTES_MAX, &allocated), "memory");
    memory = allocated;
    if (argc > 1 && strcmp(argv[1], "die") == 0)
        run_to_death();
    else
        run_all();
    tca_close(session);
    return wrong;
}
