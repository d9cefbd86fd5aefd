/* A session with one plan that its process or tcad can put, and another one like it. The clock,
 * tcad and the connections are the test's: its struct trial_effects. */
#pragma once

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
static inline void begin_with_faster(enum seat fast)
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
static inline void begin_until_tcad_has_run(unsigned count)
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
