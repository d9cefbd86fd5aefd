/* Plans return to better rails. A plan that has lost a rail, or was committed while no cable led to
 * its targets, is on its second-best rail. When the better rail leads there again, its chains move
 * back between two starts, so that no start fails because of the move.
 *
 * comeback.h decides when a rail is good again; this file asks it, and moves the plans. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

#define LOOK_NS UINT64_C(100000000)

/* ---- whether a link has come back ---- */

struct proof {
    struct engine_call call;
    struct loop_post post;
    struct driver_op op;
    struct link_wait wait;
    struct tcad *tcad;
    struct link *link;
    int status;
};

static void proved(void *context)
{
    struct proof *proof = context;
    comeback_answered(&proof->link->comeback, proof->status == 0);
    link_unref(proof->link);
    free(proof);
}

static void answered(struct driver_op *op, int status)
{
    struct proof *proof = op->owner;
    proof->status = status;
    loop_post_own(proof->tcad->loop, &proof->post, proved, proof);
}

static void ask_work(struct engine *engine, void *context)
{
    struct proof *proof = context;
    struct driver *driver = engine_driver(engine, proof->link->rail);
    proof->op = (struct driver_op){.done = answered, .owner = proof, .probe = true};
    int r = driver->ops->peer_flush(driver, proof->link->peer, &proof->op);
    if (r < 0)
        answered(&proof->op, r);
}

static void connected(void *context, int status, const char *text)
{
    struct proof *proof = context;
    if (status < 0) {
        proof->status = status;
        proved(proof);
        return;
    }
    engine_call(proof->tcad->engine, &proof->call, ask_work, NULL, proof);
}

static void prove(struct tcad *tcad, struct link *link)
{
    struct proof *proof = malloc(sizeof *proof);
    if (!proof)
        return; /* the next look tries again */
    *proof =
        (struct proof){.tcad = tcad, .link = link, .wait = {.done = connected, .context = proof}};
    link->refs++;
    comeback_asked(&link->comeback);
    int r = link_connect(link, &proof->wait);
    if (r != -EINPROGRESS)
        connected(proof, r, "");
}

static bool is_back(struct tcad *tcad, uint32_t node, unsigned rail)
{
    struct link *link = links_find(tcad->links, node, rail);
    if (!link || tcad->conf->rails.return_after_ns == 0)
        return false;
    const enum comeback_state state =
        comeback_look(&link->comeback, fabric_reaches(tcad, rail, node), clock_now_ns(),
                      tcad->conf->rails.return_after_ns);
    if (state == COMEBACK_PROVE)
        prove(tcad, link);
    return state == COMEBACK_BACK;
}

/* ---- plans that have lost rails ---- */

bool plan_look_back(struct plan *plan)
{
    bool missing = false;
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct plan_unit *unit = &plan->units[i];
        unit->back = 0;
        for (unsigned rail = 1; rail <= plan->tcad->rails->last; rail++)
            if (unit->lost & (1u << rail) && is_back(plan->tcad, unit->node, rail))
                unit->back |= 1u << rail;
        missing |= unit->back != unit->lost;
    }
    return missing;
}

/* Some chain is not on the rail that it wants. */
static bool is_away(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (plan->chains[i].wanted_rail != plan->chains[i].rail)
            return true;
    return false;
}

/* Whether it is still to be watched. */
static bool try_return(struct plan *plan)
{
    const bool returns = plan->tcad->conf->rails.return_after_ns > 0;
    if (plan->state != PLAN_READY || plan->move.state != ROUTE_SETTLED)
        return true;
    const bool missing = returns && plan_look_back(plan);
    if (returns && plan_mark_moving(plan)) {
        plan_move_begin(plan, CAUSE_RETURN, ROUTE_RESTING, plan->seats);
        return true;
    }
    plan_tell_rails(plan);
    return plan_rise(plan) || plan_is_below(plan) || missing || (returns && is_away(plan));
}

static void append(struct plans_watched *watched, struct plan *plan)
{
    plan->next_watched = NULL;
    plan->previous_watched = watched->last;
    *(watched->last ? &watched->last->next_watched : &watched->first) = plan;
    watched->last = plan;
    plan->watched = true;
    watched->count++;
}

void plan_watch_end(struct plan *plan)
{
    struct plans_watched *watched = &plan->tcad->plans_watched;
    if (!plan->watched)
        return;
    *(plan->previous_watched ? &plan->previous_watched->next_watched : &watched->first) =
        plan->next_watched;
    *(plan->next_watched ? &plan->next_watched->previous_watched : &watched->last) =
        plan->previous_watched;
    plan->watched = false;
    watched->count--;
}

/* Each of those that were watched when this began is looked at once, and goes to the end. */
static bool look_at_some(void *context)
{
    struct tcad *tcad = context;
    struct plans_watched *watched = &tcad->plans_watched;
    while (watched->left > 0 && watched->first) {
        struct plan *plan = watched->first;
        watched->left--;
        plan_watch_end(plan);
        if (try_return(plan) && !plan->watched) /* unless it is READY again */
            append(watched, plan);
        if (loop_slice_over(tcad->loop) && watched->left > 0)
            return true;
    }
    watched->left = 0;
    if (!watched->first && watched->timer)
        loop_timer_stop(watched->timer);
    return false;
}

static void look_at_all(void *context)
{
    struct tcad *tcad = context;
    struct plans_watched *watched = &tcad->plans_watched;
    if (watched->left > 0)
        return; /* the last look has not come to its end */
    watched->left = watched->count;
    loop_job_begin(tcad->loop, &watched->job, look_at_some, tcad);
}

static bool has_lost(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->unit_count; i++)
        if (plan->units[i].lost)
            return true;
    return false;
}

/* Also plans that have lost a rail that they do not want, because they may still need it; and those that wait for pairs. */
void plan_watch(struct plan *plan)
{
    struct tcad *tcad = plan->tcad;
    struct plans_watched *watched = &tcad->plans_watched;
    plan_watch_end(plan);
    for (uint32_t i = 0; i < plan->chain_count; i++)
        plan->chains[i].wanted_rail = plan_wanted_rail(plan, &plan->chains[i]);
    const bool returns = tcad->conf->rails.return_after_ns > 0;
    if (!plan_is_below(plan) && (!returns || (!is_away(plan) && !has_lost(plan))))
        return;
    if (!watched->timer && loop_timer_new(tcad->loop, look_at_all, tcad, &watched->timer) < 0) {
        log_warning(
            NULL, "no memory: plans stay on the rails, and in the seats, that they have moved to");
        return;
    }
    if (!watched->first)
        loop_timer_set(watched->timer, LOOK_NS, LOOK_NS);
    append(watched, plan);
}

void plans_watch_end(struct tcad *tcad)
{
    tcad->plans_watched.timer = loop_timer_free(tcad->plans_watched.timer);
}

void plan_note_unreached(struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count && !plan_demands_one(plan); i++) {
        struct plan_unit *unit =
            chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        for (unsigned rail = 1; unit && rail <= plan->tcad->rails->last; rail++)
            if (unit->rails & (1u << rail) && !fabric_reaches(plan->tcad, rail, unit->node))
                unit->lost |= 1u << rail;
    }
}
