#include "client/plan/order.h"

#include <errno.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/session.h"
#include "client/include/tca.h"
#include "client/plan/pair.h"
#include "client/plan/plan.h"
#include "client/plan/progress.h"
#include "client/plan/trial.h"
#include "client/plan/trial_route.h"
#include "proto/list.h"

static enum seat seat_of(const struct tca_plan *plan)
{
    return plan->paired ? SEAT_CLIENT : SEAT_DAEMON;
}

static void note_started(struct tca_plan *plan)
{
    if (!plan->link_unlanded)
        LIST_ADD(&plan->session->unlanded[seat_of(plan)], plan, next_unlanded, link_unlanded);
}

static void note_landed(struct tca_plan *plan)
{
    if (plan->link_unlanded)
        LIST_REMOVE(plan, next_unlanded, link_unlanded);
}

/* ---- plans that move ---- */

/* The first one: what was started before may be in flight. None any more: all is over pairs. */
static void change_paces(struct tca *session)
{
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next) {
        if (!plan->ordered)
            continue;
        if (!(plan->flags & PLAN_TRIES))
            plan->pace = plan_pace(plan);
        if (session->movers == 0)
            note_landed(plan);
        else if (plan->starts > 0)
            note_started(plan);
    }
}

static void count_mover(struct tca_plan *plan, bool moves)
{
    struct tca *session = plan->session;
    if (plan->moves == moves)
        return;
    plan->moves = moves;
    session->movers += moves ? 1 : UINT32_MAX;
    if (session->movers == (moves ? 1 : 0))
        change_paces(session);
}

void order_begin(struct tca_plan *plan)
{
    plan->ordered = true;
    order_changed(plan);
    if (!(plan->flags & PLAN_TRIES))
        plan->pace = plan_pace(plan);
}

void order_changed(struct tca_plan *plan)
{
    if (plan->ordered)
        count_mover(plan, !plan->paired || trial_route_in_tcad(plan));
}

void order_moved(struct tca_plan *plan)
{
    note_landed(plan);
    order_changed(plan);
}

void order_end(struct tca_plan *plan)
{
    note_landed(plan);
    count_mover(plan, false);
    plan->ordered = false;
}

/* ---- plans to one process ---- */

static uint32_t node_of(const struct tca_plan *plan, uint32_t chain)
{
    return plan_step_node(plan->session, &plan->steps[plan->chain_first[chain]]);
}

static bool share_node(const struct tca_plan *plan, const struct tca_plan *other)
{
    for (uint32_t i = 0; i < plan->chain_count; i++)
        for (uint32_t k = 0; k < other->chain_count; k++)
            if (node_of(plan, i) == node_of(other, k))
                return true;
    return false;
}

static bool puts_over(const struct tca_plan *plan, const struct pair *pair)
{
    const struct pair *last = NULL;
    for (uint32_t i = 0; i < plan->transfer_count; last = plan->transfers[i++].pair)
        if (plan->transfers[i].pair == pair && pair != last)
            return true;
    return false;
}

static bool share_pair(const struct tca_plan *plan, const struct tca_plan *other)
{
    const struct pair *last = NULL;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        const struct pair *pair = plan->transfers[i].pair;
        if (pair && pair != last && puts_over(other, pair))
            return true;
        last = pair;
    }
    return false;
}

/* Plans without a pair may lead to any process of the node. */
static bool share_process(const struct tca_plan *plan, const struct tca_plan *other)
{
    return plan->channel == other->channel &&
           (plan->made_count > 0 && other->made_count > 0 ? share_pair(plan, other)
                                                          : share_node(plan, other));
}

/* ---- starts ---- */

/* What it puts before its first waits is not all on its way. */
static bool is_posting(const struct tca_plan *plan)
{
    for (uint64_t left = plan->client_left; left; left &= left - 1)
        if (!chain_waiting(plan->chains[__builtin_ctzll(left)]))
            return true;
    return plan->daemon_left && !plan->paired;
}

static bool ask(struct tca_plan *plan)
{
    if (!plan->paired)
        return trial_route_flush(plan);
    plan->session->trial_effects->flush(plan);
    return true;
}

static bool has_landed(struct tca_plan *plan)
{
    return plan->paired ? plan->session->trial_effects->flushed(plan) : trial_route_flushed(plan);
}

/* False: not by then. Nothing is in flight of a plan that was broken, or that has left its seat. */
static bool let_land(struct tca_plan *plan, uint64_t end_ns)
{
    struct tca *session = plan->session;
    bool asked = false;
    for (uint64_t round = 0; plan->link_unlanded && !plan->broken && !session->control.lost;
         round++) {
        if (!asked && !is_posting(plan))
            asked = ask(plan);
        if (asked && has_landed(plan))
            break;
        if (clock_left(end_ns) == 0)
            return false;
        tca_pause(round);
        session_drain(session);
        session_progress(session);
    }
    note_landed(plan);
    return true;
}

static bool has_others(const struct tca_plan *plan)
{
    const struct tca_plan *other = plan->session->plans;
    while (other && (!other->ordered || other == plan || !share_process(plan, other)))
        other = other->next;
    return other;
}

void order_leave(struct tca_plan *plan)
{
    if (plan->link_unlanded && !plan->paired && has_others(plan))
        let_land(plan, session_end(plan->session));
}

static struct tca_plan *find_earlier(const struct tca_plan *plan)
{
    const enum seat other = seat_of(plan) == SEAT_CLIENT ? SEAT_DAEMON : SEAT_CLIENT;
    struct tca_plan *earlier = plan->session->unlanded[other];
    while (earlier && !share_process(plan, earlier))
        earlier = earlier->next_unlanded;
    return earlier;
}

int order_start(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    struct tca_plan *earlier;
    if (session->movers == 0)
        return 0;
    if ((earlier = find_earlier(plan))) {
        const uint64_t end_ns = session_end(session);
        char name[PLAN_TEXT_BYTES];
        for (; earlier; earlier = find_earlier(plan))
            if (!let_land(earlier, end_ns))
                return error_set(-EAGAIN,
                                 "the data of earlier starts of %s, in the other seat, has not "
                                 "arrived: start again",
                                 plan_text(earlier, name));
        if (plan->broken)
            return plan_check_startable(plan);
    }
    note_started(plan);
    return 0;
}
