#include <errno.h>

#include "tools/tca-bench/bench.h"

#define SAMPLES 500
#define WARM_UP 50

/*
 * Divides one transfer by time stamps: before tca_start(), in it, when the engine took the entry,
 * when it had posted the descriptor, when the peer's daemon raised the notification, and when the
 * peer's process saw it. The peer returns the last two in its reply, so both ranks must share a
 * clock.
 */
struct stamps {
    uint64_t raised_ns, seen_ns;
};

struct parts {
    struct samples total, start, ring, engine, wire, deliver;
};

static uint64_t since(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

static int ask(struct pair *pair, struct tca_plan *plan, struct parts *parts)
{
    struct tca_receipt receipt = {0};
    struct stamps stamps;
    uint64_t before_ns = now_ns();
    int r = tca_start(plan);

    if (r >= 0)
        r = pair_wait(pair, 0);
    if (r >= 0)
        r = tca_wait(plan, TIMEOUT_NS);
    if (r >= 0)
        r = tca_plan_receipt(plan, &receipt);
    if (r < 0 || !parts)
        return r;
    __builtin_memcpy(&stamps, pair->receive, sizeof(stamps));
    samples_add(&parts->total, since(before_ns, stamps.seen_ns), 1);
    samples_add(&parts->start, since(before_ns, receipt.start_ns), 1);
    samples_add(&parts->ring, since(receipt.start_ns, receipt.taken_ns), 1);
    samples_add(&parts->engine, since(receipt.taken_ns, receipt.posted_ns), 1);
    samples_add(&parts->wire, since(receipt.posted_ns, stamps.raised_ns), 1);
    samples_add(&parts->deliver, since(stamps.raised_ns, stamps.seen_ns), 1);
    return 0;
}

static int answer(struct pair *pair, struct tca_plan *plan)
{
    struct stamps stamps;
    int r = pair_wait(pair, 0);

    if (r < 0)
        return r;
    stamps.seen_ns = now_ns();
    stamps.raised_ns = tca_notified_ns(pair->session, pair->peer, 0);
    __builtin_memcpy(pair->send, &stamps, sizeof(stamps));
    r = tca_start(plan);
    return r < 0 ? r : tca_wait(plan, TIMEOUT_NS);
}

static int measure(struct pair *pair, struct tca_plan *plan, struct row *row)
{
    struct parts *parts = calloc(1, sizeof(*parts));
    int r = parts ? 0 : -ENOMEM;

    for (int n = 0; r >= 0 && n < WARM_UP + SAMPLES; n++)
        r = pair->me == 1 ? answer(pair, plan) : ask(pair, plan, n < WARM_UP ? NULL : parts);
    if (r >= 0) {
        samples_into(&parts->total, row);
        row->start_ns = samples_median_ns(&parts->start);
        row->ring_ns = samples_median_ns(&parts->ring);
        row->engine_ns = samples_median_ns(&parts->engine);
        row->wire_ns = samples_median_ns(&parts->wire);
        row->deliver_ns = samples_median_ns(&parts->deliver);
    }
    free(parts);
    return r;
}

int bench_breakdown(struct pair *pair, const struct variant *variant, uint64_t bytes,
                    struct row *row)
{
    struct shape shape = pair_shape(false, pair->me == 0 ? bytes : sizeof(struct stamps));
    struct tca_plan *plan = NULL;
    int r = pair_agree(pair,
                       pair->same_clock ? pair_plan(pair, variant, &shape, 0, &plan) : -EOPNOTSUPP);

    if (r >= 0)
        r = pair_agree(pair, measure(pair, plan, row));
    tca_plan_free(plan);
    return r;
}
