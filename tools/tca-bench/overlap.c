#include "tools/tca-bench/bench.h"

#define SAMPLES 21
#define WARM_UP 5

/*
 * Each sample is three consecutive measurements: the transfer alone, computing for the same time,
 * and both at once. A transfer ends when the receiver confirms that all data has arrived.
 */
struct overlap {
    struct pair *pair;
    struct tca_plan *plan; /* rank 0: the data; rank 1: the reply */
    struct samples alone, computing, both;
    double hidden[SAMPLES];
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
    return r < 0 ? r : tca_wait(overlap->plan, TIMEOUT_NS);
}

static int warm_up(struct overlap *overlap)
{
    uint64_t took_ns;
    int r = 0;

    for (int n = 0; r >= 0 && n < WARM_UP; n++)
        r = transfer(overlap, 0, &took_ns);
    return r;
}

static uint64_t compute_alone(uint64_t rounds)
{
    uint64_t start_ns = now_ns();

    compute(rounds);
    return now_ns() - start_ns;
}

static int take_sample(struct overlap *overlap, uint64_t rounds_per_ms, int n)
{
    uint64_t alone_ns, computing_ns = 0, both_ns;
    int r = transfer(overlap, 0, &alone_ns);
    uint64_t rounds = alone_ns * rounds_per_ms / 1000000 + 1;

    if (r >= 0 && overlap->pair->me == 0)
        computing_ns = compute_alone(rounds);
    if (r >= 0)
        r = transfer(overlap, rounds, &both_ns);
    if (r < 0)
        return r;
    samples_add(&overlap->alone, alone_ns, 1);
    samples_add(&overlap->computing, computing_ns, 1);
    samples_add(&overlap->both, both_ns, 1);
    overlap->hidden[n] = hidden_share(alone_ns, computing_ns, both_ns);
    return 0;
}

static int measure(struct overlap *overlap, struct row *row)
{
    const uint64_t rounds_per_ms = compute_rounds(1000000);
    int r = warm_up(overlap);

    for (int n = 0; r >= 0 && n < SAMPLES; n++)
        r = take_sample(overlap, rounds_per_ms, n);
    if (r < 0)
        return r;
    row->transfer_ns = samples_median_ns(&overlap->alone);
    row->compute_ns = samples_median_ns(&overlap->computing);
    samples_into(&overlap->both, row);
    row->hidden = median_of_doubles(overlap->hidden, SAMPLES);
    return 0;
}

int bench_overlap(struct pair *pair, const struct variant *variant, uint64_t bytes, struct row *row)
{
    static struct overlap overlap;
    struct shape shape = pair_shape(variant->strided, pair->me == 0 ? bytes : 8);
    overlap = (struct overlap){.pair = pair};
    int r =
        pair_agree(pair, pair_plan(pair, variant, &shape, pair->me == 0 ? 0 : 1, &overlap.plan));

    if (r >= 0)
        r = pair_agree(pair, measure(&overlap, row));
    tca_plan_free(overlap.plan);
    return r;
}
