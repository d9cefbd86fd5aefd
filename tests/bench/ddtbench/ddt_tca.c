/*
 * ddt_tca: the patterns by plans. Two ranks of a group on one node; rank 0 writes a line of JSON
 * for each pattern to stdout.
 *
 *     tca-cluster run -n 1 --ppn 2 --bind -- ddt_tca SIDE_FILE SECONDS CHECK NUMBER[,NUMBER...]
 */
#include <string.h>

#include "tests/bench/check.h"
#include "tests/bench/ddtbench/arguments.h"
#include "tests/bench/ddtbench/measure.h"
#include "tests/bench/ddtbench/tca_layouts.h"

#define PATIENCE_NS     INT64_C(60000000000)
#define WAYS            16 /* more than there are copy methods */
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

/* ---- how it moves */

static void send_one(void *context)
{
    struct ours *ours = context;

    check(tca_start(ours->plans[0]), "starting");
}

static void receive_one(void *context)
{
    struct ours *ours = context;

    check(tca_notified_wait(ours->session, ours->peer, 0, PATIENCE_NS), "waiting for data");
}

/* The source may be written again after this. The reply implies that at the initiator; the wait
 * only collects it. */
static void settle(void *context)
{
    struct ours *ours = context;

    check(tca_wait(ours->plans[0], PATIENCE_NS), "waiting for the end");
}

static void swap(void *context, int half)
{
    struct ours *ours = context;

    check(tca_start(ours->plans[half]), "starting");
    check(tca_notified_wait(ours->session, ours->peer, (uint32_t)half, PATIENCE_NS),
          "waiting for data");
    check(tca_wait(ours->plans[half], PATIENCE_NS), "waiting for the end");
}

/* ---- plans */

static void add_put(struct ours *ours, int half, uint32_t to, const struct tca_layout *from_layout,
                    const struct tca_layout *to_layout)
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

    check(tca_plan_put(ours->plans[half], &put), "adding a put");
}

/* The peer's part goes first; in an exchange, this rank's own part is copied while the peer
 * works. */
static void make_plans(struct ours *ours)
{
    const struct pattern *pattern = &ours->bench->pattern;
    struct tca_layout *from, *to;

    check(tca_layout_of(pattern->send, &from), "making a layout");
    check(tca_layout_of(pattern->receive, &to), "making a layout");
    for (int half = 0; half < (pattern->exchange ? 2 : 1); half++) {
        struct tca_plan_args args = {.name = pattern->name};
        check(tca_plan_new(ours->session, &args, &ours->plans[half]), "making a plan");
        add_put(ours, half, ours->peer, from, to);
        check(tca_plan_notify(ours->plans[half], ours->peer, (uint32_t)half), "adding a notify");
        if (pattern->exchange)
            add_put(ours, half, 1 - ours->peer, from, to);
        check(tca_plan_commit(ours->plans[half], TCA_DEFAULT), "committing");
    }
    tca_layout_free(from);
    tca_layout_free(to);
}

static void free_plans(struct ours *ours)
{
    for (int half = 0; half < 2; half++)
        ours->plans[half] = tca_plan_free(ours->plans[half]);
}

/* ---- all of it */

/* By client or daemon, and the copy mode in the client's seat: that of most of some starts, because
 * each may differ. */
static void find_way(struct ours *ours, const struct mover *mover, char *ret_method, size_t bytes)
{
    uint32_t counts[WAYS] = {0};
    uint32_t most = 0;
    struct tca_receipt receipt = {0};

    for (int n = 0; n < WAY_STARTS; n++) {
        bench_round(ours->bench, mover);
        check(tca_plan_receipt(ours->plans[0], &receipt), "the receipt");
        if ((uint32_t)receipt.copy_method < WAYS)
            counts[receipt.copy_method]++;
    }
    for (uint32_t way = 0; way < WAYS; way++)
        if (counts[way] > counts[most])
            most = way;
    if (most != TCA_COPY_NONE)
        snprintf(ret_method, bytes, "%s", tca_copy_method_name((enum tca_copy_method)most));
    else
        snprintf(ret_method, bytes, "%s/%s", tca_rail_name(receipt.rail),
                 tca_seat_name(receipt.seat));
}

/* Until the plans of both have found how to copy; the starts of each. Plans that the receiver
 * cannot help try nothing. */
static uint64_t tune(struct ours *ours, const struct mover *mover)
{
    struct tca_receipt receipt = {0};
    uint64_t trying = 1, starts;

    for (starts = 0; trying && starts < TUNE_STARTS_MAX; starts += TUNE_STEP) {
        for (int n = 0; n < TUNE_STEP; n++)
            bench_round(ours->bench, mover);
        trying = 0;
        for (int half = 0; half < 2; half++)
            if (ours->plans[half] && tca_plan_receipt(ours->plans[half], &receipt) >= 0)
                trying |= receipt.trying;
        trying = side_most(ours->bench->side, trying);
    }
    return starts;
}

static void run_pattern(struct ours *ours, uint32_t number)
{
    struct mover mover = {
        .send = send_one, .receive = receive_one, .settle = settle, .swap = swap, .context = ours};
    char way[64];

    bench_begin(ours->bench, number);
    make_plans(ours);
    bench_check(ours->bench, &mover, "plans", ours->bench->check_gaps);
    uint64_t starts = tune(ours, &mover);
    struct timing timing = bench_time(ours->bench, &mover);
    timing.starts = starts;
    find_way(ours, &mover, way, sizeof(way));
    bench_report(ours->bench, "plans", way, &timing);
    side_meet(ours->bench->side); /* no plan is freed while the other rank still needs it */
    free_plans(ours);
    bench_end(ours->bench);
}

static void open_region(struct ours *ours, uint64_t bytes)
{
    struct tca_handle own;

    check(tca_region_alloc(ours->session, bytes, &ours->region), "making a region");
    check(tca_region_handle(ours->region, 0, TCA_ALL, &own), "naming the region");
    check(tca_allgather(ours->session, &own, sizeof(own), ours->handles, PATIENCE_NS), "meeting");
    ours->bench->area = tca_region_address(ours->region);
    memset(ours->bench->area, 1, bytes);
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct side side;
    struct bench bench = {.side = &side};
    struct ours ours = {.bench = &bench};

    if (arguments_init(&arguments, argc, argv) < 0) {
        fputs("Usage, under tca-cluster run with two ranks: ddt_tca " ARGUMENTS_USAGE "\n", stderr);
        return 2;
    }
    bench.seconds = arguments.seconds;
    bench.check_gaps = arguments.check_gaps;
    check(tca_open(NULL, &ours.session), "opening the session");
    if (tca_size(ours.session) != 2) {
        fputs("ddt: it takes two ranks\n", stderr);
        return 1;
    }
    bench.me = (int)tca_rank(ours.session);
    ours.peer = 1 - (uint32_t)bench.me;
    side_open(&side, arguments.side_path, bench.me);
    open_region(&ours, arguments.area_bytes);
    for (uint32_t i = 0; i < arguments.count; i++)
        run_pattern(&ours, arguments.numbers[i]);
    side_close(&side);
    tca_close(ours.session);
    arguments_deinit(&arguments);
    return 0;
}
