/*
 * commit_tca: the cost of committing a layout of many irregular blocks, and a plan with it, and the
 * cost of a start for the caller in the daemon's seat. Two ranks of a group on one node; rank 0
 * writes lines of JSON.
 *
 *     tca-cluster run -n 1 --ppn 2 --bind -- commit_tca COUNT[,COUNT...] REPEATS
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/commitbench/blocks.h"
#include "tests/bench/commitbench/ranks_tca.h"
#include "tools/tca-bench/work.h"

#define STARTS 200

struct ours {
    struct ranks ranks;
    struct tca_layout *element;
    const struct blocks *blocks; /* two lists of as many */
    struct tca_plan *answer;     /* rank 1's reply that the data has arrived */
};

static struct tca_layout *make_layout(const struct ours *ours, int number)
{
    const struct blocks *blocks = &ours->blocks[number];
    struct tca_layout *layout;

    check(tca_layout_hindexed(ours->element, blocks->count, blocks->lengths, blocks->offsets,
                              &layout),
          "making a layout");
    return layout;
}

static struct tca_plan *make_plan(const struct ours *ours, const struct tca_layout *from,
                                  const struct tca_layout *to, enum tca_seat seat)
{
    struct tca_plan_args args = {.name = "commit", .seat = seat};
    struct tca_put put = {.source = ours->ranks.region,
                          .source_layout = from,
                          .target = ours->ranks.handles[1],
                          .target_layout = to};
    struct tca_plan *plan;

    check(tca_plan_new(ours->ranks.session, &args, &plan), "making a plan");
    check(tca_plan_put(plan, &put), "adding a put");
    check(tca_plan_notify(plan, 1, 0), "adding a notify");
    check(tca_plan_commit(plan, TCA_DEFAULT), "committing");
    return plan;
}

/* A put there, and a reply when it has arrived. */
static uint64_t transfer(const struct ours *ours, struct tca_plan *plan)
{
    uint64_t begin_ns = now_ns();

    check(tca_start(plan), "starting");
    check(tca_notified_wait(ours->ranks.session, 1, 0, PATIENCE_NS), "waiting for the answer");
    check(tca_wait(plan, PATIENCE_NS), "waiting for the end");
    return now_ns() - begin_ns;
}

static void answer(const struct ours *ours)
{
    check(tca_notified_wait(ours->ranks.session, 0, 0, PATIENCE_NS), "waiting for data");
    check(tca_start(ours->answer), "answering");
    check(tca_wait(ours->answer, PATIENCE_NS), "answering");
}

static void run_once(const struct ours *ours, enum sides sides, struct report *report)
{
    uint64_t phases_ns[PHASES];
    uint64_t begin_ns = now_ns(), made_ns;
    struct tca_layout *from = make_layout(ours, 0), *other = NULL;
    struct tca_plan *plan;

    made_ns = now_ns();
    phases_ns[PHASE_LAYOUT] = made_ns - begin_ns;
    if (sides == SIDES_BOTH)
        other = make_layout(ours, 1);
    made_ns = now_ns();
    plan = make_plan(ours, from, sides == SIDES_SAME ? from : other, TCA_SEAT_ANY);
    phases_ns[PHASE_PLAN] = now_ns() - made_ns;
    phases_ns[PHASE_FIRST] = transfer(ours, plan);
    phases_ns[PHASE_LATER] = transfer(ours, plan);
    tca_plan_free(plan);
    tca_layout_free(from);
    tca_layout_free(other);
    report_add(report, phases_ns);
}

/* The time of the call alone: the daemon copies. */
static void run_starts(const struct ours *ours)
{
    uint64_t samples[STARTS];
    struct tca_layout *layout = make_layout(ours, 0);
    struct tca_plan *plan = make_plan(ours, layout, layout, TCA_SEAT_DAEMON);

    for (int i = 0; i < STARTS; i++) {
        uint64_t begin_ns = now_ns();

        check(tca_start(plan), "starting");
        samples[i] = now_ns() - begin_ns;
        check(tca_wait(plan, PATIENCE_NS), "waiting for the end");
    }
    printf("{\"blocks\":%" PRIu64 ",\"start_us\":%.3f}\n", ours->blocks->count,
           (double)median_of(samples, STARTS) / 1e3);
    fflush(stdout);
    tca_plan_free(plan);
    tca_layout_free(layout);
}

static void run_count(struct ours *ours, uint64_t count, uint64_t repeats)
{
    struct blocks blocks[2];

    for (int i = 0; i < 2; i++)
        blocks_init(&blocks[i], count, i);
    ours->blocks = blocks;
    for (enum sides sides = SIDES_ONE; sides <= SIDES_SAME; sides++) {
        struct report report;

        report_init(&report, repeats);
        for (uint64_t n = 0; n < repeats; n++) {
            if (tca_rank(ours->ranks.session) == 0) {
                run_once(ours, sides, &report);
            } else {
                answer(ours);
                answer(ours);
            }
        }
        if (tca_rank(ours->ranks.session) == 0)
            report_say(&report, count, sides);
        report_deinit(&report);
    }
    if (tca_rank(ours->ranks.session) == 0)
        run_starts(ours);
    else
        for (int i = 0; i < STARTS; i++)
            check(tca_notified_wait(ours->ranks.session, 0, 0, PATIENCE_NS), "waiting for data");
    for (int i = 0; i < 2; i++)
        blocks_deinit(&blocks[i]);
}

static void open_all(struct ours *ours, uint64_t bytes)
{
    ranks_open(&ours->ranks, bytes);
    check(tca_layout_element(TCA_TYPE_DOUBLE, &ours->element), "making an element");
    check(tca_plan_new(ours->ranks.session, NULL, &ours->answer), "making a plan");
    check(tca_plan_notify(ours->answer, 1 - tca_rank(ours->ranks.session), 0), "adding a notify");
    check(tca_plan_commit(ours->answer, TCA_DEFAULT), "committing");
}

int main(int argc, char **argv)
{
    uint64_t counts[COUNTS_MAX + 1];
    struct ours ours = {0};
    uint64_t most = 0;
    uint64_t repeats = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;

    if (repeats == 0 || counts_parse(argv[1], counts) < 0) {
        fputs("Usage, under tca-cluster run with two ranks: commit_tca COUNT[,COUNT...] REPEATS\n",
              stderr);
        return 2;
    }
    for (int i = 0; counts[i]; i++)
        most = counts[i] > most ? counts[i] : most;
    open_all(&ours, blocks_span_bytes(most));
    for (int i = 0; counts[i]; i++)
        run_count(&ours, counts[i], repeats);
    tca_plan_free(ours.answer);
    tca_layout_free(ours.element);
    ranks_close(&ours.ranks);
    return 0;
}
