
#include "tools/tca-bench/bench.h"

#define WINDOW  16
#define WARM_UP 5

struct bandwidth {
    struct pair *pair;
    struct tca_plan *plans[WINDOW];
    struct tca_plan *answer; /* at rank 1 */
};

static int send_window(struct bandwidth *bandwidth)
{
    int r = 0;

    for (int n = 0; r >= 0 && n < WINDOW; n++)
        r = tca_start(bandwidth->plans[n]);
    for (int n = 0; r >= 0 && n < WINDOW; n++)
        r = tca_wait(bandwidth->plans[n], TIMEOUT_NS);
    return r < 0 ? r : pair_wait(bandwidth->pair, 1);
}

static int receive_window(struct bandwidth *bandwidth)
{
    int r = 0;

    for (int n = 0; r >= 0 && n < WINDOW; n++)
        r = pair_wait(bandwidth->pair, 0);
    if (r >= 0)
        r = tca_start(bandwidth->answer);
    return r < 0 ? r : tca_wait(bandwidth->answer, TIMEOUT_NS);
}

static int windows(struct bandwidth *bandwidth, uint64_t count, uint64_t *ret_ns)
{
    uint64_t start_ns = now_ns();
    int r = 0;

    while (r >= 0 && count--)
        r = bandwidth->pair->me == 0 ? send_window(bandwidth) : receive_window(bandwidth);
    *ret_ns = now_ns() - start_ns;
    return r;
}

static int prepare(struct bandwidth *bandwidth, const struct variant *variant, uint64_t bytes)
{
    struct shape shape = pair_shape(variant->strided, bytes);
    struct shape word = pair_shape(false, 8);
    int r = 0;

    if (bandwidth->pair->me == 1)
        return pair_plan(bandwidth->pair, variant, &word, 1, &bandwidth->answer);
    for (int n = 0; r >= 0 && n < WINDOW; n++)
        r = pair_plan(bandwidth->pair, variant, &shape, 0, &bandwidth->plans[n]);
    return r;
}

static int measure(struct bandwidth *bandwidth, struct row *row)
{
    struct samples samples = {0};
    struct schedule schedule;
    uint64_t took_ns;
    int r = windows(bandwidth, WARM_UP, &took_ns);

    if (r >= 0)
        r = schedule_agree(bandwidth->pair, took_ns / WARM_UP, &schedule);
    if (r >= 0)
        r = windows(bandwidth, 1, &took_ns);
    for (uint64_t batch = 0; r >= 0 && batch < schedule.batches; batch++) {
        r = windows(bandwidth, schedule.rounds, &took_ns);
        samples_add(&samples, took_ns, schedule.rounds * WINDOW);
    }
    if (r < 0)
        return r;
    samples_into(&samples, row);
    row->gbps = (double)row->bytes * 8 / row->median_ns;
    return 0;
}

int bench_bandwidth(struct pair *pair, const struct variant *variant, uint64_t bytes,
                    struct row *row)
{
    struct bandwidth bandwidth = {.pair = pair};
    int r = pair_agree(pair, prepare(&bandwidth, variant, bytes));

    if (r >= 0)
        r = pair_agree(pair, measure(&bandwidth, row));
    for (int n = 0; n < WINDOW; n++)
        tca_plan_free(bandwidth.plans[n]);
    tca_plan_free(bandwidth.answer);
    return r;
}
