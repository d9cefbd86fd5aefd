/* Which starts wait for the data of earlier ones in the other seat. tcad and the connections are
 * the test's: its struct trial_effects. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "client/core/session.h"
#include "client/plan/order.h"
#include "client/plan/pair.h"
#include "client/plan/plan.h"
#include "client/plan/trial.h"
#include "client/plan/trial_route.h"
#include "proto/handle.h"
#include "tests/unit/client/own_clock.h"

enum { PLANS = 3 };

static struct tca session;
static struct step steps[PLANS];
static struct tca_plan plans[PLANS];
static struct transfer transfers[PLANS];
static struct pair pairs[2];
static unsigned flushes, requests;
static bool lands;
static uint32_t turn;

static void flush(struct tca_plan *plan)
{
    cr_assert(plan->paired);
    flushes++;
}

static bool flushed(struct tca_plan *plan)
{
    (void)plan;
    return lands;
}

static void moved(struct tca_plan *plan, enum seat seat)
{
    Tca__RouteChanged__Route route = TCA__ROUTE_CHANGED__ROUTE__INIT, *list = &route;
    Tca__RouteChanged changed = TCA__ROUTE_CHANGED__INIT;
    route.rail = 1;
    route.seat = seat;
    changed.n_routes = 1;
    changed.routes = &list;
    changed.turn = turn;
    trial_route_changed(plan, &changed);
}

static bool tell(struct tca_plan *plan, const Tca__PlanTry *request)
{
    cr_assert(!plan->paired);
    cr_assert_eq(request->chains, 0, "only its data is to arrive");
    cr_assert_eq(request->seat, SEAT_NONE);
    requests++;
    turn = request->turn;
    if (lands)
        moved(plan, SEAT_DAEMON);
    return true;
}

static const struct trial_effects effects = {
    .now_ns = own_clock, .tell = tell, .flush = flush, .flushed = flushed};

/* One that puts to node 1, over a pair, unless tcad runs it, because there is none. */
static struct tca_plan *commit(unsigned number, unsigned pair, uint32_t channel, enum seat seat)
{
    struct tca_plan *plan = &plans[number];
    Tca__ChainCommitted chain = TCA__CHAIN_COMMITTED__INIT, *chains = &chain;
    Tca__PlanCommitted committed = TCA__PLAN_COMMITTED__INIT;
    struct routes_known known;
    chain.rail = 1;
    chain.seat = seat;
    committed.chains = &chains;
    committed.n_chains = 1;
    committed.rises = seat == SEAT_DAEMON;
    plan->channel = channel;
    plan->state = PLAN_BUILDING;
    cr_assert(trial_route_known(plan, TCA_SEAT_ANY, &known));
    plan->paired = seat == SEAT_CLIENT;
    plan->client_count = plan->made_count = plan->transfer_count = plan->paired;
    plan->daemon_count = 1 - plan->client_count;
    plan->first_seat = seat;
    transfers[number].pair = &pairs[pair];
    plan->pace = plan->paired ? PACE_HERE : PACE_SUBMITS;
    trial_route_begin(plan, &committed);
    order_begin(plan);
    plan->state = PLAN_IDLE;
    return plan;
}

static void start(struct tca_plan *plan)
{
    if (plan->pace == PACE_MEASURED)
        cr_assert_eq(order_start(plan), 0);
    plan->starts++;
}

static void setup(void)
{
    struct handle handle = {.node = 1};
    session = (struct tca){.node = 0, .trial_effects = &effects};
    session.settings.tune = TUNE_OFF;
    session.segment = calloc(1, sizeof(*session.segment));
    session.rails = (struct rail_list){.count = 1, .at = {[1] = {.name = "tcp:lo"}}};
    lands = true;
    for (unsigned i = 0; i < PLANS; i++) {
        steps[i] = (struct step){.kind = STEP_PUT};
        handle_encode(&handle, steps[i].put.handle);
        plans[i] = (struct tca_plan){.session = &session,
                                     .steps = &steps[i],
                                     .step_count = 1,
                                     .chain_count = 1,
                                     .transfers = &transfers[i],
                                     .next = i + 1 < PLANS ? &plans[i + 1] : NULL};
    }
    session.plans = plans;
}

static void teardown(void)
{
    for (unsigned i = 0; i < PLANS; i++) {
        order_end(&plans[i]);
        trial_route_end(&plans[i]);
        cr_assert_null(plans[i].link_unlanded);
    }
    cr_assert_eq(session.movers, 0);
    free(session.segment);
}

TestSuite(order, .init = setup, .fini = teardown);

Test(order, nothing_moves)
{
    struct tca_plan *a = commit(0, 0, 0, SEAT_CLIENT), *b = commit(1, 0, 0, SEAT_CLIENT);
    for (unsigned i = 0; i < 10; i++)
        start(i % 2 ? a : b);
    cr_assert_eq(a->pace, PACE_HERE, "such starts cost no more than without order");
    cr_assert_eq(b->pace, PACE_HERE);
    cr_assert_eq(flushes + requests, 0);
}

Test(order, each_change_waits_once)
{
    struct tca_plan *here = commit(0, 0, 0, SEAT_CLIENT);
    start(here);
    struct tca_plan *there = commit(1, 0, 0, SEAT_DAEMON);
    cr_assert_eq(here->pace, PACE_MEASURED);
    start(there);
    cr_assert_eq(flushes, 1, "it was started before one could move");
    start(there);
    cr_assert_eq(flushes, 1);
    start(here);
    cr_assert_eq(requests, 1);
    start(here);
    cr_assert_eq(requests, 1);
    start(there);
    cr_assert_eq(flushes, 2);
    order_end(there);
    cr_assert_eq(here->pace, PACE_HERE);
}

Test(order, only_of_a_channel_and_a_process)
{
    struct tca_plan *here = commit(0, 0, 0, SEAT_CLIENT), *there = commit(1, 0, 1, SEAT_DAEMON);
    start(here);
    start(there);
    start(here);
    cr_assert_eq(flushes + requests, 0, "of two channels");
    there->channel = 0;
    there->made_count = there->transfer_count = 1;
    transfers[1].pair = &pairs[1];
    start(there);
    start(here);
    cr_assert_eq(flushes + requests, 0, "to two processes of a node");
    transfers[1].pair = &pairs[0];
    start(there);
    cr_assert_eq(flushes, 1);
}

Test(order, it_does_not_arrive)
{
    struct tca_plan *here = commit(0, 0, 0, SEAT_CLIENT), *there = commit(1, 0, 0, SEAT_DAEMON);
    start(here);
    lands = false;
    session.limit_ns = 1; /* long ago */
    cr_assert_eq(order_start(there), -EAGAIN);
    lands = true;
    start(there);
    cr_assert_eq(flushes, 2);
    lands = false;
    cr_assert_eq(order_start(here), -EAGAIN);
    moved(there, SEAT_CLIENT);
    cr_assert_neq(there->broken, 0, "tcad has nothing of it any more");
    cr_assert_eq(order_start(here), 0);
}

Test(order, a_broken_plan_has_nothing_in_flight)
{
    struct tca_plan *here = commit(0, 0, 0, SEAT_CLIENT), *there = commit(1, 0, 0, SEAT_DAEMON);
    start(here);
    lands = false;
    here->broken = -ENETDOWN;
    start(there);
    cr_assert_eq(flushes, 0);
}

Test(order, one_that_is_freed)
{
    struct tca_plan *there = commit(1, 0, 0, SEAT_DAEMON);
    start(there);
    order_leave(there);
    cr_assert_eq(requests, 0, "there is no other plan");
    commit(0, 0, 1, SEAT_CLIENT);
    order_leave(there);
    cr_assert_eq(requests, 0, "of this channel");
    plans[0].channel = 0;
    order_leave(there);
    cr_assert_eq(requests, 1);
    order_leave(there);
    cr_assert_eq(requests, 1);
}
