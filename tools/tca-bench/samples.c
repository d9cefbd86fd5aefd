#include "tools/tca-bench/bench.h"

double samples_median_ns(struct samples *samples)
{
    return samples->count ? (double)median_of(samples->ps, samples->count) / 1000 : 0;
}

static double samples_p99_ns(struct samples *samples)
{
    if (!samples->count)
        return 0;
    qsort(samples->ps, samples->count, sizeof(samples->ps[0]), by_size);
    return (double)samples->ps[samples->count - 1 - samples->count / 100] / 1000;
}

void samples_into(struct samples *samples, struct row *row)
{
    row->samples = samples->count;
    row->median_ns = samples_median_ns(samples);
    row->p99_ns = samples_p99_ns(samples);
}

int schedule_agree(struct pair *pair, uint64_t round_ns, struct schedule *ret_schedule)
{
    const uint64_t batch_ns = 50000; /* 1000 times the clock's 50 ns */
    struct schedule schedule;
    int r;

    if (round_ns == 0)
        round_ns = 1;
    schedule.rounds = round_ns < batch_ns ? batch_ns / round_ns : 1;
    schedule.batches = (uint64_t)(pair->seconds * 1e9) / (schedule.rounds * round_ns);
    if (schedule.batches < 11)
        schedule.batches = 11;
    if (schedule.batches > SAMPLES_MAX)
        schedule.batches = SAMPLES_MAX;
    r = pair_share(pair, &schedule.rounds);
    if (r >= 0)
        r = pair_share(pair, &schedule.batches);
    if (r < 0)
        return r;
    *ret_schedule = schedule;
    return 0;
}
