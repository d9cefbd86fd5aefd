/*
 * puts_tca: what it costs to commit a plan of many puts, and a plan of as many for each message:
 * made, committed, started, waited for and freed. Two ranks of a group, on one node or on two; rank
 * 0 writes lines of JSON.
 *
 *     tca-cluster run -n 1 --ppn 2 --bind -- puts_tca COUNT[,COUNT...] REPEATS
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/commitbench/blocks.h"
#include "tests/bench/commitbench/ranks_tca.h"
#include "tools/tca-bench/work.h"

enum { PUT_BYTES = 64 };

/* So many puts side by side, followed by a notification. */
static struct tca_plan *describe(const struct ranks *ranks, uint64_t count, enum tca_seat seat)
{
    const struct tca_plan_args args = {.name = "puts", .seat = seat};
    struct tca_plan *plan;

    check(tca_plan_new(ranks->session, &args, &plan), "making a plan");
    for (uint64_t i = 0; i < count; i++)
        check(tca_plan_put(plan, &(struct tca_put){.source = ranks->region,
                                                   .source_offset_bytes = i * PUT_BYTES,
                                                   .target = ranks->handles[1],
                                                   .target_offset_bytes = i * PUT_BYTES,
                                                   .bytes = PUT_BYTES}),
              "adding a put");
    check(tca_plan_notify(plan, 1, 0), "adding a notify");
    return plan;
}

static void run_once(const struct ranks *ranks, uint64_t count, enum tca_seat seat,
                     uint64_t *ret_commit_ns, uint64_t *ret_message_ns)
{
    const uint64_t begin_ns = now_ns();
    struct tca_plan *plan = describe(ranks, count, seat);
    const uint64_t described_ns = now_ns();

    check(tca_plan_commit(plan, PATIENCE_NS), "committing");
    *ret_commit_ns = now_ns() - described_ns;
    check(tca_start(plan), "starting");
    check(tca_wait(plan, PATIENCE_NS), "waiting for the end");
    tca_plan_free(plan);
    *ret_message_ns = now_ns() - begin_ns;
}

static void run_count(const struct ranks *ranks, uint64_t count, enum tca_seat seat,
                      uint64_t repeats)
{
    uint64_t *commit_ns = calloc(repeats, sizeof(*commit_ns));
    uint64_t *message_ns = calloc(repeats, sizeof(*message_ns));

    if (!commit_ns || !message_ns)
        check(-ENOMEM, "making room for samples");
    for (uint64_t n = 0; n < repeats; n++)
        run_once(ranks, count, seat, &commit_ns[n], &message_ns[n]);
    printf("{\"puts\":%" PRIu64 ",\"nodes\":%d,\"seat\":\"%s\",\"commit_us\":%.3f,"
           "\"message_us\":%.3f}\n",
           count, tca_node_of(ranks->session, 0) == tca_node_of(ranks->session, 1) ? 1 : 2,
           tca_seat_name(seat), (double)median_of(commit_ns, repeats) / 1e3,
           (double)median_of(message_ns, repeats) / 1e3);
    fflush(stdout);
    free(commit_ns);
    free(message_ns);
}

static void run_seat(const struct ranks *ranks, const uint64_t *counts, enum tca_seat seat,
                     uint64_t repeats)
{
    for (int i = 0; counts[i]; i++)
        run_count(ranks, counts[i], seat, repeats);
}

int main(int argc, char **argv)
{
    uint64_t counts[COUNTS_MAX + 1];
    struct ranks ranks;
    uint64_t most = 0;
    uint64_t repeats = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;

    if (repeats == 0 || counts_parse(argv[1], counts) < 0) {
        fputs("Usage, under tca-cluster run with two ranks: puts_tca COUNT[,COUNT...] REPEATS\n",
              stderr);
        return 2;
    }
    for (int i = 0; counts[i]; i++)
        most = counts[i] > most ? counts[i] : most;
    ranks_open(&ranks, most * PUT_BYTES);
    if (tca_rank(ranks.session) == 0) {
        if (tca_node_of(ranks.session, 0) == tca_node_of(ranks.session, 1))
            run_seat(&ranks, counts, TCA_SEAT_CLIENT, repeats);
        run_seat(&ranks, counts, TCA_SEAT_DAEMON, repeats);
    }
    ranks_close(&ranks);
    return 0;
}
