/*
 * Re-binding: a rail to a node that a plan puts to was lost while the node is there. The chains
 * that used it move to the best rail that is left; a start that runs then fails (nobody knows what
 * of it has landed), the next ones go on. What was bound where the puts land is good for every
 * rail, so nobody else is asked. plan_return.c brings them back.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/plans/plan.h"
#include "daemon/rails/link.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

static bool has_dead_link(const struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++) {
        const struct plan_unit *unit =
            chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        if (unit && unit->link && unit->link->dead)
            return true;
    }
    return false;
}

/* Marks the chains that have to move: whether there are any. */
static bool mark(struct plan *plan)
{
    bool any = false;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct plan_chain *chain = &plan->chains[i];
        chain->moving = chain->seat == SEAT_DAEMON && has_dead_link(plan, chain);
        any |= chain->moving;
    }
    return any;
}

/* ---- on the engine ---- */

static void strip_chain(struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++) {
        struct plan_unit *unit =
            chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        if (!unit || !unit->put)
            continue;
        unit->driver->ops->put_release(unit->driver, unit->put);
        unit->put = NULL;
    }
}

static void strip_work(struct engine *engine, void *context)
{
    struct plan *plan = context;
    uint32_t made = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        const struct plan_chain *chain = &plan->chains[i];
        if (chain->seat == SEAT_CLIENT)
            continue;
        if (chain->moving) {
            plan->run.chains[made] = chain_free(plan->run.chains[made]);
            strip_chain(plan, chain);
        }
        made++;
    }
}

static void resume_work(struct engine *engine, void *context)
{
    struct plan *plan = context;
    engine_plan_resume(&plan->run);
}

/* ---- on the loop ---- */

static void drop_links(struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++) {
        struct plan_unit *unit =
            chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        if (!unit)
            continue;
        if (unit->link && unit->source)
            link_hold(unit->link, unit->source);
        link_unref(unit->link);
        unit->link = NULL;
        unit->driver = NULL;
        unit->lost &= ~unit->back;
        unit->back = 0;
    }
}

static int move_chain(struct plan *plan, struct plan_chain *chain)
{
    const enum rail before = chain->rail;
    char why[64];
    snprintf(why, sizeof why,
             plan->returning ? "a better rail than %s is back" : "rail %s was lost",
             rail_name(before));
    drop_links(plan, chain);
    int r = plan_route(plan, chain);
    if (r < 0) {
        plan->error = 0; /* what was lost says more than what there never was */
        return plan_fail(plan, plan->lost_error,
                         "plan %" PRIu32 " (%s): rail %s was lost, and no other leads where it did",
                         plan->id, plan->name[0] ? plan->name : "unnamed", rail_name(before));
    }
    r = plan_take_links(plan, chain);
    if (r == 0)
        r = plan_order_soon(plan, chain);
    if (r == 0)
        log_info(NULL, "plan %" PRIu64 ".%" PRIu32 ", chain %u: %s, it goes on over %s",
                 plan->session_id, plan->id, (unsigned)(chain - plan->chains), why,
                 rail_name(chain->rail));
    return r;
}

/* Something else has happened to it meanwhile. */
static bool is_over(const struct plan *plan)
{
    return plan->error < 0 || plan->release_asked || !plan->session;
}

static void stripped(void *context)
{
    struct plan *plan = context;
    plan->pending--;
    if (!is_over(plan)) {
        plan_count_starts(plan); /* from now on they count for other rails */
        for (uint32_t i = 0; i < plan->chain_count && plan->error == 0; i++)
            if (plan->chains[i].moving)
                move_chain(plan, &plan->chains[i]);
        if (plan->error == 0)
            plan_register(plan);
    }
    plan_advance(plan); /* unless something is pending */
}

static void strip(struct plan *plan)
{
    plan->pending++;
    engine_call(plan->tcad->engine, strip_work, stripped, plan);
}

static void flushed(void *context)
{
    struct plan *plan = context;
    plan->pending--;
    if (is_over(plan))
        plan_advance(plan);
    else
        strip(plan);
}

/* What its former starts have put over links that live lands before anything overtakes it on
 * another rail. */
static void flush_and_strip(struct plan *plan)
{
    if (plan_flush(plan, flushed))
        plan->pending++;
    else
        strip(plan);
}

static void paused(void *context)
{
    struct plan *plan = context;
    plan->pending--;
    if (is_over(plan)) {
        plan_advance(plan);
        return;
    }
    for (uint32_t i = 0; i < plan->unit_count; i++)
        plan->units[i].back = 0;
    mark(plan);
    flush_and_strip(plan);
}

void plan_move(struct plan *plan, int error)
{
    plan_set_state(plan, PLAN_REBINDING);
    plan->lost_error = error;
    plan->returning = true;
    flush_and_strip(plan);
}

void plan_rebind(struct plan *plan, int error)
{
    plan_set_state(plan, PLAN_REBINDING);
    plan->lost_error = error;
    plan->returning = false;
    plan->pending++;
    engine_plan_pause(plan->session->engine, &plan->run, error, paused, plan);
}

void plan_rebound(struct plan *plan)
{
    plan->tcad->rebound += !plan->returning;
    plan->tcad->returned += plan->returning;
    engine_call(plan->tcad->engine, resume_work, NULL, plan);
    if (mark(plan)) /* another one was lost meanwhile */
        plan_rebind(plan, -ENETDOWN);
    else
        plan_watch(plan);
}
