#include "tools/tca-bench/bench.h"

#define PLANS   8 /* consecutive starts, so that reading the clock takes a small part of the time */
#define BATCHES 500

/* The time between two consecutive readings of the clock. */
static uint64_t clock_cost_ns(void)
{
    uint64_t costs[101];

    for (int n = 0; n < 101; n++) {
        uint64_t start_ns = now_ns();

        costs[n] = now_ns() - start_ns;
    }
    return median_of(costs, 101);
}

static int starts(struct tca_plan **plans, uint64_t *ret_ns)
{
    uint64_t start_ns = now_ns();
    int r = 0;

    for (int n = 0; r >= 0 && n < PLANS; n++)
        r = tca_start(plans[n]);
    *ret_ns = now_ns() - start_ns;
    for (int n = 0; r >= 0 && n < PLANS; n++)
        r = tca_wait(plans[n], TIMEOUT_NS);
    return r;
}

static int measure(struct tca_plan **plans, struct row *row)
{
    struct samples samples = {0};
    uint64_t clock_ns = clock_cost_ns();
    uint64_t took_ns;
    int r = 0;

    for (int n = 0; r >= 0 && n < BATCHES / 10; n++)
        r = starts(plans, &took_ns);
    for (int n = 0; r >= 0 && n < BATCHES; n++) {
        r = starts(plans, &took_ns);
        samples_add(&samples, took_ns > clock_ns ? took_ns - clock_ns : 0, PLANS);
    }
    if (r >= 0)
        samples_into(&samples, row);
    return r;
}

int bench_start(struct pair *pair, const struct variant *variant, uint64_t bytes, struct row *row)
{
    struct shape shape = pair_shape(variant->strided, bytes);
    struct tca_plan *plans[PLANS] = {0};
    int r = 0;

    for (int n = 0; r >= 0 && n < PLANS && pair->me == 0; n++)
        r = pair_plan(pair, variant, &shape, -1, &plans[n]);
    r = pair_agree(pair, r);
    if (r >= 0) /* rank 1 sleeps in the second pair_agree() meanwhile */
        r = pair_agree(pair, pair->me == 0 ? measure(plans, row) : 0);
    for (int n = 0; n < PLANS; n++)
        tca_plan_free(plans[n]);
    return r;
}
