/* A commit: the states NEW, REGISTERING and READY (plan.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/worker.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/plans/releases.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/client_request.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/list.h"

/* ---- REGISTERING: on the worker ---- */

static void register_work(void *context)
{
    struct plan *plan = context;
    if (plan_order_rest(plan) < 0)
        return;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct plan_transfer *transfer = &plan->transfers[i];
        if (!transfer->driver)
            continue;
        int r = transfer->source ? region_register(transfer->source, transfer->link->rail) : 0;
        if (r < 0) {
            plan_fail(plan, r, "rail %s to node %" PRIu32 ": %s",
                      rail_name(plan->tcad, transfer->link->rail), transfer->node,
                      region_register_text(r));
            return;
        }
    }
}

static void not_registered(void *context)
{
    struct plan *plan = context;
    plan_fail(plan, -ECANCELED, "tcad is ending");
    plan_done(plan);
}

static void registered(void *context)
{
    struct plan *plan = context;
    for (uint32_t i = 0; i < plan->transfer_count && plan_works(plan); i++) {
        struct plan_transfer *transfer = &plan->transfers[i];
        if (transfer->driver && transfer->source)
            transfer->source->registered |= 1u << transfer->link->rail;
    }
    plan_done(plan);
}

/* Whether there is nothing for the worker to do. */
static bool is_registered(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (plan->chains[i].unordered)
            return false;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        const struct plan_transfer *transfer = &plan->transfers[i];
        if (transfer->driver && transfer->source &&
            !(transfer->source->registered & 1u << transfer->link->rail))
            return false;
    }
    return true;
}

/* ---- REGISTERING: rails and links, in slices of the loop ---- */

/* The rest of the choice for a chain that has its route. */
static int take_route(struct plan *plan, struct plan_chain *chain)
{
    plan_note_unreached(plan, chain);
    int r = plan_order_soon(plan, chain);
    if (r < 0 || chain->bound.seat == SEAT_CLIENT)
        return r;
    plan->run.chain_count++;
    return 0;
}

/* Considers one more route for a chain. Returns false when all have one, or the plan has failed. */
static bool route_next(struct plan *plan)
{
    if (plan->routed_chains == plan->chain_count)
        return false;
    struct plan_chain *chain = &plan->chains[plan->routed_chains];
    const bool open = !plan_chain_is_local(plan, chain) && !chain->direct;
    if (open && plan_route_consider(plan, chain, plan->routes++))
        return true;
    if ((open && plan_route_choose(plan, chain) < 0) || take_route(plan, chain) < 0)
        return false;
    plan->routed_chains++;
    plan->routes = 0;
    return true;
}

enum { SLICE_STEPS = 64 }; /* that take their links between two checks of the clock */

/* The links of some more daemon-seat steps. */
static bool link_next(struct plan *plan)
{
    if (plan->linked_chains == plan->chain_count)
        return false;
    const struct plan_chain *chain = &plan->chains[plan->linked_chains];
    const uint32_t from = plan->linked_steps, left = chain->step_count - from,
                   count = left < SLICE_STEPS ? left : SLICE_STEPS;
    if (chain->bound.seat != SEAT_CLIENT && plan_take_links(plan, chain, from, count) < 0)
        return false;
    plan->linked_steps += count;
    if (chain->bound.seat == SEAT_CLIENT || count == left) {
        plan->linked_chains++;
        plan->linked_steps = 0;
    }
    return true;
}

static void connect_chosen(struct plan *plan)
{
    if (!plan_goes_on(plan))
        return;
    if (engine_plan_make_room(&plan->run, plan->run.chain_count) == 0)
        plan_connect(plan);
    else
        plan_fail(plan, -ENOMEM, "out of memory for %" PRIu32 " chains", plan->run.chain_count);
}

/* Chooses the driver and link of every daemon-seat transfer. */
static bool choose_next(struct plan *plan)
{
    return !plan->release_asked && (route_next(plan) || (plan_works(plan) && link_next(plan)));
}

void plan_register(struct plan *plan)
{
    if (is_registered(plan))
        return;
    if (worker_submit(plan->tcad->worker, plan->session->uid, register_work, registered,
                      not_registered, plan) < 0)
        plan_fail(plan, -ENOMEM, "no memory");
    else
        plan->pending++;
}

void plan_do_register(struct plan *plan)
{
    free(plan->asks);
    plan->asks = NULL;
    plan_in_slices(plan, choose_next, connect_chosen);
}

/* ---- READY ---- */

static unsigned seats_of(const struct plan *plan)
{
    const enum seat seat = plan->chain_count > 0 ? plan->chains[0].bound.seat : SEAT_NONE;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (plan->chains[i].bound.seat != seat || (seat == SEAT_CLIENT && !plan->chains[i].direct))
            return 0;
    return plan->chain_count > 0 ? SEAT_BIT(seat) : 0;
}

void plan_do_ready(struct plan *plan)
{
    plan_reply(plan);
    plan->seats = plan->move.seats = seats_of(plan);
    plan_watch(plan);
    if (plan_is_below(plan))
        plan_explain_seats(plan);
}

/* ---- NEW ---- */

static int take_id(struct session *session, struct plan *plan)
{
    if (!session->plans) {
        session->plans = calloc(PLANS_PER_SESSION_MAX, sizeof(*session->plans));
        if (!session->plans)
            return -ENOMEM;
    }
    for (uint32_t i = 0; i < PLANS_PER_SESSION_MAX; i++) {
        const uint32_t id = (session->last_plan + i) % PLANS_PER_SESSION_MAX;
        if (session->plans[id])
            continue;
        plan->id = session->last_plan = id;
        session->plans[id] = plan;
        LIST_ADD(&session->plan_list, plan, next_of_session, link_of_session);
        session->plan_count++;
        return 0;
    }
    return -EDQUOT;
}

static struct plan *plan_new(struct session *session, uint32_t tag)
{
    const uint32_t limit = session->tcad->conf->limits.plans_per_session;
    if (session->plan_count >= limit)
        releases_begin(session->tcad->releases);
    if (session->plan_count >= limit) {
        session_fail(session, tag, -EDQUOT,
                     "session %" PRIu64 " has %" PRIu32
                     " plans, limits.plans_per_session is %" PRIu32 ": free some",
                     session->id, session->plan_count, limit);
        return NULL;
    }
    struct plan *plan = calloc(1, sizeof(*plan));
    if (!plan || take_id(session, plan) < 0) {
        session_fail(session, tag, -ENOMEM, "out of memory for a plan");
        free(plan);
        return NULL;
    }
    plan->tcad = session->tcad;
    plan->session = session;
    plan->session_id = session->id;
    plan->tag = tag;
    plan->serial = ++plan->tcad->last_plan;
    plan->lost_error = -ENETDOWN;
    return plan;
}

void plan_commit(struct session *session, struct client_request *request)
{
    struct plan *plan = plan_new(session, request->header.tag);
    if (!plan) {
        client_request_free(request);
        return;
    }
    plan->request = request;
    plan_enter(plan, PLAN_PARSING);
}
