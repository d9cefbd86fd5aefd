/* coll_tca SIZES [daemon | thread]: the operations of bench.h by tca-coll.h; in the daemon's seat, or by
 * the thread. Rank 0 writes a line of JSON for each. */
#include <errno.h>

#include "client/include/tca-coll.h"
#include "tests/bench/collbench/bench.h"

static struct tca *session;
static struct tca_coll_args args;

static int make(enum operation operation, const double *in, double *out, uint64_t bytes,
                struct tca_coll **ret_coll)
{
    static const struct tca_coll_operator sum = {.combine = TCA_COMBINE_SUM,
                                                 .type = TCA_TYPE_DOUBLE};

    if (operation == BARRIER)
        return tca_coll_barrier(session, &args, ret_coll);
    if (operation == BROADCAST)
        return tca_coll_broadcast(session, out, bytes, 0, &args, ret_coll);
    return tca_coll_allreduce(session, in, out, bytes / 8, &sum, &args, ret_coll);
}

static int start(void *operation)
{
    return tca_coll_start(operation);
}

static int await(void *operation)
{
    return tca_coll_wait(operation, TCA_FOREVER);
}

static int together(void)
{
    return tca_barrier(session, TCA_DEFAULT);
}

static int of_rank_0(double *number)
{
    double all[4096];
    int r = tca_allgather(session, number, sizeof(*number), all, TCA_DEFAULT);

    if (r >= 0)
        *number = all[0];
    return r;
}

static int check(enum operation operation, const double *out, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes / 8; i++) {
        double expected = operation == BROADCAST ? value(0, i) : 0;
        for (uint32_t rank = 0; operation == ALLREDUCE && rank < tca_size(session); rank++)
            expected += value(rank, i);
        if (out[i] != expected) {
            fprintf(stderr, "coll_tca: element %llu of %s is wrong\n", (unsigned long long)i,
                    operation_names[operation]);
            return -EIO;
        }
    }
    return 0;
}

static int run(enum operation operation, uint64_t bytes)
{
    uint32_t rank = tca_rank(session);
    struct tca_coll *coll = NULL;
    struct times times;
    void *in, *out;
    int r = tca_alloc(session, bytes + 8, &in);

    if (r >= 0)
        r = tca_alloc(session, bytes + 8, &out);
    if (r < 0)
        return r;
    for (uint64_t i = 0; i < bytes / 8; i++)
        ((double *)in)[i] = ((double *)out)[i] = value(rank, i);
    r = together();
    uint64_t start_ns = now_ns();
    if (r >= 0)
        r = make(operation, in, out, bytes, &coll);
    times.init_us = (double)(now_ns() - start_ns) / 1e3;
    if (r >= 0)
        r = measure(coll, &times);
    if (r >= 0)
        r = check(operation, out, bytes);
    if (r < 0)
        return r;
    if (rank == 0)
        print(operation, bytes, &times);
    tca_coll_free(coll);
    r = tca_free(session, in);
    return r < 0 ? r : tca_free(session, out);
}

static int choose(int argc, char **argv)
{
    args.thread = argc == 3 && strcmp(argv[2], "thread") == 0;
    if (argc == 3 && strcmp(argv[2], "daemon") == 0)
        args.plan.seat = TCA_SEAT_DAEMON;
    return argc == 2 || (argc == 3 && (args.thread || args.plan.seat));
}

int main(int argc, char **argv)
{
    int r = tca_open(NULL, &session);

    if (r >= 0)
        r = choose(argc, argv) ? for_all(argv[1], run) : -EINVAL;
    if (r < 0)
        fprintf(stderr, "coll_tca: %s\n", tca_error_text());
    tca_close(r < 0 ? NULL : session);
    return r < 0;
}
