/*
 * Repeating plans. One start runs rounds: all chains, from their first wait steps to their ends,
 * and then again, without informing the client, which is notified only of the end of the start: it
 * was stopped, or a round has failed. Between two rounds the plan can be paused without a failure.
 */
#include "daemon/engine/engine_internal.h"

/* No channel is blocked: later rounds are not ordered with the starts of other plans. */
static void leave_channel(struct engine_plan *plan)
{
    struct engine_plan **at = &plan->session->on_channel[plan->channel];
    if (*at == plan)
        *at = NULL;
}

static void hold(struct engine_plan *plan)
{
    plan->again = false;
    plan->unfinished = 0;
    plan->held = true;
    leave_channel(plan);
    atomic_store_explicit(&plan->running_since_ns, 0, memory_order_relaxed);
    engine_plan_list(plan, NULL);
}

static void count_round(struct engine_plan *plan)
{
    engine_count(&plan->rounds, 1);
    engine_count(&plan->session->engine->bytes, plan->bytes);
    /* release: pairs with the client's acquire; what the round has put here is visible */
    atomic_store_explicit(&plan->session->segment->rounds[plan->id],
                          atomic_load_explicit(&plan->rounds, memory_order_relaxed),
                          memory_order_release);
}

/* The next round begins at the engine's next poll of the plan, so that others get their turn. */
static void go_on(struct engine_plan *plan)
{
    plan->again = plan->later = plan->session->ready = true;
    plan->unfinished = engine_plan_all_chains(plan);
    plan->holding = 0;
    leave_channel(plan);
    if (plan->list != &plan->session->running)
        engine_plan_list(plan, &plan->session->running);
}

bool engine_repeat_goes_on(struct engine_plan *plan)
{
    if (plan->status == 0 && !plan->cut)
        count_round(plan);
    if (plan->status < 0 || plan->stopping)
        return false;
    switch (plan->state) {
    case ENGINE_PLAN_OPEN:
        go_on(plan);
        return true;
    case ENGINE_PLAN_RESTING:
    case ENGINE_PLAN_PAUSED:
        hold(plan);
        engine_plan_finish_orders(plan);
        return true;
    default:
        plan->status = plan->error;
        return false;
    }
}

bool engine_repeat_hold(struct engine_plan *plan)
{
    bool begun = !plan->repeat || plan->stopping || plan->unfinished == 0 ||
                 plan->unfinished != engine_plan_all_chains(plan);
    for (uint32_t i = 0; i < plan->chain_count && !begun && !plan->again; i++)
        begun = !chain_at_first_wait(plan->chains[i]);
    if (begun)
        return false;
    for (uint32_t i = 0; i < plan->chain_count && !plan->again; i++)
        engine_plan_unstart_chain(plan, i);
    hold(plan);
    return true;
}

void engine_repeat_cut(struct engine_plan *plan)
{
    for (uint64_t left = plan->unfinished; left; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left);
        if (!chain_at_first_wait(plan->chains[i]))
            continue;
        engine_plan_unstart_chain(plan, i);
        plan->unfinished &= ~(left & -left);
        plan->cut = true;
    }
}

void engine_repeat_fail(struct engine_plan *plan, int error)
{
    plan->again = false;
    plan->unfinished = 0;
    plan->status = error;
    engine_plan_complete(plan);
}

void engine_repeat_stop(struct engine_session *session, const struct submit_entry *entry)
{
    struct engine_plan *plan = engine_plan_of(session, entry);
    if (!plan || !plan->repeat)
        return;
    engine_plan_complete_held(plan, 0);
    if (plan->unfinished == 0)
        return;
    plan->stopping = true;
    if (plan->again)
        plan->unfinished = 0;
    plan->again = false;
    engine_repeat_cut(plan);
    if (plan->unfinished == 0)
        engine_plan_complete(plan);
    else
        engine_plan_wake(plan);
}
