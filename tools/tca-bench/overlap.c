#include "tools/tca-bench/bench.h"

#define SAMPLES 21
#define WARM_UP 5

/*
 * Three times, each the median of SAMPLES: the transfer alone, the computing alone, and both at
 * once. A transfer is over when the receiver has said that it has everything, so that nothing can
 * hide in a buffer.
 */
struct overlap {
    struct pair *pair;
    struct tca_plan *plan; /* rank 0: the data; rank 1: the answer */
    uint64_t rounds;
};

static int transfer(struct overlap *overlap, uint64_t rounds, uint64_t *ret_ns)
{
    uint64_t start_ns = now_ns();
    int r;

    if (overlap->pair->me == 1) {
        r = pair_wait(overlap->pair, 0);
        if (r >= 0)
            r = tca_start(overlap->plan);
    } else {
        r = tca_start(overlap->plan);
        if (r >= 0 && rounds)
            compute(rounds);
        if (r >= 0)
            r = pair_wait(overlap->pair, 1);
    }
    *ret_ns = now_ns() - start_ns;
    return r < 0 ? r : tca_wait(overlap->plan, PATIENCE_NS);
}

static int transfers(struct overlap *overlap, uint64_t rounds, struct samples *samples)
{
    int r = 0;

    for (int n = 0; r >= 0 && n < WARM_UP + SAMPLES; n++) {
        uint64_t took_ns;

        r = transfer(overlap, rounds, &took_ns);
        if (n >= WARM_UP)
            samples_add(samples, took_ns, 1);
    }
    return r;
}

static int measure(struct overlap *overlap, struct row *row)
{
    struct samples alone = {0};
    struct samples computing = {0};
    struct samples both = {0};
    int r = transfers(overlap, 0, &alone);

    if (r < 0)
        return r;
    row->transfer_ns = samples_median_ns(&alone);
    overlap->rounds = compute_rounds((uint64_t)row->transfer_ns);
    for (int n = 0; n < SAMPLES && overlap->pair->me == 0; n++) {
        uint64_t start_ns = now_ns();

        compute(overlap->rounds);
        samples_add(&computing, now_ns() - start_ns, 1);
    }
    row->compute_ns = samples_median_ns(&computing);
    r = transfers(overlap, overlap->rounds, &both);
    if (r < 0)
        return r;
    samples_into(&both, row);
    row->hidden = (row->transfer_ns + row->compute_ns - row->median_ns) / row->transfer_ns;
    return 0;
}

int bench_overlap(struct pair *pair, const struct way *way, uint64_t bytes, struct row *row)
{
    struct overlap overlap = {.pair = pair};
    struct shape shape = pair_shape(way->strided, pair->me == 0 ? bytes : 8);
    int r = pair_agree(pair, pair_plan(pair, way, &shape, pair->me == 0 ? 0 : 1, &overlap.plan));

    if (r >= 0)
        r = pair_agree(pair, measure(&overlap, row));
    tca_plan_free(overlap.plan);
    return r;
}
