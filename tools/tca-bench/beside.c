#include <string.h>

#include "tools/tca-bench/bench.h"

#define LONGS   11 /* long puts */
#define WORDS   8  /* round trips during each long put */
#define WARM_UP 2

/*
 * Round trips of eight bytes, alone and then during a long put of the same session on another
 * channel. The first round trip is timed from before the long put's tca_start(), so that it
 * includes that call; round trips that end after the long put are discarded.
 */
struct beside {
    struct pair *pair;
    struct tca_region *region; /* at both ranks: source and target of the long put */
    struct tca_plan *word;
    struct tca_plan *long_put; /* at rank 0 */
};

static int round_trip(struct beside *beside)
{
    int r;

    if (beside->pair->me == 1) {
        r = pair_wait(beside->pair, 0);
        if (r >= 0)
            r = tca_start(beside->word);
    } else {
        r = tca_start(beside->word);
        if (r >= 0)
            r = pair_wait(beside->pair, 1);
    }
    return r < 0 ? r : tca_wait(beside->word, TIMEOUT_NS);
}

static int alone(struct beside *beside, struct samples *samples)
{
    int r = 0;

    for (int n = 0; r >= 0 && n < (WARM_UP + LONGS) * WORDS; n++) {
        uint64_t start_ns = now_ns();

        r = round_trip(beside);
        if (n >= WARM_UP * WORDS)
            samples_add(samples, now_ns() - start_ns, 2);
    }
    return r;
}

/* Measures one long put. */
static int together(struct beside *beside, struct samples *samples, struct samples *longs)
{
    uint64_t first_ns = now_ns();
    int over = 0, r = beside->pair->me == 0 ? tca_start(beside->long_put) : 0;

    for (int n = 0; r >= 0 && n < WORDS; n++) {
        uint64_t start_ns = n == 0 ? first_ns : now_ns();

        r = round_trip(beside);
        if (r < 0 || beside->pair->me == 1)
            continue;
        uint64_t took_ns = now_ns() - start_ns;
        over = over ? over : tca_test(beside->long_put);
        if (over == 0 || n == 0)
            samples_add(samples, took_ns, 2);
    }
    if (r >= 0)
        r = beside->pair->me == 0 ? tca_wait(beside->long_put, TIMEOUT_NS)
                                  : pair_wait(beside->pair, 2);
    samples_add(longs, now_ns() - first_ns, 1);
    return r;
}

static int measure(struct beside *beside, struct row *row)
{
    static struct samples single, busy, longs, warm_up;
    int r;

    single.count = busy.count = longs.count = warm_up.count = 0;
    r = alone(beside, &single);
    for (int n = 0; r >= 0 && n < WARM_UP + LONGS; n++)
        r = n < WARM_UP ? together(beside, &warm_up, &warm_up) : together(beside, &busy, &longs);
    if (r < 0)
        return r;
    samples_into(&busy, row);
    row->alone_ns = samples_median_ns(&single);
    row->long_ns = samples_median_ns(&longs);
    return 0;
}

static int prepare(struct beside *beside, const struct variant *variant, uint64_t bytes)
{
    struct pair *pair = beside->pair;
    struct shape word = pair_shape(false, 8);
    struct shape shape = pair_shape(variant->strided, bytes);
    struct variant alone = *variant;
    struct tca_handle own, both[2];
    int r;

    alone.strided = false;
    r = pair_plan(pair, &alone, &word, pair->me == 0 ? 0 : 1, &beside->word);
    if (r >= 0)
        r = tca_region_alloc(pair->session, shape_span(&shape), &beside->region);
    if (r >= 0) {
        memset(tca_region_address(beside->region), 1, shape_span(&shape));
        r = tca_region_handle(beside->region, 0, TCA_ALL, &own);
    }
    r = pair_agree(pair, r);
    if (r >= 0)
        r = tca_allgather(pair->session, &own, sizeof(own), both, TCA_DEFAULT);
    if (r < 0 || pair->me == 1)
        return r;
    const struct route route = {.source = beside->region, .target = both[1], .channel = 1};
    return pair_plan_route(pair, variant, &route, &shape, 2, &beside->long_put);
}

int bench_beside(struct pair *pair, const struct variant *variant, uint64_t bytes, struct row *row)
{
    struct beside beside = {.pair = pair};
    int r = pair_agree(pair, prepare(&beside, variant, bytes));

    if (r >= 0)
        r = pair_agree(pair, measure(&beside, row));
    tca_plan_free(beside.word);
    tca_plan_free(beside.long_put);
    tca_barrier(pair->session, TCA_DEFAULT);
    tca_region_free(beside.region);
    return r;
}
