/*
 * coll-bits SEED: reductions of doubles that round differently in every order, by each algorithm,
 * started by ranks that are slow at random. Every start must give the same bits; prints their
 * digests, so that another run can be compared.
 */
#include <stdio.h>
#include <unistd.h>

#include "client/include/tca-coll.h"
#include "tests/integration/expect.h"
#include "tests/unit/proto/random.h"

enum { COUNT = 4099, STARTS = 6, RANKS_MAX = 16 };
enum { REDUCE, ALLREDUCE, REDUCE_SCATTER, OPERATIONS };

static struct tca *session;
static struct random delays;
static double *in, *out;
static uint64_t counts[RANKS_MAX];

static int make(int operation, enum tca_coll_algorithm algorithm, struct tca_coll **ret_coll)
{
    static const struct tca_coll_operator sum = {.combine = TCA_COMBINE_SUM,
                                                 .type = TCA_TYPE_DOUBLE};
    const struct tca_coll_args args = {.algorithm = algorithm};

    if (operation == REDUCE)
        return tca_coll_reduce(session, in, out, COUNT, &sum, tca_size(session) - 1, &args,
                               ret_coll);
    if (operation == ALLREDUCE)
        return tca_coll_allreduce(session, in, out, COUNT, &sum, &args, ret_coll);
    return tca_coll_reduce_scatter(session, in, out, counts, &sum, &args, ret_coll);
}

static uint64_t digest(void)
{
    const uint8_t *bytes = (const uint8_t *)out;
    uint64_t hash = 0xcbf29ce484222325;

    for (size_t i = 0; i < COUNT * sizeof(*out); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3;
    return hash;
}

static void run(int operation, enum tca_coll_algorithm algorithm)
{
    struct tca_coll *coll = NULL;
    uint64_t first = 0;

    if (make(operation, algorithm, &coll) < 0)
        return; /* it does not suit: at no rank */
    for (int n = 0; n < STARTS; n++) {
        memset(out, 0, COUNT * sizeof(*out));
        if (random_below(&delays, 2))
            usleep((useconds_t)random_below(&delays, 3000));
        check(tca_coll_start(coll), "start");
        check(tca_coll_wait(coll, TCA_DEFAULT), "wait");
        const uint64_t bits = digest();
        if (n == 0)
            printf("%d %s %016lx\n", operation, tca_coll_algorithm_name(algorithm), bits);
        else if (bits != first)
            printf("%d %s: start %d gives other bits\n", operation,
                   tca_coll_algorithm_name(algorithm), n);
        wrong |= n > 0 && bits != first;
        first = n == 0 ? bits : first;
    }
    tca_coll_free(coll);
}

int main(int argc, char **argv)
{
    check(argc == 2 ? 0 : -1, "arguments");
    check(tca_open(NULL, &session), "opening");
    rank = tca_rank(session);
    delays.state = strtoull(argv[1], NULL, 0) * 64 + rank;
    for (uint32_t i = 0; i < tca_size(session); i++)
        counts[i] = COUNT / tca_size(session) + (i < COUNT % tca_size(session));
    check(tca_alloc(session, COUNT * sizeof(*in), (void **)&in), "memory");
    check(tca_alloc(session, COUNT * sizeof(*out), (void **)&out), "memory");
    for (uint64_t i = 0; i < COUNT; i++)
        in[i] = (i % 2 ? 1e16 : -1) / (double)(3 + i * 7 + rank * 31);
    for (int operation = 0; operation < OPERATIONS; operation++)
        for (int a = TCA_COLL_DIRECT; a <= TCA_COLL_HIERARCHICAL; a++)
            run(operation, (enum tca_coll_algorithm)a);
    tca_close(session);
    return wrong;
}
