/*
 * Plans whose client puts over pairs, and tries whether tcad is faster (client/plan/trial_route.h). While it does, all chains
 * of the plan are bound in both seats: the client says with each start who runs it, as it submits the start or does not. It
 * changes the seat only when all data of earlier starts has arrived. Of those that tcad has run, a PlanTry finds that out:
 * the plan rests, and is flushed (plan_move.h).
 *
 * The chains join tcad's seat at the client's request, and part from it at its request, or when tcad cannot run them (any
 * more): then they go on in the client's seat.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

/* ---- whether it may ---- */

/* If nothing is known about the rail: what takes longer than handing over a start, on machines of today. */
#define UNKNOWN_WORTH_BYTES (UINT64_C(64) << 10)

/* tcad's seat costs a start its way to the engine, and the data the same as in the client's. If the data takes less time
 * than all that is the same for a put of no bytes, tcad cannot win it back. */
static bool is_worth_trying(const struct plan *plan)
{
    uint64_t all_ns = 0, empty_ns = 0;
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        const struct plan_unit *unit = &plan->units[i];
        const unsigned rail = plan->chains[unit->chain].rail;
        const struct cost_parameters *costs = &plan->tcad->costs.rails[rail].at[SEAT_DAEMON];
        const struct cost_transfer transfer = plan_transfer(plan, unit, rail),
                                   empty = {.hops = transfer.hops};
        if (unit->of)
            continue;
        if (!costs->valid)
            return plan->bytes >= UNKNOWN_WORTH_BYTES;
        all_ns += cost_predict(costs, &transfer);
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

void plan_try_seat(struct plan *plan, const Tca__PlanTry *request)
{
    const bool both = plan_has_both_seats(plan), to_tcad = request->seat == SEAT_DAEMON;
    if (to_tcad && request->below) {
        plan_fall_below(plan);
        return;
    }
    if ((!both && !plan_offers_seats(plan)) ||
        (!to_tcad && (request->seat != SEAT_CLIENT || !both)))
        return;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        plan->chains[i].found = request->found;
    plan_request_move(plan,
                      !to_tcad                  ? ASKED_PART
                      : both || !request->joins ? ASKED_RAIL
                                                : ASKED_JOIN,
                      request->turn);
}

/* ---- joining ---- */

int plan_take_seat(struct plan *plan)
{
    free(plan->asks);
    plan->asks = NULL;
    free(plan->run.chains);
    plan->run.chains = calloc(plan->chain_count, sizeof *plan->run.chains);
    if (!plan->run.chains)
        return plan_fail(plan, -ENOMEM, "out of memory for %" PRIu32 " chains", plan->chain_count);
    plan->run.chain_count = plan->chain_count;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        plan->chains[i].seat = SEAT_DAEMON;
        plan->chains[i].moving = true;
    }
    return 0;
}

/* ---- parting ---- */

/* The engine has nothing of it any more. */
static void let_go(struct plan *plan)
{
    plan_count_starts(plan);
    plan_unbind_remote(plan);
    free(plan->asks);
    free(plan->run.chains);
    plan->asks = NULL;
    plan->run.chains = NULL;
    plan->run.chain_count = 0;
    plan->run.state = ENGINE_PLAN_OPEN;
    plan->run.error = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct plan_chain *chain = &plan->chains[i];
        plan_drop_links(plan, chain);
        chain->seat = SEAT_CLIENT;
        chain->rail = chain->wanted_rail = chain->pair_rail;
        chain->moving = false;
    }
    for (uint32_t i = 0; i < plan->unit_count; i++)
        plan->units[i].rails = plan->units[i].lost = 0;
    plan_charge_puts(plan);
    plan->rise.wanted = SEAT_NONE;
    if (plan->trial.what != ASKED_NOTHING)
        plan_take_request(plan);
}

static void detached(void *context)
{
    struct plan *plan = context;
    let_go(plan);
    plan->pending--;
    plan_advance(plan);
}

void plan_part(struct plan *plan)
{
    if (!plan_attached(plan)) {
        let_go(plan);
        return;
    }
    plan->pending++;
    engine_plan_detach(plan->session->engine, &plan->run, plan->lost_error, detached, plan);
}

/* ---- for display ---- */

static void explain(const struct plan *plan, const struct plan_chain *chain,
                    struct plan_candidate *candidate)
{
    candidate->chosen =
        candidate->route.seat == chain->seat && candidate->route.rail == chain->rail;
    if (plan->rise.wanted == SEAT_CLIENT && plan_has_both_seats(plan))
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
