#include "daemon/plans/plan_move.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/bindings/pairs.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

#define TO(state) (1u << ROUTE_##state)

/* From (row) to: a bit per state. */
static const unsigned legal[ROUTE_STATES] = {
    [ROUTE_SETTLED] = TO(RESTING) | TO(PAUSING) | TO(BINDING),
    [ROUTE_RESTING] = TO(SETTLED) | TO(PAUSING) | TO(FLUSHING),
    [ROUTE_PAUSING] = TO(FLUSHING),
    [ROUTE_FLUSHING] = TO(STRIPPING),
    [ROUTE_STRIPPING] = TO(REGISTERING) | TO(UNBINDING),
    [ROUTE_REGISTERING] = TO(PREPARING) | TO(STRIPPING),
    [ROUTE_PREPARING] = TO(SETTLED) | TO(STRIPPING),
    [ROUTE_BINDING] = TO(REGISTERING) | TO(STRIPPING) | TO(MAPPING) | TO(UNBINDING),
    [ROUTE_MAPPING] = TO(SETTLED) | TO(UNBINDING),
    [ROUTE_UNBINDING] = TO(SETTLED),
};

bool plan_move_legal(enum route_state from, enum route_state to)
{
    return from < ROUTE_STATES && to < ROUTE_STATES && (legal[from] & (1u << to));
}

bool plan_joins(const struct plan *plan, enum seat seat)
{
    return plan->move.seats & ~plan->seats & SEAT_BIT(seat);
}

bool plan_parts(const struct plan *plan)
{
    return plan->move.seats == SEAT_BIT(SEAT_CLIENT);
}

static void enter(struct plan *plan, enum route_state state);

/* ---- lost rails ---- */

static bool is_dead(const struct plan_transfer *transfer)
{
    return transfer->link && transfer->link->state == LINK_FAILED;
}

/* A rail of the chain that was lost, or RAIL_NONE. */
static unsigned lost_rail(const struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++) {
        if (chain->steps[i].is_wait)
            continue;
        const struct plan_transfer *transfer = &plan->transfers[chain->steps[i].transfer];
        if (is_dead(transfer))
            return transfer->link->rail;
        for (uint32_t k = 0; k < plan_stripe_count(plan, transfer); k++)
            if (is_dead(plan_stripe(plan, transfer, k)))
                return plan_stripe(plan, transfer, k)->rail;
    }
    return RAIL_NONE;
}

bool plan_is_on_dead_link(const struct plan *plan, const struct plan_chain *chain)
{
    return lost_rail(plan, chain) != RAIL_NONE;
}

bool plan_has_dead_link(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        if (is_dead(&plan->transfers[i]))
            return true;
    return false;
}

bool plan_mark_moving(struct plan *plan)
{
    bool any = false;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct plan_chain *chain = &plan->chains[i];
        chain->moving =
            chain->bound.seat == SEAT_DAEMON &&
            (plan_is_on_dead_link(plan, chain) ||
             plan_best_rail(plan, chain) != chain->bound.rail || plan_stripes_differ(plan, chain));
        any |= chain->moving;
    }
    return any;
}

/* ---- RESTING to STRIPPING ---- */

/* Unless another order has ended the rest. */
static void rested(void *context)
{
    struct plan *plan = context;
    if (plan->state != PLAN_READY || plan->move.state != ROUTE_RESTING)
        return;
    plan_look_back(plan);
    if (plan->trial.what == ASKED_PART)
        plan->move.seats = SEAT_BIT(SEAT_CLIENT);
    const bool moves = plan_mark_moving(plan) || plan->trial.what != ASKED_NOTHING;
    enter(plan, moves ? ROUTE_FLUSHING : ROUTE_SETTLED);
}

static void rest(struct plan *plan)
{
    plan->move.held = true;
    engine_plan_rest(plan->session->engine, &plan->run, rested, plan);
}

static void pause(struct plan *plan)
{
    plan->move.held = true;
    plan->pending++;
    engine_plan_pause(plan->session->engine, &plan->run, plan->lost_error, plan_done, plan);
}

static void strip(struct plan *plan)
{
    plan_look_back(plan);
    plan_mark_moving(plan);
    plan_strip(plan, plan_done);
}

/* ---- REGISTERING ---- */

static void drop_link(struct plan_transfer *transfer)
{
    if (transfer->link && transfer->source)
        link_hold(transfer->link, transfer->held, transfer->source);
    transfer->held = NULL;
    link_unref(transfer->link);
    transfer->link = NULL;
    transfer->driver = NULL;
    transfer->lost &= ~transfer->back;
    transfer->back = 0;
}

/* Of a chain without prepared puts. */
static void drop_links(struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++) {
        struct plan_transfer *transfer =
            chain->steps[i].is_wait ? NULL : &plan->transfers[chain->steps[i].transfer];
        if (!transfer)
            continue;
        drop_link(transfer);
        for (uint32_t k = 0; k < plan_stripe_count(plan, transfer); k++)
            drop_link(plan_stripe(plan, transfer, k));
    }
}

int plan_reroute(struct plan *plan, struct plan_chain *chain)
{
    drop_links(plan, chain);
    int r = plan_route(plan, chain);
    if (r == 0)
        r = plan_take_links(plan, chain, 0, chain->step_count);
    return r < 0 ? r : plan_order_soon(plan, chain);
}

static int move_chain(struct plan *plan, struct plan_chain *chain)
{
    const unsigned before = chain->bound.rail, lost = lost_rail(plan, chain);
    const bool asked = !lost && plan->move.cause == CAUSE_TRIAL;
    char why[80];
    snprintf(why, sizeof(why),
             lost                                    ? "rail %s was lost"
             : asked                                 ? "its client tries others than rail %s"
             : plan_best_rail(plan, chain) == before ? "a rail to share puts with %s is back"
                                                     : "a better rail than %s is back",
             rail_name(plan->tcad, lost ? lost : before));
    int r = plan_reroute(plan, chain);
    if (r == -ENETDOWN && !plan_joins(plan, SEAT_DAEMON)) {
        plan_begin_attempt(plan); /* the loss says more than a rail that was never there */
        return plan_fail(
            plan, plan->lost_error,
            "rail %s was lost, and no other rail that the plan may use leads to the same nodes",
            rail_name(plan->tcad, before));
    }
    if (r == 0)
        log_message(asked ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, NULL,
                    "plan %" PRIu64 ".%" PRIu32 ", chain %u: %s, it continues on rail %s",
                    plan->session_id, plan->id, (unsigned)(chain - plan->chains), why,
                    rail_name(plan->tcad, chain->bound.rail));
    return r;
}

static uint64_t *counter_of(struct plan *plan)
{
    struct tcad *tcad = plan->tcad;
    return plan->move.cause == CAUSE_LOSS     ? &tcad->rebound
           : plan->move.cause == CAUSE_RETURN ? &tcad->returned
                                              : &tcad->tried;
}

/* tcad runs the chains, too. */
static int join(struct plan *plan)
{
    if (engine_plan_make_room(&plan->run, plan->chain_count) < 0)
        return plan_fail(plan, -ENOMEM, "out of memory for %" PRIu32 " chains", plan->chain_count);
    plan->run.chain_count = plan->chain_count;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        plan->chains[i].bound.seat = plan->chains[i].wanted.seat = SEAT_DAEMON;
        plan->chains[i].moving = true;
    }
    return 0;
}

static void choose_routes(struct plan *plan)
{
    bool any = false;
    if (plan_has_dead_link(plan))
        plan->move.cause = CAUSE_LOSS;
    plan_count_starts(plan); /* from now on they count for other rails */
    if (plan_joins(plan, SEAT_DAEMON) && join(plan) < 0)
        return;
    for (uint32_t i = 0; i < plan->chain_count && plan_works(plan); i++) {
        if (plan->chains[i].moving)
            move_chain(plan, &plan->chains[i]);
        any |= plan->chains[i].moving;
    }
    if (!plan_works(plan))
        return;
    *counter_of(plan) += any;
    if (plan->trial.what != ASKED_PART && !plan_joins(plan, SEAT_DAEMON)) /* else it follows */
        plan_take_request(plan);
    plan_connect(plan);
}

/* ---- UNBINDING ---- */

/* The engine has nothing of it any more. */
static void leave_tcad(struct plan *plan)
{
    plan_count_starts(plan);
    plan_unbind(plan, SEAT_DAEMON);
    free(plan->run.chains);
    plan->run.chains = NULL;
    plan->run.chain_count = 0;
    plan->run.state = ENGINE_PLAN_OPEN;
    plan->run.error = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct plan_chain *chain = &plan->chains[i];
        drop_links(plan, chain);
        chain->bound = chain->wanted = (struct route){chain->pair_rail, SEAT_CLIENT};
        chain->moving = false;
    }
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        plan->transfers[i].rails = plan->transfers[i].lost = 0;
    plan_charge_puts(plan);
    plan_take_request(plan);
}

static void detached(void *context)
{
    leave_tcad(context);
    plan_done(context);
}

static void unbind(struct plan *plan)
{
    if (plan_parts(plan) && plan_attached(plan)) {
        plan->pending++;
        engine_plan_detach(plan->session->engine, &plan->run, plan->lost_error, detached, plan);
    } else if (plan_parts(plan)) {
        leave_tcad(plan);
    } else { /* pairs that could not be bound */
        plan_leave_pairs(plan);
        plan_reply_free(plan);
        plan_want_pair(plan, plan->attempt.text, plan->rise.failures + 1);
        for (uint32_t i = 0; i < plan->chain_count && plan->attempt.error == -EOPNOTSUPP; i++)
            plan->chains[i].wanted.seat = SEAT_DAEMON; /* it could never be */
    }
}

/* Unless it is on its way to one seat anyhow. */
void plan_fall_below(struct plan *plan)
{
    if (plan->seats != BOTH_SEATS || plan->move.seats != BOTH_SEATS)
        return;
    const bool in_vain = plan->chains[0].wanted.seat == SEAT_CLIENT;
    plan_leave_pairs(plan);
    plan->seats = plan->move.seats = SEAT_BIT(SEAT_DAEMON);
    if (plan->trial.what == ASKED_PART) /* not yet carried out: it has no other seat any more */
        plan->trial.what = ASKED_RAIL;
    plan_want_pair(plan,
                   in_vain ? "the data of its starts took too long to arrive, or the connection of "
                             "the two processes was given up"
                           : "the connection of the two processes was given up",
                   in_vain ? UINT_MAX : 0);
    plan_explain_seats(plan);
    if (plan->move.state == ROUTE_SETTLED) /* else when it is */
        plan_watch(plan);
}

/* ---- MAPPING and SETTLED ---- */

/* They may have ended meanwhile. */
static void check_pairs(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (!pair_find(plan->tcad, plan->chains[i].pair))
            plan_fail(plan, -ENETDOWN, "the connection of the two processes could not be made");
}

static void resume_work(struct engine *engine, void *context)
{
    struct plan *plan = context;
    engine_plan_resume(&plan->run);
}

static void settle(struct plan *plan)
{
    struct plan_move *move = &plan->move;
    free(plan->asks);
    plan->asks = NULL;
    if (plan_joins(plan, SEAT_CLIENT)) {
        plan->tcad->risen++;
        plan_reply(plan);
    }
    plan->seats = move->seats;
    if (move->held && plan_attached(plan))
        engine_call(plan_engine(plan), &plan->resume_call, resume_work, NULL, plan);
    move->held = false;
    plan_watch(plan);
    plan_tell_settled(plan);
}

/* ---- the walk ---- */

static void act(struct plan *plan)
{
    static void (*const work[ROUTE_STATES])(struct plan * plan) = {
        [ROUTE_SETTLED] = settle,
        [ROUTE_RESTING] = rest,
        [ROUTE_PAUSING] = pause,
        [ROUTE_FLUSHING] = plan_do_flush,
        [ROUTE_STRIPPING] = strip,
        [ROUTE_REGISTERING] = choose_routes,
        [ROUTE_PREPARING] = plan_do_prepare,
        [ROUTE_BINDING] = plan_bind_both,
        [ROUTE_MAPPING] = plan_do_map,
        [ROUTE_UNBINDING] = unbind,
    };
    work[plan->move.state](plan);
}

static void enter(struct plan *plan, enum route_state state)
{
    assert(plan->pending == 0);
    assert(plan_move_legal(plan->move.state, state));
    plan->move.state = state;
    plan->pending++; /* a state that completes at once does not recurse */
    act(plan);
    plan_done(plan);
}

void plan_move_begin(struct plan *plan, enum move_cause cause, enum route_state first,
                     unsigned seats)
{
    plan->move.cause = cause;
    plan->move.seats = seats;
    plan_begin_attempt(plan);
    enter(plan, first);
}

/* SETTLED or RESTING: what has happened since the last move began. */
static void look(struct plan *plan)
{
    const unsigned seats = plan->seats;
    if (plan_has_dead_link(plan)) {
        plan_move_begin(plan, CAUSE_LOSS, ROUTE_PAUSING, seats);
    } else if (plan->move.state == ROUTE_RESTING || plan->trial.what == ASKED_NOTHING) {
        return;
    } else if (plan_attached(plan)) {
        plan_move_begin(plan, CAUSE_TRIAL, ROUTE_RESTING, seats);
    } else if (plan->trial.what == ASKED_JOIN) {
        plan_take_request(plan);
        plan_move_begin(plan, CAUSE_TRIAL, ROUTE_BINDING, seats | SEAT_BIT(SEAT_DAEMON));
    } else {
        plan_answer_request(plan); /* tcad has left its seat meanwhile */
    }
}

static enum route_state next(const struct plan *plan)
{
    switch (plan->move.state) {
    case ROUTE_PAUSING:
        return ROUTE_FLUSHING;
    case ROUTE_FLUSHING:
        return ROUTE_STRIPPING;
    case ROUTE_STRIPPING:
        return plan_parts(plan) ? ROUTE_UNBINDING : ROUTE_REGISTERING;
    case ROUTE_REGISTERING:
        return ROUTE_PREPARING;
    case ROUTE_BINDING:
        return plan_joins(plan, SEAT_CLIENT) ? ROUTE_MAPPING : ROUTE_REGISTERING;
    default:
        return ROUTE_SETTLED;
    }
}

static bool has_failed(const struct plan *plan)
{
    const enum route_state state = plan->move.state;
    return plan->attempt.error < 0 && (state == ROUTE_REGISTERING || state == ROUTE_PREPARING ||
                                       state == ROUTE_BINDING || state == ROUTE_MAPPING);
}

static enum seat failed_seat(const struct plan *plan)
{
    return plan_joins(plan, SEAT_CLIENT) ? SEAT_CLIENT : SEAT_DAEMON;
}

unsigned plan_seats_left(const struct plan *plan)
{
    return plan->seats & ~SEAT_BIT(failed_seat(plan));
}

/* The plan goes on in its other seat, if it has one. */
static void fall_back(struct plan *plan)
{
    const enum seat failed = failed_seat(plan);
    const unsigned left = plan_seats_left(plan);
    if (left == 0) {
        plan_end_with_attempt(plan);
        plan_advance(plan);
        return;
    }
    log_debug(NULL, "plan %" PRIu64 ".%" PRIu32 " cannot be in the %s's seat: %s", plan->session_id,
              plan->id, seat_name(failed), plan->attempt.text);
    plan->move.seats = left;
    enter(plan, failed == SEAT_CLIENT ? ROUTE_UNBINDING : ROUTE_STRIPPING);
}

void plan_move_advance(struct plan *plan)
{
    if (plan->move.state == ROUTE_MAPPING)
        check_pairs(plan);
    if (plan->move.state == ROUTE_SETTLED || plan->move.state == ROUTE_RESTING)
        look(plan);
    else if (has_failed(plan))
        fall_back(plan);
    else
        enter(plan, next(plan));
}

void plan_move_end(struct plan *plan)
{
    plan->move.state = ROUTE_SETTLED;
}
