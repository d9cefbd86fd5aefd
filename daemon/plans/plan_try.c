/*
 * Plans whose client finds their routes by trial (client/plan/trial_route.h).
 *
 * The client says which rail it wants, and the plan moves there as to any better rail
 * (plan_move.h): between two starts, when all its data has arrived. While that rail does not lead
 * to the targets, the cost model chooses among the others.
 *
 * Where the client puts over pairs, all chains join tcad's seat at its request. The client says
 * with each start who runs it, as it submits the start or does not. It changes the seat only when
 * all data of earlier starts has arrived. Of those that tcad has run, a PlanTry finds that out: the
 * plan rests, and is flushed. The chains part from tcad's seat at the client's request, or when
 * tcad cannot run them (any more): then they go on in the client's seat.
 *
 * Only plans for which any seat will do. A move keeps the order of starts: within the daemon's seat
 * by daemon/engine/engine_flow.c, between the seats by client/plan/order.h.
 */
#include "daemon/plans/plan_internal.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

void plan_take_found(struct plan *plan, struct plan_chain *chain, const char *rail, enum seat seat)
{
    if (!plan->tries)
        return;
    const unsigned rails = rail[0] ? rails_named(plan->tcad, rail) : 0;
    chain->asked.seat = seat;
    chain->found = rails && !(rails & (rails - 1)); /* else of another configuration */
    if (chain->found)
        chain->asked.rail = (unsigned)__builtin_ctz(rails);
}

/* ---- requests ---- */

/* It is carried out when the plan is settled. */
static void request(struct plan *plan, enum asked_for what, uint32_t turn)
{
    plan->trial.what = what;
    plan->trial.turn = turn;
    plan_advance(plan);
}

void plan_take_request(struct plan *plan)
{
    plan->trial.what = ASKED_NOTHING;
    plan->trial.answered = plan->trial.turn;
}

static void try_rail(struct plan *plan, const Tca__PlanTry *body)
{
    if (!plan_attached(plan) || body->rail > plan->tcad->rails->last ||
        (plan->seats == BOTH_SEATS && body->chains))
        return;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        if (!(body->chains & 1ull << i) || plan->chains[i].bound.seat != SEAT_DAEMON)
            continue;
        plan->chains[i].asked.rail = body->rail;
        plan->chains[i].found = body->found;
    }
    request(plan, ASKED_RAIL, body->turn);
}

static void try_seat(struct plan *plan, const Tca__PlanTry *body)
{
    const bool both = plan_has_both_seats(plan), to_tcad = body->seat == SEAT_DAEMON;
    if (to_tcad && body->below) {
        plan_fall_below(plan);
        return;
    }
    if ((!both && !plan_offers_seats(plan)) || (!to_tcad && (body->seat != SEAT_CLIENT || !both)))
        return;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        plan->chains[i].found = body->found;
    request(plan,
            !to_tcad               ? ASKED_PART
            : both || !body->joins ? ASKED_RAIL
                                   : ASKED_JOIN,
            body->turn);
}

/* The request means nothing to plans that may not move, and rails that lead elsewhere are never
 * chosen. */
void plan_try_request(struct session *session, const Tca__PlanTry *request)
{
    struct plan *plan = session->plans && request->plan < PLANS_PER_SESSION_MAX
                            ? session->plans[request->plan]
                            : NULL;
    if (!plan || !plan->tries || plan->state < PLAN_READY || plan->state >= PLAN_BREAKING)
        return;
    if (request->seat)
        try_seat(plan, request);
    else
        try_rail(plan, request);
}

/* ---- whether there is a choice ---- */

/* If nothing is known about the rail: what takes longer than handing over a start, on machines of
 * today. */
#define UNKNOWN_WORTH_BYTES (UINT64_C(64) << 10)

/* tcad's seat costs a start its way to the engine, and the data the same as in the client's. If the
 * data takes less time than all that is the same for a put of no bytes, tcad cannot win it back. */
static bool is_worth_trying(const struct plan *plan)
{
    uint64_t all_ns = 0, empty_ns = 0;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        const struct plan_transfer *transfer = &plan->transfers[i];
        const unsigned rail = plan->chains[transfer->chain].bound.rail;
        const struct cost_parameters *costs = &plan->tcad->costs.rails[rail].at[SEAT_DAEMON];
        const struct cost_transfer moved = plan_cost_transfer(plan, transfer, rail),
                                   empty = {.hops = moved.hops};
        if (transfer->of)
            continue;
        if (!costs->valid)
            return plan->bytes >= UNKNOWN_WORTH_BYTES;
        all_ns += cost_predict(costs, &moved);
        empty_ns += cost_predict(costs, &empty);
    }
    return all_ns / 2 >= empty_ns;
}

bool plan_offers_seats(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (!plan->chains[i].direct)
            return false;
    return plan->tries && plan->chain_count > 0 && plan->part_count == 0 && is_worth_trying(plan);
}

bool plan_note_rails(struct plan *plan)
{
    bool changed = false;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        const unsigned rails = plan_rails_to_try(plan, &plan->chains[i]);
        changed |= rails != plan->chains[i].rails;
        plan->chains[i].rails = rails;
    }
    return changed;
}

/* ---- for display ---- */

static void explain(const struct plan *plan, const struct plan_chain *chain,
                    struct plan_candidate *candidate)
{
    candidate->chosen =
        candidate->route.seat == chain->bound.seat && candidate->route.rail == chain->bound.rail;
    if (chain->wanted.seat == SEAT_CLIENT && plan_has_both_seats(plan))
        candidate->why = candidate->chosen ? "until its process has moved up"
                                           : "the processes have a connection of their own again";
    else if (chain->found)
        candidate->why = candidate->chosen ? "fastest by trial" : "slower by trial";
    else
        candidate->why = candidate->route.seat == SEAT_CLIENT
                             ? "the processes have a connection of their own"
                         : plan_has_both_seats(plan) ? "being tried"
                                                     : "not bound there now";
}

void plan_explain_seats(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct plan_chain *chain = &plan->chains[i];
        for (uint32_t k = 0; k < chain->candidate_count; k++) {
            struct plan_candidate *candidate = &chain->candidates[k];
            const bool pair =
                candidate->route.seat == SEAT_CLIENT && candidate->route.rail == chain->pair_rail;
            if (pair && (chain->direct || plan_is_below(plan))) {
                candidate->possible = chain->direct;
                candidate->why = plan->rise.why;
            }
            if (chain->direct && candidate->possible)
                explain(plan, chain, candidate);
        }
    }
}

/* ---- answers ---- */

static void tell(struct plan *plan)
{
    Tca__RouteChanged__Route routes[PLAN_CHAINS_MAX], *list[PLAN_CHAINS_MAX];
    Tca__RouteChanged changed = TCA__ROUTE_CHANGED__INIT;
    Tca__Event event = TCA__EVENT__INIT;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        tca__route_changed__route__init(&routes[i]);
        routes[i].rail = plan->chains[i].bound.rail;
        routes[i].seat = plan->chains[i].bound.seat;
        routes[i].may_try = plan->chains[i].rails;
        list[i] = &routes[i];
    }
    changed.n_routes = plan->chain_count;
    changed.routes = list;
    changed.turn = plan->trial.answered;
    changed.flush_ns = plan->flush_ns;
    if (plan->attempt.error < 0)
        changed.reason = plan->attempt.text;
    event.kind = TCA__EVENT__KIND__ROUTE_CHANGED;
    event.plan = plan->id;
    event.changed = &changed;
    session_event(plan->session, &event);
}

void plan_tell_settled(struct plan *plan)
{
    if (plan->move.cause == CAUSE_PAIR) /* the client has heard of it, or it failed */
        plan_explain_seats(plan);
    if (plan->move.cause == CAUSE_PAIR || !plan->tries)
        return;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (plan->chains[i].bound.rail == plan->chains[i].asked.rail)
            plan_explain_again(plan, &plan->chains[i]);
    plan_explain_seats(plan);
    plan_note_rails(plan);
    tell(plan);
}

void plan_answer_request(struct plan *plan)
{
    plan_take_request(plan);
    tell(plan);
}

void plan_tell_rails(struct plan *plan)
{
    if (plan->tries && plan_note_rails(plan))
        tell(plan);
}
