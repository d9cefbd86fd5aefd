/*
 * Plans whose client finds their rail by trial (client/plan/trial_route.h). The client says which rail it wants, and the plan
 * moves there as to any better rail (plan_move.h): between two starts, when all its data has arrived. While that rail
 * does not lead to the targets, the cost model chooses among the others.
 *
 * Only plans for which any seat will do: their starts have no order with those of other plans that a move could break.
 */
#include "daemon/plans/plan_internal.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

void plan_take_found(struct plan *plan, struct plan_chain *chain, const char *rail)
{
    const unsigned rails = plan->tries && rail[0] ? rails_named(plan->tcad, rail) : 0;
    if (rails == 0 || rails & (rails - 1))
        return; /* of another configuration */
    chain->asked_rail = (unsigned)__builtin_ctz(rails);
    chain->found = true;
}

void plan_request_move(struct plan *plan, enum asked_for what, uint32_t turn)
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

static void try_rail(struct plan *plan, const Tca__PlanTry *request)
{
    if (plan->seats == BOTH_SEATS || !plan_attached(plan) ||
        request->rail > plan->tcad->rails->last)
        return;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        if (!(request->chains & 1ull << i) || plan->chains[i].seat != SEAT_DAEMON)
            continue;
        plan->chains[i].asked_rail = request->rail;
        plan->chains[i].found = request->found;
    }
    plan_request_move(plan, ASKED_RAIL, request->turn);
}

/* The request means nothing to plans that may not move, and rails that lead elsewhere are never chosen. */
void plan_try_request(struct session *session, const Tca__PlanTry *request)
{
    struct plan *plan = session->plans && request->plan < PLANS_PER_SESSION_MAX
                            ? session->plans[request->plan]
                            : NULL;
    if (!plan || !plan->tries || plan->state < PLAN_READY || plan->state >= PLAN_BREAKING)
        return;
    if (request->seat)
        plan_try_seat(plan, request);
    else
        try_rail(plan, request);
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

static void tell(struct plan *plan)
{
    Tca__RouteChanged__Route routes[PLAN_CHAINS_MAX], *list[PLAN_CHAINS_MAX];
    Tca__RouteChanged changed = TCA__ROUTE_CHANGED__INIT;
    Tca__Event event = TCA__EVENT__INIT;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        tca__route_changed__route__init(&routes[i]);
        routes[i].rail = plan->chains[i].rail;
        routes[i].seat = plan->chains[i].seat;
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
        if (plan->chains[i].rail == plan->chains[i].asked_rail)
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
