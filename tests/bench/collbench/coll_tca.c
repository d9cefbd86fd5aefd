/* coll_tca SIZES OPERATIONS here|elsewhere [daemon | thread]: the operations of bench.h by
 * tca-coll.h; in the daemon's seat, or by the thread. Rank 0 writes a line of JSON for each. */
#include "client/include/tca-coll.h"
#include "tests/bench/check.h"
#include "tests/bench/collbench/bench.h"

static struct tca *session;
static struct tca_coll_args args;

static struct tca_coll *make(enum operation operation, const double *in, double *out,
                             uint64_t bytes)
{
    static const struct tca_coll_operator sum = {.combine = TCA_COMBINE_SUM,
                                                 .type = TCA_TYPE_DOUBLE};
    struct tca_coll *coll;

    check(operation == BARRIER ? tca_coll_barrier(session, &args, &coll)
          : operation == BROADCAST
              ? tca_coll_broadcast(session, out, bytes, 0, &args, &coll)
              : tca_coll_allreduce(session, in, out, bytes / 8, &sum, &args, &coll),
          "preparing");
    return coll;
}

static void start(void *operation)
{
    check(tca_coll_start(operation), "starting");
}

static void await(void *operation)
{
    check(tca_coll_wait(operation, TCA_FOREVER), "waiting");
}

static void together(void)
{
    check(tca_barrier(session, TCA_DEFAULT), "meeting");
}

static double of_rank_0(double number)
{
    double all[4096];

    check(tca_allgather(session, &number, sizeof(number), all, TCA_DEFAULT), "meeting");
    return all[0];
}

static bool run(enum operation operation, uint64_t bytes)
{
    uint32_t rank = tca_rank(session);
    struct times times;
    void *in, *out;

    check(tca_alloc(session, bytes + 8, &in), "memory");
    check(tca_alloc(session, bytes + 8, &out), "memory");
    for (uint64_t i = 0; i < bytes / 8; i++)
        ((double *)in)[i] = ((double *)out)[i] = value(rank, i);
    together();
    uint64_t start_ns = now_ns();
    struct tca_coll *coll = make(operation, in, out, bytes);
    times.init_us = (double)(now_ns() - start_ns) / 1e3;
    measure(coll, &times);
    if (!finish(operation, out, bytes, rank, tca_size(session), &times))
        return false;
    tca_coll_free(coll);
    check(tca_free(session, in), "freeing memory");
    check(tca_free(session, out), "freeing memory");
    return true;
}

int main(int argc, char **argv)
{
    const char *how = argc == 5 ? argv[4] : "";

    args.thread = strcmp(how, "thread") == 0;
    if (strcmp(how, "daemon") == 0)
        args.plan.seat = TCA_SEAT_DAEMON;
    check(tca_open(NULL, &session), "opening the session");
    if (argc != 4 && !args.thread && !args.plan.seat)
        return 2;
    if (!for_all(argv[1], argv[2], argv[3], run))
        return 1;
    tca_close(session);
    return 0;
}
