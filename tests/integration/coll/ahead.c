/*
 * coll-ahead [die]: short broadcasts whose root has completed several starts before any other rank begins
 * the first; then all go on at their own pace, or the root kills itself, and the others learn of it. Every
 * byte is checked after every start. Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/tca-coll.h"

enum {
    AHEAD = 4 /* as tca-coll.h promises */,
    STARTS = 41,
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

static int wrong(const char *what, uint64_t bytes, uint32_t start)
{
    printf("rank %u, %lu bytes, start %u: %s: %s\n", tca_rank(session), bytes, start, what,
           tca_error_text());
    return -1;
}

static int once(struct tca_coll *coll, uint64_t bytes, uint32_t start)
{
    const bool is_root = tca_rank(session) == ROOT;

    for (uint64_t i = 0; i < bytes; i++)
        memory[i] = is_root ? value(start, i) : 0xa5;
    if (tca_coll_start(coll) < 0 || tca_coll_wait(coll, TCA_DEFAULT) < 0)
        return wrong("start and wait", bytes, start);
    for (uint64_t i = 0; i < bytes; i++)
        if (memory[i] != value(start, i))
            return wrong("data", bytes, start);
    memset(memory, 0x5a, bytes);
    return 0;
}

/* In the client's seat, a rank at the end of the tree that is on its parent's node has no plan. */
static int check_text(const struct tca_coll *coll, enum tca_coll_algorithm algorithm,
                      uint64_t bytes)
{
    const uint32_t rank = tca_rank(session);
    bool expected = rank != ROOT && bytes > 0 && bytes <= SEGMENT_BYTES && !getenv("TCA_SEAT") &&
                    tca_node_of(session, rank) == tca_node_of(session, ROOT);
    char text[2048];

    tca_coll_explain(coll, text, sizeof(text));
    if (algorithm != TCA_COLL_DIRECT || !!strstr(text, "without a plan") == expected)
        return 0;
    printf("rank %u, %lu bytes: explained as %s\n", rank, bytes, text);
    return -1;
}

/* Every second rank tests, instead of waiting. */
static int after_death(struct tca_coll *coll)
{
    int r = tca_coll_start(coll);

    if (r >= 0 && tca_rank(session) % 4 < 2)
        r = tca_coll_wait(coll, TCA_DEFAULT);
    while (r == 0)
        r = tca_coll_test(coll);
    return r == -EOWNERDEAD ? 0 : wrong("a start after the root's death", 8, AHEAD);
}

static int run_to_death(void)
{
    const struct tca_coll_args args = {.algorithm = TCA_COLL_DIRECT};
    const bool is_root = tca_rank(session) == ROOT;
    struct tca_coll *coll;

    if (tca_coll_broadcast(session, memory, 8, ROOT, &args, &coll) < 0)
        return wrong("preparing it", 8, 0);
    for (uint32_t start = 0; start < AHEAD; start++)
        if (once(coll, 8, start) < 0)
            return -1;
    if (tca_barrier(session, TCA_DEFAULT) < 0)
        return wrong("barrier", 8, AHEAD);
    if (is_root)
        raise(SIGKILL);
    int r = after_death(coll);
    tca_coll_free(coll);
    return r;
}

static int run(enum tca_coll_algorithm algorithm, uint64_t bytes)
{
    const struct tca_coll_args args = {.algorithm = algorithm, .segment_bytes = SEGMENT_BYTES};
    const bool is_root = tca_rank(session) == ROOT;
    struct tca_coll *coll;
    uint32_t start = 0;

    if (tca_coll_broadcast(session, memory, bytes, ROOT, &args, &coll) < 0)
        return wrong("preparing it", bytes, 0);
    if (check_text(coll, algorithm, bytes) < 0)
        return -1;
    for (; is_root && start < AHEAD; start++)
        if (once(coll, bytes, start) < 0)
            return -1;
    if (tca_barrier(session, TCA_DEFAULT) < 0)
        return wrong("barrier", bytes, start);
    for (; start < STARTS; start++)
        if (once(coll, bytes, start) < 0)
            return -1;
    tca_coll_free(coll);
    return 0;
}

static int run_all(void)
{
    static const enum tca_coll_algorithm algorithms[] = {TCA_COLL_DIRECT, TCA_COLL_BINOMIAL,
                                                         TCA_COLL_CHAIN, TCA_COLL_TRINARY,
                                                         TCA_COLL_HIERARCHICAL};
    static const uint64_t bytes[] = {0, 8, SEGMENT_BYTES, BYTES_MAX};
    int r = 0;

    for (size_t a = 0; a < sizeof(algorithms) / sizeof(algorithms[0]); a++)
        for (size_t b = 0; r >= 0 && b < sizeof(bytes) / sizeof(bytes[0]); b++)
            r = run(algorithms[a], bytes[b]);
    return r;
}

int main(int argc, char **argv)
{
    void *allocated;
    int r = tca_open(NULL, &session);

    if (r >= 0)
        r = tca_alloc(session, BYTES_MAX, &allocated);
    if (r < 0)
        return 2;
    memory = allocated;
    r = argc > 1 && strcmp(argv[1], "die") == 0 ? run_to_death() : run_all();
    tca_close(session);
    return r < 0;
}
