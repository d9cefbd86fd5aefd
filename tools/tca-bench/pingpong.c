
#include "tools/tca-bench/bench.h"

#define TUNE_ROUNDS     20 /* between two looks */
#define TUNE_ROUNDS_MAX 4000

struct pingpong {
    struct pair *pair;
    struct shape shape;
    bool touches;
    struct tca_plan *plan;
    uint64_t value;
};

static int send_one(struct pingpong *pingpong)
{
    if (pingpong->touches)
        touch_write(pingpong->pair->send, &pingpong->shape, pingpong->value++);
    return tca_start(pingpong->plan);
}

static int receive_one(struct pingpong *pingpong)
{
    int r = pair_wait(pingpong->pair, 0);

    if (pingpong->touches)
        touch_read(pingpong->pair->receive, &pingpong->shape);
    return r;
}

static int round_trip(struct pingpong *pingpong)
{
    int r = pingpong->pair->me == 0 ? send_one(pingpong) : receive_one(pingpong);

    if (r >= 0)
        r = pingpong->pair->me == 0 ? receive_one(pingpong) : send_one(pingpong);
    /* the source may be written again after this; at rank 0 the peer's reply implies it */
    return r < 0 ? r : tca_wait(pingpong->plan, TIMEOUT_NS);
}

static int rounds(struct pingpong *pingpong, uint64_t count, uint64_t *ret_ns)
{
    uint64_t start_ns = now_ns();
    int r = 0;

    while (r >= 0 && count--)
        r = round_trip(pingpong);
    *ret_ns = now_ns() - start_ns;
    return r;
}

/* Until the plans of both ranks have found how to copy. */
static int tune(struct pingpong *pingpong)
{
    struct tca_receipt receipt = {0};
    uint64_t took_ns;
    int r = 1; /* more to do */

    for (unsigned n = 0; n < TUNE_ROUNDS_MAX && r > 0; n += TUNE_ROUNDS) {
        r = rounds(pingpong, TUNE_ROUNDS, &took_ns);
        if (r >= 0)
            r = tca_plan_receipt(pingpong->plan, &receipt);
        r = pair_agree(pingpong->pair, r < 0 ? r : receipt.trying != 0);
    }
    return r > 0 ? 0 : r;
}

static int measure(struct pingpong *pingpong, struct row *row)
{
    struct samples samples = {0};
    struct schedule schedule;
    uint64_t warm_up = warm_up_rounds(&pingpong->shape);
    uint64_t took_ns;
    int r = tune(pingpong);

    if (r >= 0)
        r = rounds(pingpong, warm_up, &took_ns);
    if (r >= 0)
        r = rounds(pingpong, warm_up, &took_ns);
    if (r >= 0)
        r = schedule_agree(pingpong->pair, took_ns / warm_up, &schedule);
    if (r >= 0) /* the peer may have fallen asleep in pair_agree() */
        r = rounds(pingpong, warm_up, &took_ns);
    for (uint64_t batch = 0; r >= 0 && batch < schedule.batches; batch++) {
        r = rounds(pingpong, schedule.rounds, &took_ns);
        samples_add(&samples, took_ns, 2 * schedule.rounds);
    }
    if (r < 0)
        return r;
    samples_into(&samples, row);
    row->gbps = (double)row->bytes * 8 / row->median_ns;
    return 0;
}

static int measure_plan(struct pair *pair, const struct variant *variant, uint64_t bytes,
                        bool touches, struct row *row)
{
    struct pingpong pingpong = {
        .pair = pair, .shape = pair_shape(variant->strided, bytes), .touches = touches};
    int r = pair_agree(pair, pair_plan(pair, variant, &pingpong.shape, 0, &pingpong.plan));

    if (r >= 0)
        r = pair_agree(pair, measure(&pingpong, row));
    tca_plan_free(pingpong.plan);
    return r;
}

int bench_pingpong(struct pair *pair, const struct variant *variant, uint64_t bytes,
                   struct row *row)
{
    return measure_plan(pair, variant, bytes, true, row);
}

int bench_untouched(struct pair *pair, const struct variant *variant, uint64_t bytes,
                    struct row *row)
{
    return measure_plan(pair, variant, bytes, false, row);
}
