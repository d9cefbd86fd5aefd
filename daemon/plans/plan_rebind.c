/*
 * Moves to other rails (plan.h). When a rail to a node is lost while the node is up, the chains on it move to the best
 * rail that is left; a start that runs then fails, because how much of it has arrived is unknown, and later ones succeed.
 * When a better rail is back (plan_return.c), the chains move to it between two starts. The bindings at the targets' nodes
 * hold for every rail, so no request is needed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

static bool is_dead(const struct plan_unit *unit)
{
    return unit->link && unit->link->state == LINK_FAILED;
}

/* A rail of the chain that was lost, or RAIL_NONE. */
static unsigned lost_rail(const struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++) {
        if (chain->steps[i].is_wait)
            continue;
        const struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        if (is_dead(unit))
            return unit->link->rail;
        for (uint32_t k = 0; k < plan_stripe_count(plan, unit); k++)
            if (is_dead(plan_stripe(plan, unit, k)))
                return plan_stripe(plan, unit, k)->rail;
    }
    return RAIL_NONE;
}

bool plan_is_on_dead_link(const struct plan *plan, const struct plan_chain *chain)
{
    return lost_rail(plan, chain) != RAIL_NONE;
}

bool plan_has_dead_link(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->unit_count; i++)
        if (is_dead(&plan->units[i]))
            return true;
    return false;
}

bool plan_mark_moving(struct plan *plan)
{
    bool any = false;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct plan_chain *chain = &plan->chains[i];
        chain->moving = chain->seat == SEAT_DAEMON && (plan_is_on_dead_link(plan, chain) ||
                                                       plan_best_rail(plan, chain) != chain->rail ||
                                                       plan_stripes_differ(plan, chain));
        any |= chain->moving;
    }
    return any;
}

/* ---- REGISTERING ---- */

static void drop_link(struct plan_unit *unit)
{
    if (unit->link && unit->source)
        link_hold(unit->link, unit->held, unit->source);
    unit->held = NULL;
    link_unref(unit->link);
    unit->link = NULL;
    unit->driver = NULL;
    unit->lost &= ~unit->back;
    unit->back = 0;
}

void plan_drop_links(struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++) {
        struct plan_unit *unit =
            chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        if (!unit)
            continue;
        drop_link(unit);
        for (uint32_t k = 0; k < plan_stripe_count(plan, unit); k++)
            drop_link(plan_stripe(plan, unit, k));
    }
}

int plan_reroute(struct plan *plan, struct plan_chain *chain)
{
    plan_drop_links(plan, chain);
    int r = plan_route(plan, chain);
    if (r == 0)
        r = plan_take_links(plan, chain, 0, chain->step_count);
    return r < 0 ? r : plan_order_soon(plan, chain);
}

static int move_chain(struct plan *plan, struct plan_chain *chain)
{
    const unsigned before = chain->rail, lost = lost_rail(plan, chain);
    const bool asked = !lost && plan->move.cause == CAUSE_TRIAL;
    char why[80];
    snprintf(why, sizeof why,
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
                    rail_name(plan->tcad, chain->rail));
    return r;
}

static uint64_t *counter_of(struct plan *plan)
{
    struct tcad *tcad = plan->tcad;
    return plan->move.cause == CAUSE_LOSS     ? &tcad->rebound
           : plan->move.cause == CAUSE_RETURN ? &tcad->returned
                                              : &tcad->tried;
}

void plan_do_move(struct plan *plan)
{
    bool any = false;
    if (plan_has_dead_link(plan))
        plan->move.cause = CAUSE_LOSS;
    plan_count_starts(plan); /* from now on they count for other rails */
    if (plan_joins(plan, SEAT_DAEMON) && plan_take_seat(plan) < 0)
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
