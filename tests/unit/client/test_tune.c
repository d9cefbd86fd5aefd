/* The choice by trial, with simulated applications: noise, spikes, drift, and other plans that tune
 * themselves at the same time. */
#include <criterion/criterion.h>
#include <math.h>

#include "client/plan/tune.h"
#include "tests/unit/proto/random.h"

enum { SEEDS = 1000, PATIENCE = 5000 };

/* An application: the time of a start with each candidate, and its variation. */
struct application {
    double cost_ns[TUNE_CANDIDATES_MAX];
    unsigned candidates;
    double noise;  /* standard deviation, as a part of the time */
    double spikes; /* share of starts in which others use the processor */
    double drift;  /* growth of all times per start */
    double first;  /* share that the first start after a change takes longer */
};

static const struct application usual = {
    .cost_ns = {9000, 7000, 14000, 8000, 7500, 40000, 12000}, .candidates = 7, .noise = 0.03};

static double uniform(struct random *random)
{
    return (double)random_below(random, 1 << 30) / (1 << 30);
}

/* Of about one standard deviation. */
static double noise(struct random *random)
{
    double sum = 0;
    for (unsigned i = 0; i < 12; i++)
        sum += uniform(random);
    return sum - 6;
}

static double time_of(const struct application *app, unsigned candidate, unsigned start,
                      bool changed, struct random *random)
{
    double ns = app->cost_ns[candidate] * (1 + app->noise * noise(random)) *
                (1 + app->drift * start) * (changed ? 1 + app->first : 1);
    return uniform(random) < app->spikes ? ns + 4e6 * uniform(random) : ns;
}

/* How much longer than necessary the application takes with the choice. */
static double regret(const struct application *app, unsigned choice)
{
    double least = INFINITY;
    for (unsigned i = 0; i < app->candidates; i++)
        least = fmin(least, app->cost_ns[i]);
    return app->cost_ns[choice] / least - 1;
}

/* `count` plans, started one after the other in each step, possibly of several processes: each sees
 * the time of the whole step. Returns the starts until all have settled. */
static unsigned tune_together(const struct application *app, unsigned count, uint64_t seed,
                              unsigned *ret_choices)
{
    struct tune tunes[8];
    unsigned last[8] = {0}, start = 0, settled = 0;
    struct random random = {seed};
    double now_ns = 1e9;
    for (unsigned i = 0; i < count; i++)
        tune_init(&tunes[i], app->candidates, 0, 1, random_next(&random));
    for (; settled < count && start < PATIENCE; start++) {
        settled = 0;
        for (unsigned i = 0; i < count; i++) {
            const unsigned candidate = tune_start(&tunes[i], (uint64_t)now_ns);
            cr_assert(candidate < app->candidates);
            now_ns += time_of(app, candidate, start, candidate != last[i], &random);
            last[i] = ret_choices[i] = candidate;
            settled += tune_settled(&tunes[i]);
        }
    }
    return start;
}

/* How many of all choices cost more than `most`. */
static unsigned bad_choices(const struct application *app, unsigned count, double most)
{
    unsigned choices[8], bad = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        cr_assert(tune_together(app, count, seed, choices) < PATIENCE, "seed %lu", seed);
        for (unsigned i = 0; i < count; i++)
            bad += regret(app, choices[i]) > most;
    }
    return bad;
}

Test(tune, finds_the_fastest)
{
    cr_assert(bad_choices(&usual, 1, 0) <= SEEDS / 100);
}

Test(tune, every_candidate_can_win)
{
    struct application app = usual;
    for (unsigned best = 0; best < app.candidates; best++) {
        unsigned choice;
        for (unsigned i = 0; i < app.candidates; i++)
            app.cost_ns[i] = i == best ? 5000 : 6000;
        tune_together(&app, 1, best + 1, &choice);
        cr_assert(choice == best, "%u, not %u", choice, best);
    }
}

Test(tune, noise)
{
    struct application app = usual;
    app.noise = 0.2;
    app.first = 0.5;
    cr_assert(bad_choices(&app, 1, 0.08) <= SEEDS * 3 / 100);
}

Test(tune, spikes)
{
    struct application app = usual;
    app.spikes = 0.1; /* a third of the blocks */
    cr_assert(bad_choices(&app, 1, 0.08) <= SEEDS * 2 / 100);
}

Test(tune, drift)
{
    struct application app = usual;
    app.drift = 0.002; /* twice as long after 500 starts */
    cr_assert(bad_choices(&app, 1, 0.08) <= SEEDS * 2 / 100);
}

/* In step, each would take the others' trials for its own. */
Test(tune, several_at_once)
{
    struct application app = usual;
    app.cost_ns[5] = 20000;
    cr_assert(bad_choices(&app, 2, 0.08) <= 2 * SEEDS * 3 / 100);
    cr_assert(bad_choices(&app, 6, 0.15) <= 6 * SEEDS * 8 / 100);
}

/* `count` processes that put alike to each other in every iteration, which lasts as long as the
 * slowest candidate. Each reads its own clock. Returns how many choices cost more than `most`. */
static unsigned exchange(const struct application *app, unsigned count, uint64_t seed, double most)
{
    struct tune tunes[8];
    unsigned last = 0, settled = 0, bad = 0;
    struct random random = {seed};
    double now_ns = 1e9;
    for (unsigned i = 0; i < count; i++)
        tune_init(&tunes[i], app->candidates, 2, 1, seed);
    for (unsigned start = 0; settled < count && start < PATIENCE; start++) {
        double longest_ns = 0;
        settled = 0;
        for (unsigned i = 0; i < count; i++) {
            const double skew_ns = 200 * uniform(&random);
            const unsigned candidate = tune_start(&tunes[i], (uint64_t)(now_ns + skew_ns));
            longest_ns =
                fmax(longest_ns, time_of(app, candidate, start, candidate != last, &random));
            last = candidate;
            settled += tune_settled(&tunes[i]);
        }
        now_ns += longest_ns;
    }
    cr_assert_eq(settled, count);
    for (unsigned i = 0; i < count; i++)
        bad += regret(app, tune_candidate(&tunes[i])) > most;
    return bad;
}

Test(tune, processes_that_exchange)
{
    for (unsigned count = 2; count <= 8; count += 2) {
        struct application app = usual;
        unsigned bad = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            bad += exchange(&app, count, seed, 0.08);
        cr_expect(bad <= count * SEEDS / 100, "%u processes: %u of %u", count, bad, count * SEEDS);
    }
}

/* Whatever they measure, and even if they drop different candidates, most of the time two try the
 * same. */
Test(tune, one_seed_is_one_order)
{
    struct tune tunes[2];
    struct random random = {3};
    uint64_t now_ns[2] = {1, 1};
    unsigned starts = 0, same = 0, before_a_drop = 0;
    for (unsigned i = 0; i < 2; i++)
        tune_init(&tunes[i], usual.candidates, i, 1, 11);
    for (; !tune_settled(&tunes[0]) && !tune_settled(&tunes[1]); starts++) {
        unsigned candidates[2];
        for (unsigned i = 0; i < 2; i++) {
            candidates[i] = tune_start(&tunes[i], now_ns[i]);
            now_ns[i] += 1000 + random_below(&random, 100);
        }
        same += candidates[0] == candidates[1];
        if (tunes[0].left == usual.candidates && tunes[1].left == usual.candidates) {
            cr_assert_eq(candidates[0], candidates[1]);
            before_a_drop++;
        }
    }
    cr_expect(starts > 100 && before_a_drop > 50, "%u, %u", starts, before_a_drop);
    cr_expect(same >= starts / 2, "%u of %u", same, starts);
}

/* The first choice stays if others are hardly faster. */
Test(tune, the_favourite_stays)
{
    const struct application app = {
        .cost_ns = {1000, 995, 998, 1000}, .candidates = 4, .noise = 0.01};
    unsigned kept = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        unsigned choice;
        tune_together(&app, 1, seed, &choice);
        kept += choice == 0;
    }
    cr_assert(kept > SEEDS * 8 / 10, "%u", kept);
}

Test(tune, the_hopeless_leave_soon)
{
    struct application app = usual;
    struct tune tune;
    struct random random = {5};
    unsigned starts = 0;
    double now_ns = 1;
    app.cost_ns[5] = 1e6;
    tune_init(&tune, app.candidates, 0, 1, 7);
    while (!tune_settled(&tune)) {
        const unsigned candidate = tune_start(&tune, (uint64_t)now_ns);
        starts += candidate == 5;
        now_ns += time_of(&app, candidate, 0, false, &random);
    }
    cr_assert(starts > 0 && starts <= 12, "%u", starts);
    cr_assert(tune_quartile_ns(&tune, 5) > 5e5f && tune_quartile_ns(&tune, 1) < 1e4f);
}

Test(tune, it_takes_some_hundred_starts)
{
    unsigned choice, all = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        all += tune_together(&usual, 1, seed, &choice);
    cr_assert(all / SEEDS > 100 && all / SEEDS < 500, "%u", all / SEEDS);
}

/* Runs a tune of long blocks to its end; the caller ends the blocks. Returns the choice. */
static unsigned tune_stretched(const double start_ns[2], const double late_ns[2], double held_ns,
                               unsigned held_every, uint64_t seed)
{
    struct tune tune;
    double now_ns = 1e9;
    unsigned start = (unsigned)seed, counted = 0;
    tune_init(&tune, 2, 0, TUNE_STRETCH_MAX, seed);
    while (!tune_settled(&tune)) {
        if (tune_over(&tune)) {
            cr_assert(counted > TUNE_STRETCH_MAX * TUNE_COUNTED_MIN &&
                          counted <= TUNE_STRETCH_MAX * TUNE_COUNTED_MAX + 1,
                      "%u", counted);
            tune_end(&tune, (uint64_t)now_ns, (uint64_t)(late_ns[tune_candidate(&tune)] * counted));
            now_ns += 1e6; /* does not count */
            counted = 0;
            continue;
        }
        const unsigned candidate = tune_candidate(&tune);
        cr_assert_eq(tune_start(&tune, (uint64_t)now_ns), candidate);
        now_ns += start_ns[candidate] + (++start % held_every == 0 ? held_ns : 0);
        counted++;
    }
    return tune_candidate(&tune);
}

Test(tune, long_blocks_end_when_all_has_arrived)
{
    const double none[2] = {0}, slow_and_fast[2] = {20000, 18000}, equal[2] = {20000, 20000};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        cr_assert_eq(tune_stretched(slow_and_fast, none, 0, 1, seed), 1);
        cr_assert_eq(tune_stretched(equal, (double[]){4000, 0}, 0, 1, seed), 1);
        cr_assert_eq(tune_stretched(slow_and_fast, (double[]){0, 4000}, 0, 1, seed), 0);
    }
}

Test(tune, starts_that_were_held_up_do_not_count_in_long_blocks)
{
    const double none[2] = {0}, slow_and_fast[2] = {20000, 19000};
    unsigned wrong = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        wrong += tune_stretched(slow_and_fast, none, 1e6, 6, seed) != 1;
    cr_assert(wrong <= SEEDS / 100, "%u", wrong);
}

Test(tune, one_candidate_is_the_choice)
{
    struct tune tune;
    tune_init(&tune, 1, 0, 1, 3);
    cr_assert(tune_settled(&tune) && tune_start(&tune, 1) == 0);
    cr_assert(tune_quartile_ns(&tune, 0) == 0);
}
