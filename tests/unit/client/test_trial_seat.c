/* When a plan tries seats, when a start is held, what is counted, and what happens when tcad cannot
 * run it. The clock, tcad and the connections are the test's: its struct trial_effects. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/session.h"
#include "client/core/wisdom.h"
#include "client/layout/layout.h"
#include "client/plan/plan.h"
#include "client/plan/trial.h"
#include "client/plan/trial_route.h"
#include "proto/handle.h"
#include "tests/unit/client/header_only.h"
#include "tests/unit/client/own_clock.h"

enum {
    SHM = 1,
    TCP = 2,
    STARTS_MAX = 4000,
    EMPTY_CHECKS = 3,
};

static struct tca session;
static struct step steps[2];
static struct tca_plan plan, other;
static struct tca_layout *layout;
static uint64_t start_ns[SEAT_COUNT], flush_ns[SEAT_COUNT];
static bool deaf;        /* tcad: messages cannot be sent */
static bool never_lands; /* what is put */
static unsigned asked[SEAT_COUNT], flushes, checks;
static bool found, below;
static uint32_t turn;
static unsigned binds, drops; /* of chains over pairs */
static int bind_error;
static bool joined, refuses;
static unsigned run[SEAT_COUNT], unlanded[SEAT_COUNT]; /* starts */
static bool held;

static bool tell(struct tca_plan *of, const Tca__PlanTry *request)
{
    (void)of;
    if (deaf)
        return false;
    asked[request->seat]++;
    turn = request->turn;
    found = request->found;
    below = request->below;
    cr_assert_eq(request->joins, request->seat == SEAT_DAEMON && !joined);
    if (request->seat == SEAT_CLIENT)
        joined = false;
    return true;
}

static int bind(struct tca_plan *of, const Tca__PlanCommitted *committed)
{
    (void)committed;
    if (bind_error == 0)
        of->made_count = of->chain_count;
    binds++;
    return bind_error;
}

static void drop(struct tca_plan *of)
{
    cr_assert_eq(of->client_count, 0, "a start could use them");
    of->made_count = 0;
    drops++;
}

static void flush(struct tca_plan *of)
{
    (void)of;
    flushes++;
    checks = 0;
}

static bool flushed(struct tca_plan *of)
{
    (void)of;
    if (never_lands || ++checks <= EMPTY_CHECKS)
        return false;
    now_ns += flush_ns[SEAT_CLIENT];
    unlanded[SEAT_CLIENT] = 0;
    return true;
}

static const struct trial_effects effects = {.now_ns = own_clock,
                                             .tell = tell,
                                             .flush = flush,
                                             .flushed = flushed,
                                             .bind = bind,
                                             .drop = drop};

static void moved(enum seat seat)
{
    Tca__RouteChanged__Route route = TCA__ROUTE_CHANGED__ROUTE__INIT, *list = &route;
    Tca__RouteChanged changed = TCA__ROUTE_CHANGED__INIT;
    route.rail = TCP;
    route.seat = seat;
    changed.n_routes = 1;
    changed.routes = &list;
    changed.turn = turn;
    changed.flush_ns = flush_ns[SEAT_DAEMON];
    joined = seat == SEAT_DAEMON;
    unlanded[SEAT_DAEMON] = 0;
    trial_route_changed(&plan, &changed);
}

static bool tries(void)
{
    return (plan.flags & PLAN_TRIES) != 0;
}

static enum seat seat_now(void)
{
    return plan.daemon_count > 0 ? SEAT_DAEMON : SEAT_CLIENT;
}

/* Held as progress.c does. */
static void complete(void)
{
    if (!trial_route_holds(&plan))
        return;
    held = true;
    const uint64_t end_ns = now_ns + TRIAL_HOLD_NS;
    for (bool first = true; !trial_route_arrived(&plan); first = false) {
        now_ns += 1000;
        if (seat_now() == SEAT_DAEMON && !never_lands && !first)
            moved(SEAT_DAEMON);
        if (now_ns < end_ns)
            continue;
        trial_route_late(&plan);
        return;
    }
}

static void start(void)
{
    const uint32_t before = asked[SEAT_DAEMON];
    if (plan.flags & PLAN_TRIES && plan.route_trial)
        trial_route_start(&plan);
    const enum seat seat = seat_now();
    cr_assert(seat == SEAT_CLIENT || joined, "a start that tcad does not take");
    cr_assert_eq(unlanded[seat == SEAT_CLIENT ? SEAT_DAEMON : SEAT_CLIENT], 0,
                 "it could overtake the one before");
    run[seat]++;
    unlanded[seat]++;
    now_ns += start_ns[seat];
    if (!joined && asked[SEAT_DAEMON] > before)
        moved(refuses ? SEAT_CLIENT : SEAT_DAEMON);
    held = false;
    if (tries() && plan.route_trial)
        complete();
}

static unsigned settle(void)
{
    unsigned count = 0;
    for (; count < STARTS_MAX && tries(); count++)
        start();
    cr_assert(!tries(), "still trying after %d starts", STARTS_MAX);
    return count;
}

static Tca__ChainCommitted chain_committed = TCA__CHAIN_COMMITTED__INIT,
                           *chains_committed[] = {&chain_committed};

static Tca__PlanCommitted committed_in(enum seat seat)
{
    Tca__PlanCommitted committed = TCA__PLAN_COMMITTED__INIT;
    chain_committed.rail = TCP;
    chain_committed.seat = seat;
    committed.n_chains = 1;
    committed.chains = chains_committed;
    return committed;
}

static void commit_with(bool offered)
{
    Tca__PlanCommitted committed = committed_in(SEAT_CLIENT);
    committed.seats = offered;
    plan.client_count = plan.made_count = plan.chain_count;
    plan.daemon_count = 0;
    plan.paired = true;
    plan.first_rail = TCP;
    plan.first_seat = SEAT_CLIENT;
    plan.pace = PACE_HERE;
    trial_route_begin(&plan, &committed);
}

static enum seat known(enum tca_seat seat)
{
    struct routes_known routes;
    trial_route_known(&plan, seat, &routes);
    return routes.seat;
}

static void begin(void)
{
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_NONE);
    commit_with(true);
}

static void prepare(struct tca_plan *a_plan)
{
    *a_plan =
        (struct tca_plan){.session = &session, .steps = steps, .step_count = 1, .chain_count = 1};
}

/* As if nothing had been tried before. */
static void begin_with_faster(enum seat fast)
{
    prepare(&plan);
    joined = false;
    memset(asked, 0, sizeof(asked));
    session.wisdom->count = session.wisdom->added = 0;
    start_ns[fast] = 20000;
    start_ns[fast == SEAT_CLIENT ? SEAT_DAEMON : SEAT_CLIENT] = 30000;
    begin();
}

/* Starts until so many have run in tcad's seat. */
static void begin_until_tcad_has_run(unsigned count)
{
    begin();
    for (unsigned i = 0; i < STARTS_MAX && run[SEAT_DAEMON] < count; i++)
        start();
}

static void setup(void)
{
    struct handle handle = {.node = 1};
    now_ns = 1000000000;
    start_ns[SEAT_CLIENT] = start_ns[SEAT_DAEMON] = 30000;
    session = (struct tca){.node = 0};
    session.settings.tune = TUNE_ON;
    session.trial_effects = &effects;
    session.rails = (struct rail_list){.count = TCP,
                                       .at = {[SHM] = {.name = "shm"}, [TCP] = {.name = "tcp:lo"}}};
    session.segment = calloc(1, sizeof(*session.segment));
    session.wisdom = calloc(1, sizeof(*session.wisdom));
    cr_assert(session.segment && session.wisdom);
    cr_assert_eq(tca_layout_contiguous(100000, &layout), 0);
    steps[0] = (struct step){.kind = STEP_PUT};
    steps[0].put.source_layout = steps[0].put.target_layout = layout;
    handle_encode(&handle, steps[0].put.handle);
    prepare(&plan);
    prepare(&other);
}

static void teardown(void)
{
    trial_route_end(&plan);
    tca_layout_free(layout);
    free(session.segment);
    free(session.wisdom);
}

TestSuite(trial_seat, .init = setup, .fini = teardown);

Test(trial_seat, the_faster_one_stays)
{
    for (enum seat fast = SEAT_CLIENT; fast <= SEAT_DAEMON; fast++) {
        begin_with_faster(fast);
        for (unsigned i = 0; i < STARTS_MAX && session.wisdom->added == 0; i++)
            start();
        start();
        cr_assert_not(tries(), "that start has told tcad, and nothing is tried any more");
        cr_assert_eq(seat_now(), fast);
        cr_assert(found);
        cr_assert_eq(asked[SEAT_CLIENT] > 0, fast == SEAT_CLIENT, "tcad gives up what is not used");
        cr_assert_eq(plan.pace, fast == SEAT_DAEMON ? PACE_SUBMITS : PACE_HERE);
        cr_assert_eq(plan.first_seat, fast);
        cr_assert_eq(plan.paired, fast == SEAT_CLIENT);
        cr_assert_eq(plan.client_count + plan.daemon_count, 1);
        cr_assert_eq(known(TCA_SEAT_ANY), fast);
        trial_route_end(&plan);
    }
}

Test(trial_seat, nothing_until_it_is_worth_it)
{
    begin();
    for (unsigned i = 0; i < 32; i++)
        start();
    cr_assert_eq(asked[SEAT_DAEMON], 0);
    start();
    cr_assert_eq(asked[SEAT_DAEMON], 1);
}

/* start() asserts it for each; this sees that starts were held at all, and few. */
Test(trial_seat, only_ends_of_blocks_are_held)
{
    unsigned holds = 0, starts = 0;
    begin();
    for (; tries() && starts < STARTS_MAX; starts++) {
        start();
        holds += held;
    }
    cr_assert_geq(holds, 8);
    cr_assert_leq(holds * 9, starts, "blocks have 9 starts at least");
    cr_assert_geq(flushes, 4);
}

/* What only buffers is not fast. */
Test(trial_seat, data_that_arrives_late_counts)
{
    start_ns[SEAT_DAEMON] = 20000;
    flush_ns[SEAT_DAEMON] = 900000;
    begin();
    settle();
    cr_assert_eq(seat_now(), SEAT_CLIENT);
}

Test(trial_seat, data_that_arrives_late_counts_here_too)
{
    start_ns[SEAT_CLIENT] = 20000;
    flush_ns[SEAT_CLIENT] = 900000;
    begin();
    settle();
    cr_assert_eq(seat_now(), SEAT_DAEMON);
}

Test(trial_seat, a_slow_seat_costs_little)
{
    start_ns[SEAT_DAEMON] = 40 * start_ns[SEAT_CLIENT];
    begin();
    settle();
    cr_assert_eq(seat_now(), SEAT_CLIENT);
    cr_assert_leq(run[SEAT_DAEMON], 44, "two blocks with their ends");
}

Test(trial_seat, tcad_cannot)
{
    refuses = true;
    begin();
    settle();
    cr_assert_eq(seat_now(), SEAT_CLIENT);
    cr_assert_eq(run[SEAT_DAEMON], 0);
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_NONE);
}

/* It is asked once, and not again and again. */
Test(trial_seat, tcad_cannot_and_is_not_asked_again)
{
    refuses = true;
    begin();
    settle();
    for (unsigned i = 0; i < 300; i++)
        start();
    cr_assert_not(tries());
    cr_assert_eq(asked[SEAT_DAEMON], 1);
    cr_assert_eq(asked[SEAT_CLIENT], 0, "it has nothing to release");
}

Test(trial_seat, tcad_loses_the_rail)
{
    begin_until_tcad_has_run(3);
    moved(SEAT_CLIENT);
    start();
    cr_assert_eq(run[SEAT_DAEMON], 3);
    start();
    cr_assert_not(tries());
    cr_assert_eq(seat_now(), SEAT_CLIENT);
}

Test(trial_seat, tcad_loses_the_rail_after_the_trial)
{
    start_ns[SEAT_CLIENT] = 90000;
    begin();
    settle();
    cr_assert_eq(seat_now(), SEAT_DAEMON);
    const unsigned before = run[SEAT_DAEMON];
    moved(SEAT_CLIENT);
    start();
    start();
    cr_assert_eq(run[SEAT_DAEMON], before);
    cr_assert_not(tries());
    cr_assert_eq(plan.pace, PACE_HERE);
}

Test(trial_seat, the_connection_ends_while_tcad_puts)
{
    begin_until_tcad_has_run(3);
    const unsigned before = run[SEAT_CLIENT];
    cr_assert_not(trial_route_goes_on(&plan, -EOWNERDEAD), "tcad cannot put there either");
    cr_assert(trial_route_goes_on(&plan, -ENETDOWN));
    for (unsigned i = 0; i < 100; i++)
        start();
    cr_assert_not(tries());
    cr_assert_not(found);
    cr_assert_eq(run[SEAT_CLIENT], before);
    cr_assert_eq(plan.broken, 0);
    cr_assert(below, "tcad knows that there is no pair");
    cr_assert_eq(drops, 1);
    moved(SEAT_CLIENT);
    cr_assert_eq(plan.broken, -ENETDOWN, "then nobody can");
}

Test(trial_seat, both_are_lost)
{
    begin_until_tcad_has_run(3);
    moved(SEAT_CLIENT);
    cr_assert_not(trial_route_goes_on(&plan, -ENETDOWN), "tcad has nothing of it any more");
}

Test(trial_seat, the_connection_ends_after_the_trial)
{
    for (enum seat fast = SEAT_CLIENT; fast <= SEAT_DAEMON; fast++) {
        begin_with_faster(fast);
        cr_assert_not(trial_route_goes_on(&plan, -ENETDOWN), "not before the trial");
        settle();
        cr_assert_eq(trial_route_goes_on(&plan, -ENETDOWN), fast == SEAT_DAEMON);
        start();
        start();
        cr_assert_eq(seat_now(), fast);
        cr_assert(drops == 0 && !below, "it needs no pair, and waits for none");
        trial_route_end(&plan);
    }
}

/* The receiver is stopped: the starts are complete nevertheless, and after some the trial is given
 * up. */
Test(trial_seat, data_that_never_arrives)
{
    never_lands = true;
    begin();
    const uint64_t before_ns = now_ns;
    unsigned holds = 0;
    for (unsigned i = 0; i < 300; i++) {
        start();
        holds += held;
    }
    cr_assert_eq(holds, 16);
    cr_assert_not(tries());
    cr_assert_eq(seat_now(), SEAT_CLIENT);
    cr_assert_leq(now_ns - before_ns, 16 * (TRIAL_HOLD_NS + 1000) + 300 * 30000);
    cr_assert_not(found);
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_NONE);
}

/* It stays where it is, and tcad, which waits for a while, may offer it a pair again. */
Test(trial_seat, data_that_never_arrives_in_tcad)
{
    begin_until_tcad_has_run(1);
    never_lands = true;
    const unsigned before = run[SEAT_CLIENT];
    for (unsigned i = 0; i < 300; i++)
        start();
    cr_assert_not(tries());
    cr_assert_not(found);
    cr_assert_eq(run[SEAT_CLIENT], before);
    cr_assert(below);
    cr_assert_eq(drops, 1);
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_NONE);
}

Test(trial_seat, late_once_is_not_given_up)
{
    begin_until_tcad_has_run(1);
    never_lands = true;
    while (!held)
        start();
    never_lands = false;
    settle();
    cr_assert(found);
}

Test(trial_seat, a_failed_start_is_not_held)
{
    begin_until_tcad_has_run(3);
    plan.status = -ENETDOWN;
    for (unsigned i = 0; i < 40; i++) {
        start();
        cr_assert_not(held);
    }
    plan.status = 0;
    settle();
}

Test(trial_seat, messages_that_cannot_be_sent)
{
    begin();
    deaf = true;
    for (unsigned i = 0; i < 60; i++)
        start();
    cr_assert_eq(asked[SEAT_DAEMON], 0);
    deaf = false;
    start();
    cr_assert_eq(asked[SEAT_DAEMON], 1);
    settle();
}

Test(trial_seat, an_end_that_cannot_be_sent)
{
    begin_with_faster(SEAT_CLIENT);
    for (unsigned i = 0; i < STARTS_MAX && session.wisdom->added == 0; i++)
        start();
    deaf = true;
    for (unsigned i = 0; i < 5; i++)
        start();
    cr_assert(tries(), "else it would never be sent");
    deaf = false;
    start();
    cr_assert_eq(asked[SEAT_CLIENT], 1);
    cr_assert_not(tries());
}

/* That all data has arrived, when the start that was held for it is not any more: the next one is
 * under way. */
Test(trial_seat, an_answer_that_comes_too_late)
{
    begin_until_tcad_has_run(1);
    never_lands = true;
    for (unsigned i = 0; i < STARTS_MAX && !held; i++)
        start();
    cr_assert(held && seat_now() == SEAT_DAEMON);
    trial_route_start(&plan);
    moved(SEAT_DAEMON);
    never_lands = false;
    unlanded[SEAT_DAEMON] = 1;
    complete();
    start();
}

/* Layouts can be long, and data that is not worth a trial is what most plans move. */
Test(trial_seat, without_a_choice_no_layout_is_hashed)
{
    steps[0].put.source_layout = steps[0].put.target_layout = header_only(100000);
    known(TCA_SEAT_ANY);
    commit_with(false);
    steps[0].put.source_layout = steps[0].put.target_layout = layout;
    begin();
    settle();
    steps[0].put.source_layout = steps[0].put.target_layout = header_only(100008);
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_NONE, "nothing is known about puts of this size");
    steps[0].put.source_layout = steps[0].put.target_layout = layout;
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_CLIENT);
}

Test(trial_seat, who_does_not_try)
{
    for (enum tca_seat seat = TCA_SEAT_CLIENT; seat <= TCA_SEAT_DAEMON; seat++) {
        cr_assert_eq(known(seat), SEAT_NONE);
        cr_assert_null(plan.route_trial);
    }
    session.settings.tune = TUNE_OFF; /* it may still move up */
    known(TCA_SEAT_ANY);
    commit_with(true);
    cr_assert_not(tries());
    cr_assert_null(plan.route_trial);
    session.settings.tune = TUNE_FROZEN;
    known(TCA_SEAT_ANY);
    commit_with(true);
    cr_assert_not(tries());
    session.settings.tune = TUNE_ON;
    known(TCA_SEAT_ANY);
    commit_with(false);
    cr_assert_not(tries());
    session.node = 1; /* it puts to its own */
    known(TCA_SEAT_ANY);
    cr_assert_null(plan.route_trial);
    session.node = 0;
    plan.flags = TCA_PLAN_REPEAT;
    known(TCA_SEAT_ANY);
    cr_assert_null(plan.route_trial);
}

Test(trial_seat, one_plan_after_the_other)
{
    session.tries = &other;
    session.tries_ns = now_ns;
    begin();
    for (unsigned i = 0; i < 100; i++)
        start();
    cr_assert_eq(asked[SEAT_DAEMON], 0);
    now_ns += 2000000000;
    settle();
    cr_assert_null(session.tries);
}

Test(trial_seat, nonsense_of_tcad)
{
    Tca__RouteChanged__Route routes[2] = {TCA__ROUTE_CHANGED__ROUTE__INIT,
                                          TCA__ROUTE_CHANGED__ROUTE__INIT},
                             *list[2] = {&routes[0], &routes[1]};
    Tca__RouteChanged changed = TCA__ROUTE_CHANGED__INIT;
    begin();
    for (unsigned i = 0; i < STARTS_MAX && asked[SEAT_DAEMON] == 0; i++) {
        trial_route_start(&plan);
        now_ns += 30000;
    }
    routes[0].seat = routes[1].seat = SEAT_DAEMON;
    routes[0].rail = TCP;
    routes[1].rail = 17;
    changed.turn = turn;
    const size_t counts[] = {0, 2, 1};
    for (unsigned i = 0; i < 3; i++) {
        changed.n_routes = counts[i];
        changed.routes = i == 2 ? &list[1] : list;
        trial_route_changed(&plan, &changed);
        for (unsigned k = 0; k < 30; k++)
            trial_route_start(&plan);
        cr_assert_eq(seat_now(), SEAT_CLIENT);
    }
}

/* ---- up to a pair ---- */

/* The commit has found none. */
static void commit_below(void)
{
    Tca__PlanCommitted committed = committed_in(SEAT_DAEMON);
    chain_committed.rails = 1u << SHM | 1u << TCP; /* with so few, there is no choice */
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_NONE);
    committed.rises = true;
    plan.client_count = plan.made_count = 0;
    plan.daemon_count = plan.chain_count;
    plan.paired = false;
    plan.first_rail = TCP;
    plan.first_seat = SEAT_DAEMON;
    plan.pace = PACE_SUBMITS;
    joined = true;
    trial_route_begin(&plan, &committed);
    cr_assert_not(tries());
}

static void paired(bool offers)
{
    Tca__PlanCommitted committed = committed_in(SEAT_CLIENT);
    committed.seats = offers;
    trial_route_paired(&plan, &committed);
}

static void starts(unsigned count)
{
    while (count-- > 0)
        start();
}

Test(trial_seat, it_moves_up)
{
    commit_below();
    starts(100);
    cr_assert_eq(run[SEAT_DAEMON], 100);
    paired(false);
    cr_assert(tries());
    start();
    cr_assert(held, "the last one before it");
    cr_assert_eq(run[SEAT_DAEMON], 101);
    cr_assert_eq(asked[SEAT_CLIENT], 0, "the next one could fail to be started");
    start();
    cr_assert_eq(run[SEAT_CLIENT], 1);
    cr_assert_eq(asked[SEAT_CLIENT], 1);
    cr_assert_not(found);
    starts(10);
    moved(SEAT_CLIENT);
    starts(100);
    cr_assert_not(tries());
    cr_assert_eq(run[SEAT_CLIENT], 111);
    cr_assert_eq(plan.pace, PACE_HERE);
    cr_assert_eq(binds, 1);
}

Test(trial_seat, the_trial_follows)
{
    commit_below();
    start_ns[SEAT_DAEMON] = 20000;
    paired(true);
    starts(2);
    moved(SEAT_CLIENT);
    settle();
    cr_assert_eq(seat_now(), SEAT_DAEMON);
    cr_assert(found);
    const unsigned before = binds;
    paired(true);
    cr_assert_eq(binds, before, "it has settled");
}

Test(trial_seat, it_moves_up_again_and_again)
{
    begin();
    for (unsigned i = 0; i < STARTS_MAX && run[SEAT_DAEMON] < 3; i++)
        start();
    for (unsigned i = 1; i < 10; i++) {
        cr_assert(trial_route_goes_on(&plan, -ENETDOWN));
        cr_assert(trial_route_goes_on(&plan, -ENETDOWN), "as it is told more than once");
        paired(true);
        cr_assert_lt(binds, i, "it still has the old chains");
        starts(3);
        cr_assert_eq(drops, i);
        cr_assert(below);
        cr_assert_not(tries());
        paired(true);
        cr_assert_eq(binds, i);
        cr_assert(tries());
        if (i % 2 == 0)
            start(); /* the next one would run here */
    }
    cr_assert_eq(plan.broken, 0);
}

Test(trial_seat, tcad_loses_the_rail_before_it_moves_up)
{
    commit_below();
    starts(3);
    paired(false);
    moved(SEAT_CLIENT);
    starts(100);
    cr_assert_not(tries());
    cr_assert_eq(run[SEAT_CLIENT], 100);
    cr_assert_eq(plan.broken, 0);
}

Test(trial_seat, chains_that_cannot_be_made)
{
    commit_below();
    bind_error = -ENOMEM;
    paired(true);
    starts(100);
    cr_assert_not(tries());
    cr_assert_eq(run[SEAT_DAEMON], 100);
    moved(SEAT_CLIENT);
    cr_assert_neq(plan.broken, 0, "then nobody can");
}

/* A receiver that is stopped: it stays where it is. */
Test(trial_seat, data_that_never_arrives_below)
{
    commit_below();
    never_lands = true;
    paired(true);
    for (unsigned i = 0; i < 100; i++) {
        start();
        unlanded[SEAT_DAEMON] = 0;
    }
    cr_assert_not(tries());
    cr_assert_eq(run[SEAT_DAEMON], 100);
    cr_assert(below, "tcad waits, and offers it again");
    never_lands = false;
    paired(true);
    starts(2);
    cr_assert_eq(run[SEAT_CLIENT], 1);
}

Test(trial_seat, nonsense_of_tcad_below)
{
    Tca__ChainCommitted chain = TCA__CHAIN_COMMITTED__INIT, *chains[2] = {&chain, &chain};
    Tca__PlanCommitted committed = TCA__PLAN_COMMITTED__INIT;
    const uint32_t rails[] = {0, 17, TCP, TCP};
    commit_below();
    trial_route_paired(&plan, NULL);
    committed.chains = chains;
    for (unsigned i = 0; i < 4; i++) {
        chain.rail = rails[i];
        chain.seat = i == 2 ? SEAT_DAEMON : SEAT_CLIENT;
        committed.n_chains = i == 3 ? 2 : 1;
        trial_route_paired(&plan, &committed);
        cr_assert_eq(binds, 0);
    }
    moved(SEAT_CLIENT);
    cr_assert_neq(plan.broken, 0, "nobody can run it");
}
