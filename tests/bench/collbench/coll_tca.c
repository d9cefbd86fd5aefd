/* coll_tca SIZES: the operations of bench.h by tca-coll.h. Rank 0 writes a line of JSON for each. */
#include <errno.h>

#include "client/include/tca-coll.h"
#include "tests/bench/collbench/bench.h"

static struct tca *session;

static int make(enum operation operation, const double *in, double *out, uint64_t bytes,
                struct tca_coll **ret_coll)
{
    static const struct tca_coll_operator sum = {.combine = TCA_COMBINE_SUM,
                                                 .type = TCA_TYPE_DOUBLE};

    if (operation == BARRIER)
        return tca_coll_barrier(session, NULL, ret_coll);
    if (operation == BROADCAST)
        return tca_coll_broadcast(session, out, bytes, 0, NULL, ret_coll);
    return tca_coll_allreduce(session, in, out, bytes / 8, &sum, NULL, ret_coll);
}

static int batch(struct tca_coll *coll, uint64_t count, double *ret_us)
{
    int r = tca_barrier(session, TCA_DEFAULT);
    uint64_t start_ns = now_ns();

    for (uint64_t i = 0; i < count && r >= 0; i++) {
        r = tca_coll_start(coll);
        if (r >= 0)
            r = tca_coll_wait(coll, TCA_FOREVER);
    }
    *ret_us = (double)(now_ns() - start_ns) / 1e3 / (double)count;
    return r;
}

static int measure(struct tca_coll *coll, double *ret_us)
{
    double warm, all[4096];
    int r = batch(coll, WARM, &warm);

    if (r >= 0) /* rank 0 decides */
        r = tca_allgather(session, &warm, sizeof(warm), all, TCA_DEFAULT);
    for (int n = 0; n < REPEATS && r >= 0; n++)
        r = batch(coll, count_for(all[0]), &ret_us[n]);
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
    double us[REPEATS];
    void *in, *out;
    int r = tca_alloc(session, bytes + 8, &in);

    if (r >= 0)
        r = tca_alloc(session, bytes + 8, &out);
    if (r < 0)
        return r;
    for (uint64_t i = 0; i < bytes / 8; i++)
        ((double *)in)[i] = ((double *)out)[i] = value(rank, i);
    r = make(operation, in, out, bytes, &coll);
    if (r >= 0)
        r = measure(coll, us);
    if (r >= 0)
        r = check(operation, out, bytes);
    if (r < 0)
        return r;
    if (rank == 0)
        print(operation, bytes, us);
    tca_coll_free(coll);
    r = tca_free(session, in);
    return r < 0 ? r : tca_free(session, out);
}

int main(int argc, char **argv)
{
    int r = tca_open(NULL, &session);

    if (r >= 0)
        r = argc == 2 ? for_all(argv[1], run) : -EINVAL;
    if (r < 0)
        fprintf(stderr, "coll_tca: %s\n", tca_error_text());
    tca_close(r < 0 ? NULL : session);
    return r < 0;
}
