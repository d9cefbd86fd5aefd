/* The release of a plan, and of what a broken plan releases at once (plan.h). The engine ends what
 * runs; then the puts complete remotely and are released; then their bindings are. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/bindings/binding.h"
#include "daemon/peers/peer.h"
#include "daemon/plans/lane.h"
#include "daemon/plans/parts.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/plans/releases.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/list.h"

/* ---- on the engine: puts and chains ---- */

static bool stays(const struct plan *plan, const struct plan_chain *chain)
{
    return plan->move.state == ROUTE_STRIPPING && !chain->moving && !plan_parts(plan);
}

static void free_chains(struct plan *plan)
{
    uint32_t made = 0;
    for (uint32_t i = 0; i < plan->chain_count && plan->run.chains; i++) {
        if (plan->chains[i].bound.seat == SEAT_CLIENT)
            continue;
        if (!stays(plan, &plan->chains[i]))
            plan->run.chains[made] = chain_free(plan->run.chains[made]);
        made++;
    }
}

static bool strip_some(struct engine *engine, void *context)
{
    struct plan *plan = context;
    if (!engine_plan_leave(&plan->run))
        return true;
    if (plan->stripped_transfers == 0)
        free_chains(plan);
    while (plan->stripped_transfers < plan->transfer_count) {
        struct plan_transfer *transfer = &plan->transfers[plan->stripped_transfers++];
        if (transfer->put && !stays(plan, &plan->chains[transfer->chain])) {
            transfer->driver->ops->put_release(transfer->driver, transfer->put);
            transfer->put = NULL;
            plan->run.descriptors -= transfer->info.descriptors;
            plan->prepared_bytes -= transfer->info.memory_bytes;
        }
        if (engine_slice_over(engine))
            return true;
    }
    return false;
}

void plan_strip(struct plan *plan, void (*done)(void *plan))
{
    plan->stripped_transfers = 0;
    plan->pending++;
    engine_job(plan_engine(plan), &plan->call, strip_some, done, plan);
}

/* ---- on the loop: bindings ---- */

enum { UNBIND_MAX = 1024 }; /* with one message */

static void send_unbind(struct plan *plan, uint32_t node, uint64_t *bindings, size_t count)
{
    Tca__PeerUnbind unbind = BODY_OF(peer_unbind, .n_bindings = count, .bindings = bindings);
    const Tca__Message message = MESSAGE_OF(PEER_UNBIND, peer_unbind, &unbind);
    if (count > 0)
        peers_tell(plan->tcad->peers, node, &message);
}

/* Consecutive ones go in one message. */
void plan_unbind(struct plan *plan, enum seat seat)
{
    uint64_t bindings[UNBIND_MAX];
    size_t count = 0;
    uint32_t node = 0;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct plan_transfer *transfer = &plan->transfers[i];
        uint64_t *binding = &transfer->bindings[seat];
        if (!*binding)
            continue;
        if (count == UNBIND_MAX || transfer->node != node) {
            send_unbind(plan, node, bindings, count);
            count = 0;
        }
        node = transfer->node;
        bindings[count++] = *binding;
        *binding = 0;
    }
    send_unbind(plan, node, bindings, count);
}

static void release_targets(struct plan_transfer *transfer)
{
    if (transfer->binding)
        binding_end(transfer->binding);
    transfer->binding = NULL;
    if (transfer->link && transfer->source)
        link_hold(transfer->link, transfer->held, transfer->source);
    transfer->held = NULL;
    link_unref(transfer->link);
    transfer->link = NULL;
    region_unref(transfer->region);
    transfer->region = NULL;
}

enum { SLICE_UNITS = 64, SLICE_PLANS = 64 }; /* between two checks of the clock */

static bool release_next(struct plan *plan)
{
    const bool leaving = plan->state == PLAN_LEAVE_STRIPPING;
    if (plan->stripped_transfers == plan->transfer_count && leaving && plan->uses) {
        plan_use_less(plan, SLICE_UNITS);
        return true;
    }
    for (int i = 0; i < SLICE_UNITS && plan->stripped_transfers < plan->transfer_count; i++) {
        struct plan_transfer *transfer = &plan->transfers[plan->stripped_transfers++];
        release_targets(transfer);
        if (leaving) {
            /* not when the plan breaks: until its client knows that, it may start it, and the
             * receivers must know the puts */
            lane_withdraw(plan, transfer);
            plan_transfer_free(transfer);
        }
    }
    return plan->stripped_transfers < plan->transfer_count || (leaving && plan->uses);
}

static void stripped(void *context)
{
    struct plan *plan = context;
    plan_unbind(plan, SEAT_DAEMON);
    plan_unbind(plan, SEAT_CLIENT);
    plan->stripped_transfers = 0;
    plan_in_slices(plan, release_next, NULL);
    plan_done(plan);
}

void plan_do_strip(struct plan *plan)
{
    if (plan->run.chain_count > 0) {
        plan_strip(plan, stripped);
        return;
    }
    plan->pending++; /* the engine has nothing of it: all chains are the client's */
    stripped(plan);
}

/* ---- LEAVING and GONE ---- */

void plan_do_leave(struct plan *plan)
{
    releases_remove(plan->tcad->releases, plan); /* an event has advanced it before */
    if (!plan_attached(plan))
        return;
    plan->pending++;
    engine_plan_detach(plan->session->engine, &plan->run, -ECANCELED, plan_done, plan);
}

static void answer_release(struct plan *plan)
{
    if (plan->released_later)
        releases_answer(plan->session, plan->release_tag);
    else if (plan->release_tag)
        session_done(plan->session, plan->release_tag);
}

void plan_count_starts(struct plan *plan)
{
    uint64_t starts = plan_starts(plan) - plan->counted_starts;
    plan->counted_starts += starts;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        const struct plan_chain *chain = &plan->chains[i];
        uint64_t bytes[RAIL_SLOTS] = {0};
        plan_add_bytes(plan, chain, starts, bytes);
        plan->tcad->past[chain->bound.rail][chain->bound.seat].starts += starts;
        for (unsigned rail = 0; rail < RAIL_SLOTS; rail++)
            plan->tcad->past[rail][chain->bound.seat].bytes += bytes[rail];
    }
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        if (plan->transfers[i].parts)
            plan->transfers[i].counted_bytes = parts_moved(plan, &plan->transfers[i]);
}

void plan_do_free(struct plan *plan)
{
    struct session *session = plan->session;
    plan_count_starts(plan);
    plan_watch_end(plan);
    plan_reported(plan);
    assert(session->plans[plan->id] == plan);
    session->plans[plan->id] = NULL;
    session->last_plan = plan->id;
    LIST_REMOVE(plan, next_of_session, link_of_session);
    session->plan_count--;
    session->plan_bytes -= plan->memory_bytes;
    session->step_count -= plan->held_steps;
    answer_release(plan);
    if (plan->tag) /* a failed commit: it holds nothing any more */
        session_fail(session, plan->tag, plan->error ? plan->error : -ECANCELED, "%s",
                     plan->error_text);
    free(plan->run.chains);
    free(plan->run.parts);
    plan_free(plan);
    session_plan_gone(session);
}

/* ---- requests ---- */

static void ask_release(struct plan *plan)
{
    plan->release_asked = true;
    plan_advance(plan);
}

void plan_release_request(struct session *session, uint32_t tag, const Tca__PlanRelease *request)
{
    struct plan *plan = session->plans && request->plan < PLANS_PER_SESSION_MAX
                            ? session->plans[request->plan]
                            : NULL;
    if (!plan || plan->release_asked || plan->state < PLAN_READY) {
        session_fail(session, tag, -EINVAL, "plan %u does not belong to session %llu",
                     request->plan, (unsigned long long)session->id);
        return;
    }
    plan->release_tag = tag;
    plan->released_later = request->later;
    if (request->later) {
        plan->release_asked = true;
        releases_add(plan->tcad->releases, plan);
    } else {
        ask_release(plan);
    }
}

static bool release_some(void *context)
{
    struct session *session = context;
    while (session->plans && session->released_plans < PLANS_PER_SESSION_MAX) {
        struct plan *plan = session->plans[session->released_plans++];
        if (plan && (!plan->release_asked || plan->link_of_released))
            ask_release(plan);
        if (session->released_plans % SLICE_PLANS == 0 && loop_slice_over(session->tcad->loop))
            return true;
    }
    session_unnotified(session);
    return false;
}

void plans_release_all(struct session *session)
{
    session->notified_by++; /* dropped by release_some() */
    loop_job_begin(session->tcad->loop, &session->release_job, release_some, session);
}
