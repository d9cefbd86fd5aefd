/* Events from the daemon. */
#include <errno.h>
#include <stdio.h>

#include "client/core/session.h"
#include "client/memory/lane.h"
#include "client/memory/mapping.h"
#include "client/plan/pair.h"
#include "client/plan/plan.h"
#include "client/plan/trial_route.h"
#include "proto/status.h"

static bool needs_rank(const struct tca_plan *plan, uint32_t rank)
{
    for (uint32_t i = 0; i < plan->step_count; i++)
        if ((plan->steps[i].kind == STEP_NOTIFY || plan->steps[i].kind == STEP_WAIT) &&
            plan->steps[i].notification.rank == rank)
            return true;
    return false;
}

/* For a start that runs: only the steps that are still ahead of it matter. */
static void mark(struct tca_plan *plan, uint32_t rank, const struct process *process)
{
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == STEP_WAIT && plan->steps[i].notification.rank == rank)
            atomic_store_explicit(&plan->steps[i].gone, true, memory_order_relaxed);
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct transfer *transfer = &plan->transfers[i];
        if ((process && transfer->process == process) ||
            (transfer->notify && transfer->notify->notification.rank == rank))
            atomic_store_explicit(&transfer->gone, true, memory_order_relaxed);
    }
}

static void rank_gone(struct tca *session, uint32_t rank)
{
    if (rank >= session->sources)
        return;
    uint8_t state =
        atomic_load_explicit(&session->notify->source_state[rank], memory_order_relaxed);
    int error = state == SOURCE_NODE_DOWN ? -EHOSTDOWN : -EOWNERDEAD;
    const struct group_member *member = session->members ? &session->members[rank] : NULL;
    struct process *process = NULL;
    char why[96];
    snprintf(why, sizeof(why), "rank %u, which it notifies or waits for, %s", rank,
             error == -EHOSTDOWN ? "is unreachable: its node is down" : "has ended");
    if (member &&
        member->node == session->node) /* other daemons have sessions of this number too */
        process = process_gone(session, member->session, error);
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next) {
        mark(plan, rank, process);
        if (needs_rank(plan, rank))
            plan_break(plan, error, why);
    }
    if (process)
        plan_drop_process(session, process);
    if (!member || member->node != session->node)
        return;
    mapping_session_gone(session, member->session);
    lane_rank_gone(session, rank);
}

static struct tca_plan *plan_of(struct tca *session, uint32_t id)
{
    return id < PLANS_PER_SESSION_MAX ? session->plans_by_id[id] : NULL;
}

void session_event(void *context, const Tca__Event *event, struct frame *frame)
{
    struct tca *session = context;
    struct tca_plan *plan;
    if (!session->notify)
        return; /* still opening: there is nothing that an event could refer to */
    switch (event->kind) {
    case TCA__EVENT__KIND__RANKS_GONE:
        for (size_t i = 0; i < event->n_ranks; i++)
            rank_gone(session, event->ranks[i]);
        break;
    case TCA__EVENT__KIND__REGION_GONE:
        for (size_t i = 0; i < event->n_regions; i++)
            mapping_gone(session, event->regions[i]);
        break;
    case TCA__EVENT__KIND__PLAN_BROKEN:
        plan = plan_of(session, event->plan);
        if (plan) {
            int error = status_from_wire(event->status);
            plan->lossy |= event->lost;
            plan_break(plan, error < 0 ? error : -EPROTO, event->text);
        }
        break;
    case TCA__EVENT__KIND__ROUTE_CHANGED:
        plan = plan_of(session, event->plan);
        if (plan && event->changed)
            trial_route_changed(plan, event->changed);
        break;
    case TCA__EVENT__KIND__PLAN_PAIRED:
        plan = plan_of(session, event->plan);
        if (plan)
            trial_route_paired(plan, event->committed);
        break;
    case TCA__EVENT__KIND__SHARE:
        if (event->share)
            lane_share(session, event->share, frame);
        break;
    case TCA__EVENT__KIND__WITHDRAWN:
        if (session->pairs)
            pair_event(session, event, frame);
        lanes_withdraw(session, event->ids, event->n_ids);
        break;
    case TCA__EVENT__KIND__MAPPINGS:
        mapping_adopt_early(session, event, frame);
        break;
    case TCA__EVENT__KIND__PAIR:
    case TCA__EVENT__KIND__PAIR_GONE:
    case TCA__EVENT__KIND__LANDING:
        pair_event(session, event, frame);
        break;
    default: /* from a newer daemon */
        break;
    }
}
