/*
 * coll-session: collective operations that go on while the processes of all ranks but rank 0 are
 * stopped. These start each operation and stop themselves; rank 0 waits for it, says so on its
 * standard output, and waits for a line on its standard input. Ends with 0, or prints what was wrong.
 */
#include <signal.h>
#include <stdio.h>

#include "client/include/tca-coll.h"

enum { COUNT = 20000, OPERATIONS = 4 };

static struct tca *session;
static uint32_t rank, size;

static int wrong(const char *what, int error)
{
    printf("rank %u: %s: %s (%s)\n", rank, what, tca_error_text(), tca_strerror(error));
    return -1;
}

/* Rank 0 is the last one of the chain. */
static int make(int number, uint64_t *in, uint64_t *out, struct tca_coll **ret_coll)
{
    static const struct tca_coll_operator sum = {.combine = TCA_COMBINE_SUM,
                                                 .type = TCA_TYPE_UINT64};
    static const enum tca_coll_algorithm algorithms[OPERATIONS] = {TCA_COLL_CHAIN, TCA_COLL_RING,
                                                                   TCA_COLL_CHAIN, TCA_COLL_DIRECT};
    struct tca_coll_args args = {
        .algorithm = algorithms[number], .segment_bytes = 16384, .plan = {.seat = TCA_SEAT_DAEMON}};

    if (number == 0)
        return tca_coll_broadcast(session, out, COUNT * sizeof(*out), size > 1, &args, ret_coll);
    if (number == 2)
        return tca_coll_reduce(session, in, out, COUNT, &sum, 0, &args, ret_coll);
    return tca_coll_allreduce(session, in, out, COUNT, &sum, &args, ret_coll);
}

static uint64_t value(uint32_t from, uint64_t i)
{
    return (i + 1) * (from + 1);
}

static int check(int number, const uint64_t *out)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t expected = number == 0 ? value(size > 1, i) : 0;
        for (uint32_t from = 0; number > 0 && from < size; from++)
            expected += value(from, i);
        if (out[i] != expected) {
            printf("rank %u, operation %d: element %lu is %lu, not %lu\n", rank, number, i, out[i],
                   expected);
            return -1;
        }
    }
    return 0;
}

static int run(int number, uint64_t *in, uint64_t *out)
{
    struct tca_coll *coll = NULL;
    char line[16];

    for (uint64_t i = 0; i < COUNT; i++)
        in[i] = out[i] = value(rank, i);
    int r = make(number, in, out, &coll);
    if (r < 0)
        return wrong("preparing it", r);
    r = tca_coll_start(coll);
    if (r < 0)
        return wrong("start", r);
    if (rank > 0)
        raise(SIGSTOP);
    r = tca_coll_wait(coll, TCA_DEFAULT);
    if (r < 0)
        return wrong("wait", r);
    if (rank == 0) {
        puts("complete");
        fflush(stdout);
        if (!fgets(line, sizeof(line), stdin))
            return wrong("no line", 0);
    }
    r = number == 2 && rank > 0 ? 0 : check(number, out);
    tca_coll_free(coll);
    return r;
}

int main(void)
{
    void *in, *out;
    int r = tca_open(NULL, &session);

    if (r >= 0)
        r = tca_alloc(session, COUNT * sizeof(uint64_t), &in);
    if (r >= 0)
        r = tca_alloc(session, COUNT * sizeof(uint64_t), &out);
    if (r < 0)
        return -wrong("opening", r);
    rank = tca_rank(session);
    size = tca_size(session);
    for (int number = 0; r >= 0 && number < OPERATIONS; number++)
        r = run(number, in, out);
    tca_close(session);
    return r < 0;
}
