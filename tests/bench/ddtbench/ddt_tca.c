/*
 * ddt_tca: the patterns by plans. Two ranks of a group on one node; rank 0 writes a line of JSON
 * for each pattern to stdout.
 *
 *     tca-cluster run -n 1 --ppn 2 --bind -- ddt_tca SIDE_FILE SECONDS CHECK NUMBER[,NUMBER...]
 */
#include <stdio.h>
#include <string.h>
#include <tca.h>

#include "tests/bench/ddtbench/arguments.h"
#include "tests/bench/ddtbench/measure.h"
#include "tests/bench/ddtbench/tca_layouts.h"

#define PATIENCE_NS     INT64_C(60000000000)
#define WAYS            16 /* more than tca_way has */
#define WAY_STARTS      9
#define TUNE_STEP       20
#define TUNE_STARTS_MAX 4000

struct ours {
    struct tca *session;
    struct tca_region *region;
    struct tca_handle handles[2];
    struct bench *bench;
    uint32_t peer;
    struct tca_plan *plans[2]; /* by the half that is sent from; a ping-pong has one */
};

static int explain(const struct ours *ours, const char *what, int r)
{
    if (r < 0)
        fprintf(stderr, "ddt: rank %u: %s, %llu bytes: %s: %s (%s)\n", 1 - ours->peer,
                ours->bench->pattern.name, (unsigned long long)ours->bench->pattern.bytes, what,
                tca_error_text(), tca_strerror(r));
    return r;
}

/* ---- how it moves */

static int send_one(void *context)
{
    struct ours *ours = context;

    return tca_start(ours->plans[0]);
}

static int receive_one(void *context)
{
    struct ours *ours = context;

    return tca_notified_wait(ours->session, ours->peer, 0, PATIENCE_NS);
}

/* The source may be written again after this. The reply implies that at the initiator; the wait
 * only collects it. */
static int settle(void *context)
{
    struct ours *ours = context;

    return tca_wait(ours->plans[0], PATIENCE_NS);
}

static int swap(void *context, int half)
{
    struct ours *ours = context;
    int r = tca_start(ours->plans[half]);

    if (r >= 0)
        r = tca_notified_wait(ours->session, ours->peer, (uint32_t)half, PATIENCE_NS);
    return r < 0 ? r : tca_wait(ours->plans[half], PATIENCE_NS);
}

/* ---- plans */

static int add_put(struct ours *ours, struct tca_plan *plan, int half, uint32_t to,
                   const struct tca_layout *from_layout, const struct tca_layout *to_layout)
{
    const struct pattern *pattern = &ours->bench->pattern;
    struct tca_put put = {
        .source = ours->region,
        .source_offset_bytes = (uint64_t)pattern_send_at(pattern, half, to),
        .source_layout = from_layout,
        .target = ours->handles[to],
        .target_offset_bytes = (uint64_t)pattern_receive_at(pattern, half, 1 - ours->peer),
        .target_layout = to_layout,
    };

    return tca_plan_put(plan, &put);
}

/* The peer's part goes first; in an exchange, this rank's own part is copied while the peer
 * works. */
static int make_plan(struct ours *ours, int half, const struct tca_layout *from,
                     const struct tca_layout *to)
{
    struct tca_plan_args args = {.name = ours->bench->pattern.name};
    int r = tca_plan_new(ours->session, &args, &ours->plans[half]);

    if (r >= 0)
        r = add_put(ours, ours->plans[half], half, ours->peer, from, to);
    if (r >= 0)
        r = tca_plan_notify(ours->plans[half], ours->peer, (uint32_t)half);
    if (r >= 0 && ours->bench->pattern.exchange)
        r = add_put(ours, ours->plans[half], half, 1 - ours->peer, from, to);
    if (r >= 0)
        r = tca_plan_commit(ours->plans[half], TCA_DEFAULT);
    return r;
}

static int make_plans(struct ours *ours)
{
    struct tca_layout *from = NULL;
    struct tca_layout *to = NULL;
    int r = tca_layout_of(ours->bench->pattern.send, &from);

    if (r >= 0)
        r = tca_layout_of(ours->bench->pattern.receive, &to);
    for (int half = 0; half < (ours->bench->pattern.exchange ? 2 : 1) && r >= 0; half++)
        r = make_plan(ours, half, from, to);
    tca_layout_free(from);
    tca_layout_free(to);
    return r;
}

static void free_plans(struct ours *ours)
{
    for (int half = 0; half < 2; half++)
        ours->plans[half] = tca_plan_free(ours->plans[half]);
}

/* ---- all of it */

/* By client or daemon, and the copy mode in the client's seat: that of most of some starts, because
 * each may differ. */
static int find_way(struct ours *ours, const struct mover *mover, char *ret_way, size_t bytes)
{
    uint32_t counts[WAYS] = {0};
    uint32_t most = 0;
    struct tca_receipt receipt = {0};
    int r = 0;

    for (int n = 0; n < WAY_STARTS && r >= 0; n++) {
        r = bench_round(ours->bench, mover);
        if (r >= 0)
            r = tca_plan_receipt(ours->plans[0], &receipt);
        if (r >= 0 && (uint32_t)receipt.way < WAYS)
            counts[receipt.way]++;
    }
    for (uint32_t way = 0; way < WAYS; way++)
        if (counts[way] > counts[most])
            most = way;
    if (most != TCA_WAY_NONE)
        snprintf(ret_way, bytes, "%s", tca_way_name((enum tca_way)most));
    else
        snprintf(ret_way, bytes, "%s/%s", tca_rail_name(receipt.rail), tca_seat_name(receipt.seat));
    return r;
}

/* Until the plans of both have found how to copy; *ret_starts: of each. Plans that the receiver
 * cannot help try nothing. */
static int tune(struct ours *ours, const struct mover *mover, uint64_t *ret_starts)
{
    struct tca_receipt receipt = {0};
    uint64_t trying = 1;
    int r = 0;
    for (*ret_starts = 0; trying && *ret_starts < TUNE_STARTS_MAX && r >= 0;
         *ret_starts += TUNE_STEP) {
        for (int n = 0; n < TUNE_STEP && r >= 0; n++)
            r = bench_round(ours->bench, mover);
        trying = 0;
        for (int half = 0; half < 2 && r >= 0; half++)
            if (ours->plans[half] && tca_plan_receipt(ours->plans[half], &receipt) >= 0)
                trying |= receipt.trying;
        trying = side_most(ours->bench->side, trying);
    }
    return r;
}

static int run_plans(struct ours *ours)
{
    struct mover mover = {
        .send = send_one, .receive = receive_one, .settle = settle, .swap = swap, .context = ours};
    struct timing timing;
    uint64_t starts;
    char way[64];
    int r = bench_check(ours->bench, &mover, "plans", ours->bench->check_gaps);

    if (r < 0)
        return r;
    r = explain(ours, "tuning", tune(ours, &mover, &starts));
    if (r >= 0)
        r = explain(ours, "measuring", bench_time(ours->bench, &mover, &timing));
    timing.starts = starts;
    if (r >= 0)
        r = explain(ours, "receipt", find_way(ours, &mover, way, sizeof(way)));
    if (r >= 0)
        bench_report(ours->bench, "plans", way, &timing);
    return r;
}

static int run_pattern(struct ours *ours, uint32_t number)
{
    int r;

    bench_begin(ours->bench, number);
    r = make_plans(ours);
    explain(ours, "making the plan", r);
    r = side_most(ours->bench->side, r < 0) ? -1 : run_plans(ours);
    side_meet(ours->bench->side); /* no plan is freed while the other rank still needs it */
    free_plans(ours);
    bench_end(ours->bench);
    return r;
}

static int open_region(struct ours *ours, uint64_t bytes)
{
    struct tca_handle own;
    int r = tca_region_alloc(ours->session, bytes, &ours->region);

    if (r >= 0)
        r = tca_region_handle(ours->region, 0, TCA_ALL, &own);
    if (r >= 0)
        r = tca_allgather(ours->session, &own, sizeof(own), ours->handles, PATIENCE_NS);
    if (r < 0)
        return r;
    ours->bench->area = tca_region_address(ours->region);
    memset(ours->bench->area, 1, bytes);
    return 0;
}

static int run(const struct arguments *arguments)
{
    struct side side;
    struct bench bench = {
        .side = &side, .seconds = arguments->seconds, .check_gaps = arguments->check_gaps};
    struct ours ours = {.bench = &bench};
    int r = tca_open(NULL, &ours.session);

    if (r < 0 || tca_size(ours.session) != 2) {
        fprintf(stderr, "ddt: %s\n", r < 0 ? tca_error_text() : "it takes two ranks");
        tca_close(ours.session);
        return -1;
    }
    bench.me = (int)tca_rank(ours.session);
    ours.peer = 1 - (uint32_t)bench.me;
    side_open(&side, arguments->side_path, bench.me);
    r = open_region(&ours, arguments->area_bytes);
    if (r < 0)
        fprintf(stderr, "ddt: rank %d: %s\n", bench.me, tca_error_text());
    r = side_most(&side, r < 0) ? -1 : 0;
    for (uint32_t i = 0; i < arguments->count && r >= 0; i++)
        r = run_pattern(&ours, arguments->numbers[i]);
    side_close(&side);
    tca_close(ours.session);
    return r;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    int r = arguments_init(&arguments, argc, argv);

    if (r < 0) {
        fputs("Usage, under tca-cluster run with two ranks: ddt_tca " ARGUMENTS_USAGE "\n", stderr);
        return 2;
    }
    r = run(&arguments);
    arguments_deinit(&arguments);
    return r < 0 ? 1 : 0;
}
