/* BINDING: looks up targets on this node, and collects what must be bound, here or on other nodes
 * (plan_ask.c). In slices, because a plan can have 65,536 puts. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/plans/parts.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

bool plan_chain_is_local(const struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->transfer_count; i++)
        if (chain->transfers[i].node != plan->tcad->node)
            return false;
    return true;
}

/* On this node, looks up the handle and the notified session. */
static int resolve_here(struct plan *plan, struct plan_transfer *transfer)
{
    char text[512];
    if (transfer->has_target) {
        struct region *region;
        int r = region_named(plan->tcad, &transfer->handle, plan->session->uid, &region, text,
                             sizeof(text));
        if (r < 0)
            return plan_fail_transfer(plan, transfer, r, text);
        transfer->region = region_ref(region);
        transfer->owner = region->session_id;
        transfer->address = region->address;
        if (plan_use_owner(plan, transfer) < 0)
            return plan->attempt.error;
        if (transfer->signal)
            r = region_counter(region, transfer->handle.offset_bytes + transfer->target_offset,
                               &transfer->line, text, sizeof(text));
        if (r < 0)
            return plan_fail_transfer(plan, transfer, r, text);
    }
    if (transfer->notify) {
        struct session *session = session_find(plan->tcad, transfer->notify_session);
        if (!session) {
            snprintf(text, sizeof(text), "rank %" PRIu32 ", to be notified, has ended",
                     transfer->rank);
            return plan_fail_transfer(plan, transfer, -EOWNERDEAD, text);
        }
        if (plan->session->rank >= session->sources) {
            snprintf(text, sizeof(text), "rank %" PRIu32 " reported a smaller group size",
                     transfer->rank);
            return plan_fail_transfer(plan, transfer, -EPROTO, text);
        }
        int r = session_line(session, plan->session->rank, transfer->slot, &transfer->line, text,
                             sizeof(text));
        if (r < 0)
            return plan_fail_transfer(plan, transfer, r, text);
    }
    return 0;
}

/* The route of a local chain is chosen before binding, and the seat of others. */
static int choose_early(struct plan *plan, struct plan_chain *chain)
{
    return plan_chain_is_local(plan, chain) ? plan_route_choose(plan, chain)
                                            : plan_seat_choose(plan, chain);
}

/* Targets that the client maps need no binding. */
static void note_asks(struct plan *plan, const struct plan_chain *chain)
{
    const bool direct = chain->direct && !plan_joins(plan, SEAT_DAEMON);
    const enum seat seat = direct ? SEAT_CLIENT : SEAT_DAEMON;
    for (uint32_t i = 0;
         i < chain->transfer_count && (chain->bound.seat == SEAT_DAEMON || chain->direct); i++) {
        const struct plan_transfer *transfer = &chain->transfers[i];
        if (!transfer->bindings[seat] && !transfer->binding)
            plan->asks[plan->ask_count++] =
                (struct plan_ask){transfer->node, (uint32_t)(transfer - plan->transfers), seat};
    }
}

enum { SLICE_UNITS = 64 }; /* resolved between two checks of the clock */

/* Resolves some transfers of this node, or considers a route for a chain; false: all are done, or
 * the plan has failed. */
static bool bind_next(struct plan *plan)
{
    if (!plan_goes_on(plan) ||
        (plan->bound_transfers == plan->transfer_count && plan->bound_chains == plan->chain_count))
        return false;
    if (plan->bound_transfers < plan->transfer_count) {
        for (int i = 0; i < SLICE_UNITS && plan->bound_transfers < plan->transfer_count; i++) {
            struct plan_transfer *transfer = &plan->transfers[plan->bound_transfers++];
            if (transfer->node == plan->tcad->node && resolve_here(plan, transfer) < 0)
                return false;
        }
        return true;
    }
    struct plan_chain *chain = &plan->chains[plan->bound_chains];
    if (plan_route_consider(plan, chain, plan->routes++))
        return true;
    plan->bound_chains++;
    plan->routes = 0;
    if (choose_early(plan, chain) == 0)
        note_asks(plan, chain);
    return true;
}

static void ask(struct plan *plan)
{
    if (plan_goes_on(plan) && !plan_inherit(plan))
        plan_ask(plan);
}

static bool make_asks(struct plan *plan)
{
    plan->ask_count = plan->asked = 0;
    plan->asks = calloc(plan->transfer_count + 1, sizeof(plan->asks[0]));
    if (!plan->asks)
        plan_fail(plan, -ENOMEM, "out of memory for binding %" PRIu32 " puts",
                  plan->transfer_count);
    return plan->asks;
}

void plan_do_bind(struct plan *plan)
{
    if (make_asks(plan))
        plan_in_slices(plan, bind_next, ask);
}

static bool note_next(struct plan *plan)
{
    if (plan->bound_chains == plan->chain_count || plan->release_asked)
        return false;
    note_asks(plan, &plan->chains[plan->bound_chains++]);
    return true;
}

static void ask_rest(struct plan *plan)
{
    if (!plan->release_asked)
        plan_ask(plan);
}

void plan_bind_rest(struct plan *plan)
{
    plan->bound_chains = 0;
    plan_in_slices(plan, note_next, ask_rest);
}

void plan_bind_both(struct plan *plan)
{
    if (make_asks(plan))
        plan_bind_rest(plan);
}
