/*
 * coll-session: collective operations that go on while the processes of all ranks but rank 0 are
 * stopped. These start each operation and stop themselves; rank 0 waits for it, says so on its
 * standard output, and waits for a line on its standard input. Ends with 0, or prints what was
 * wrong.
 */
#include <errno.h>
#include <signal.h>

#include "client/include/tca-coll.h"
#include "tests/integration/expect.h"

enum { COUNT = 20000, OPERATIONS = 5 };

static struct tca *session;
static uint32_t size;

/* Rank 0 is the last one of the chain. The last operation leaves its algorithm to the library. */
static int make(int number, uint64_t *in, uint64_t *out, struct tca_coll **ret_coll)
{
    static const struct tca_coll_operator sum = {.combine = TCA_COMBINE_SUM,
                                                 .type = TCA_TYPE_UINT64};
    static const enum tca_coll_algorithm algorithms[OPERATIONS] = {
        TCA_COLL_CHAIN, TCA_COLL_RING, TCA_COLL_CHAIN, TCA_COLL_DIRECT, TCA_COLL_ANY};
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

static void compare(int number, const uint64_t *out)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t expected = number == 0 ? value(size > 1, i) : 0;
        for (uint32_t from = 0; number > 0 && from < size; from++)
            expected += value(from, i);
        if (out[i] != expected) {
            printf("rank %u, operation %d: element %lu is %lu, not %lu\n", rank, number, i, out[i],
                   expected);
            exit(1);
        }
    }
}

static void run(int number, uint64_t *in, uint64_t *out)
{
    struct tca_coll *coll;
    char line[16];

    for (uint64_t i = 0; i < COUNT; i++)
        in[i] = out[i] = value(rank, i);
    check(make(number, in, out, &coll), "preparing it");
    check(tca_coll_start(coll), "start");
    if (rank > 0)
        raise(SIGSTOP);
    check(tca_coll_wait(coll, TCA_DEFAULT), "wait");
    if (rank == 0) {
        puts("complete");
        fflush(stdout);
        if (!fgets(line, sizeof(line), stdin))
            check(-EPIPE, "no line");
    }
    if (number != 2 || rank == 0)
        compare(number, out);
    tca_coll_free(coll);
}

int main(void)
{
    void *in, *out;

    check(tca_open(NULL, &session), "opening");
    rank = tca_rank(session);
    size = tca_size(session);
    check(tca_alloc(session, COUNT * sizeof(uint64_t), &in), "memory");
    check(tca_alloc(session, COUNT * sizeof(uint64_t), &out), "memory");
    for (int number = 0; number < OPERATIONS; number++)
        run(number, in, out);
    tca_close(session);
    return wrong;
}
