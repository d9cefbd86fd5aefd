/*
 * Plans that wait for a better route. They move to it between two starts, so that no start fails
 * because of the move.
 *
 * A plan that has lost a rail, or was committed while no cable led to its targets, is on its
 * second-best rail. When the better one leads there again (link_is_back()), its chains move back.
 *
 * Plans are in tcad's seat only for want of a pair if there could be none when they were committed,
 * as one of the processes had as many as it may have, or did not answer; or if the pair was given
 * up. They are *below* the seat that they want. While such a plan is started, tcad tries from time
 * to time to bind it over a pair, beside its own bindings, and takes starts meanwhile. When it is
 * bound, its client gets what it needs to put by itself (PLAN_PAIRED), and moves up between two
 * starts, when all data of earlier ones has arrived: as in a trial of both seats (plan_try.c),
 * which may follow. Only plans for which any seat will do, all of whose chains lead to pairs; not
 * those that a trial has found to be faster in tcad's seat.
 */
#include <errno.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/bindings/pairs.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/list.h"
#include "proto/wait.h"

#define LOOK_NS UINT64_C(100000000)
/* Between attempts to get a pair: after each failure twice as long, up to 3.2 s. A pair that this
 * node sees made or ended makes the next one due at once; others, it does not hear of. */
#define INTERVAL_NS UINT64_C(100000000)
enum { FAILURES_MAX = 6 };

/* ---- lost rails ---- */

bool plan_look_back(struct plan *plan)
{
    bool missing = false;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct plan_transfer *transfer = &plan->transfers[i];
        transfer->back = 0;
        for (unsigned rail = 1; rail <= plan->tcad->rails->last; rail++)
            if (transfer->lost & (1u << rail) && link_is_back(plan->tcad, transfer->node, rail))
                transfer->back |= 1u << rail;
        missing |= transfer->back != transfer->lost;
    }
    return missing;
}

void plan_note_unreached(struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count && !plan_demands_one(plan); i++) {
        struct plan_transfer *transfer =
            chain->steps[i].is_wait ? NULL : &plan->transfers[chain->steps[i].transfer];
        for (unsigned rail = 1; transfer && rail <= plan->tcad->rails->last; rail++)
            if (transfer->rails & (1u << rail) && !fabric_reaches(plan->tcad, rail, transfer->node))
                transfer->lost |= 1u << rail;
    }
}

static bool has_lost(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        if (plan->transfers[i].lost)
            return true;
    return false;
}

/* Some chain is not on the rail that it wants. */
static bool is_away(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (plan->chains[i].wanted.rail != plan->chains[i].bound.rail)
            return true;
    return false;
}

/* ---- pairs ---- */

bool plan_is_below(const struct plan *plan)
{
    return plan->chain_count > 0 && plan->chains[0].wanted.seat == SEAT_CLIENT &&
           plan->chains[0].bound.seat == SEAT_DAEMON && !(plan->seats & SEAT_BIT(SEAT_CLIENT));
}

void plan_want_pair(struct plan *plan, const char *why, unsigned failures)
{
    struct plan_rise *rise = &plan->rise;
    *rise = (struct plan_rise){.starts = plan_starts(plan),
                               .failures = failures < FAILURES_MAX ? failures : FAILURES_MAX};
    if (failures > 0)
        rise->due_ns = clock_now_ns() + (INTERVAL_NS << (rise->failures - 1));
    snprintf(rise->why, sizeof(rise->why), "%.255s", why);
    for (uint32_t i = 0; i < plan->chain_count; i++)
        plan->chains[i].wanted.seat = SEAT_CLIENT;
}

void plan_note_below(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (!plan->chains[i].direct)
            return;
    if (plan->tries && plan->part_count == 0 && plan->attempt.error != -EOPNOTSUPP)
        plan_want_pair(plan, plan->attempt.text, 0);
}

/* What this node can know. */
static bool has_room(const struct plan *plan)
{
    if (pairs_have_room(plan->session))
        return true;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        const struct plan_transfer *transfer = &plan->transfers[i];
        if (!pairs_exist(plan->tcad, plan->session_id, transfer->node,
                         transfer->owner ? transfer->owner : transfer->notify_session))
            return false;
    }
    return true;
}

/* Begins to bind it over pairs if that may be possible now. */
static void rise(struct plan *plan)
{
    if (!plan_is_below(plan) || plan_starts(plan) == plan->rise.starts ||
        clock_now_ns() < plan->rise.due_ns || !has_room(plan))
        return;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (!plan_pair_rail(plan, &plan->chains[i]))
            return;
    plan->rise.starts = plan_starts(plan);
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        plan->chains[i].direct = true;
        plan->chains[i].pair_rail = plan_pair_rail(plan, &plan->chains[i]);
    }
    plan_move_begin(plan, CAUSE_PAIR, ROUTE_BINDING, BOTH_SEATS);
}

void plans_pairs_changed(struct tcad *tcad, uint64_t session_id)
{
    const struct session *session = session_find(tcad, session_id);
    for (struct plan *plan = session ? session->plan_list : NULL; plan;
         plan = plan->next_of_session)
        plan->rise.due_ns = plan->rise.failures = 0;
}

/* ---- the watch ---- */

static bool returns(const struct plan *plan)
{
    return plan->tcad->conf->rails.return_after_ns > 0;
}

/* Whether it is still to be watched. */
static bool look(struct plan *plan)
{
    if (plan->state != PLAN_READY || plan->move.state != ROUTE_SETTLED)
        return true;
    const bool missing = returns(plan) && plan_look_back(plan);
    if (returns(plan) && plan_mark_moving(plan)) {
        plan_move_begin(plan, CAUSE_RETURN, ROUTE_RESTING, plan->seats);
        return true;
    }
    plan_tell_rails(plan);
    const bool below = plan_is_below(plan);
    rise(plan);
    return below || missing || (returns(plan) && is_away(plan));
}

void plan_watch_end(struct plan *plan)
{
    if (plan->link_of_watched)
        LIST_REMOVE(plan, next_watched, link_of_watched);
    plan->link_of_watched = NULL;
}

/* It is looked at in the next round. */
static void watch(struct plan *plan)
{
    LIST_ADD(&plan->tcad->plans_watched.next, plan, next_watched, link_of_watched);
}

static bool look_at_some(void *context)
{
    struct plans_watched *watched = &((struct tcad *)context)->plans_watched;
    while (watched->first) {
        struct plan *plan = watched->first;
        plan_watch_end(plan);
        if (look(plan) && !plan->link_of_watched) /* unless it is READY again */
            watch(plan);
        if (loop_slice_over(((struct tcad *)context)->loop) && watched->first)
            return true;
    }
    if (!watched->next && watched->timer)
        loop_timer_stop(watched->timer);
    return false;
}

static void look_at_all(void *context)
{
    struct tcad *tcad = context;
    struct plans_watched *watched = &tcad->plans_watched;
    if (watched->first)
        return; /* the last look has not come to its end */
    watched->first = watched->next;
    watched->next = NULL;
    if (watched->first)
        watched->first->link_of_watched = &watched->first;
    loop_job_begin(tcad->loop, &watched->job, look_at_some, tcad);
}

/* Also plans that have lost a rail that they do not want, because they may still need it. */
void plan_watch(struct plan *plan)
{
    struct tcad *tcad = plan->tcad;
    struct plans_watched *watched = &tcad->plans_watched;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct plan_chain *chain = &plan->chains[i];
        chain->wanted.rail = plan_wanted_rail(plan, chain);
        chain->wanted.seat = chain->wanted.seat ? chain->wanted.seat : chain->bound.seat;
    }
    if (!plan_is_below(plan) && (!returns(plan) || (!is_away(plan) && !has_lost(plan)))) {
        plan_watch_end(plan);
        return;
    }
    if (plan->link_of_watched) /* it keeps its turn, however often it moves */
        return;
    if (!watched->timer && loop_timer_new(tcad->loop, look_at_all, tcad, &watched->timer) < 0) {
        log_warning(
            NULL, "no memory: plans stay on the rails, and in the seats, that they have moved to");
        return;
    }
    if (!watched->first && !watched->next)
        loop_timer_set(watched->timer, LOOK_NS, LOOK_NS);
    watch(plan);
}

void plans_watch_end(struct tcad *tcad)
{
    tcad->plans_watched.timer = loop_timer_free(tcad->plans_watched.timer);
}
