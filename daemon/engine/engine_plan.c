#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/engine/engine_internal.h"
#include "proto/notify.h"
#include "proto/status.h"

/* ---- states ---- */

/* From (row) to: a bit per state. PAUSED to PAUSED: the loop paused the plan before it was notified
 * that the plan rests. */
static const unsigned legal[ENGINE_PLAN_STATES] = {
    [ENGINE_PLAN_OPEN] = 1u << ENGINE_PLAN_RESTING | 1u << ENGINE_PLAN_PAUSED |
                         1u << ENGINE_PLAN_BROKEN | 1u << ENGINE_PLAN_LEAVING,
    [ENGINE_PLAN_RESTING] =
        1u << ENGINE_PLAN_PAUSED | 1u << ENGINE_PLAN_BROKEN | 1u << ENGINE_PLAN_LEAVING,
    [ENGINE_PLAN_PAUSED] = 1u << ENGINE_PLAN_OPEN | 1u << ENGINE_PLAN_PAUSED |
                           1u << ENGINE_PLAN_BROKEN | 1u << ENGINE_PLAN_LEAVING,
    [ENGINE_PLAN_BROKEN] = 1u << ENGINE_PLAN_LEAVING,
    [ENGINE_PLAN_LEAVING] = 0,
};

bool engine_plan_legal(enum engine_plan_state from, enum engine_plan_state to)
{
    return from < ENGINE_PLAN_STATES && to < ENGINE_PLAN_STATES && (legal[from] & (1u << to));
}

void engine_plan_set_state(struct engine_plan *plan, enum engine_plan_state state)
{
    assert(engine_plan_legal(plan->state, state));
    plan->state = state;
}

int engine_plan_make_room(struct engine_plan *plan, uint32_t chain_count)
{
    free(plan->chains);
    plan->chains = calloc((size_t)chain_count + 1, sizeof(*plan->chains) + sizeof(*plan->waits));
    plan->waits = plan->chains ? (struct engine_wait *)(plan->chains + chain_count) : NULL;
    return plan->chains ? 0 : -ENOMEM;
}

/* ---- running ---- */

static void push_completion(struct engine_session *session, const struct complete_entry *entry)
{
    int r = ring_push(&session->complete, entry);
    if (r < 0) {
        /* The client may have no more starts in flight than the ring has entries: it cannot be
         * full. */
        session->broken = true;
        return;
    }
    notify_wake_completed(session->notify);
}

void engine_plan_complete(struct engine_plan *plan)
{
    struct engine_session *session = plan->session;
    struct engine *engine = session->engine;
    uint64_t now = clock_now_ns(), posted = 0;
    uint32_t retries = 0, hops = 0;

    for (uint32_t i = 0; i < plan->chain_count; i++) {
        uint64_t at = chain_posted_ns(plan->chains[i]);
        posted = at > posted ? at : posted;
        retries += chain_retries(plan->chains[i]);
        uint32_t of_chain = chain_hops(plan->chains[i]);
        hops = of_chain > hops ? of_chain : hops;
    }
    struct complete_entry entry = {
        .plan = plan->id,
        .sequence = plan->entry.sequence,
        .status = status_to_wire(plan->status),
        .rail = (uint8_t)plan->rail,
        .hops = hops > UINT8_MAX ? UINT8_MAX : (uint8_t)hops,
        .retries = retries > COMPLETE_RETRIES_MAX ? COMPLETE_RETRIES_MAX : retries,
        .encryption = plan->encryption,
        .bytes = plan->status < 0 ? 0 : plan->bytes,
        .descriptors = plan->descriptors,
        .fault = plan->fault,
        .start_ns = plan->entry.start_ns,
        .taken_ns = plan->taken_ns,
        .posted_ns = posted ? posted : plan->taken_ns,
        .done_ns = now,
    };
    atomic_store_explicit(&plan->running_since_ns, 0, memory_order_relaxed);
    engine_count(&engine->completions, 1);
    if (plan->status < 0) {
        engine_count(&plan->errors, 1);
        engine_count(&engine->errors, 1);
    } else if (!plan->repeat) {
        engine_count(&engine->bytes, plan->bytes);
        engine_histogram_add(&plan->durations, now - plan->taken_ns);
    }
    if (session->on_channel[plan->channel] == plan)
        session->on_channel[plan->channel] = NULL;
    engine_plan_list(plan, NULL);
    if (!session->detaching)
        push_completion(session, &entry);
    engine_plan_finish_orders(plan);
}

static void note_result(struct engine_plan *plan, uint32_t chain, int result)
{
    engine_plan_wait_at(plan, chain, chain_waits_for(plan->chains[chain]));
    if (result == 0)
        return;
    plan->unfinished &= ~(1ull << chain);
    if (result < 0 && plan->status == 0) {
        plan->status = result;
        plan->fault = chain_fault(plan->chains[chain]);
    }
}

/* Releases the channel when every chain of this start has posted everything, or has reached a wait
 * step, which may wait for a later start. Steps after the wait step are not ordered with later
 * starts. */
static void note_posted(struct engine_plan *plan)
{
    for (uint64_t left = plan->holding; left; left &= left - 1) {
        const struct chain *chain = plan->chains[__builtin_ctzll(left)];
        if (chain_all_posted(chain) || chain_waiting(chain))
            plan->holding &= ~(left & -left);
    }
    if (plan->holding == 0 && plan->session->on_channel[plan->channel] == plan)
        plan->session->on_channel[plan->channel] = NULL;
}

void engine_plan_refuse(struct engine_session *session, const struct submit_entry *entry, int error)
{
    struct complete_entry answer = {
        .plan = entry->plan,
        .sequence = entry->sequence,
        .status = status_to_wire(error),
        .start_ns = entry->start_ns,
        .done_ns = clock_now_ns(),
    };
    engine_count(&session->engine->errors, error < 0);
    push_completion(session, &answer);
}

/* Starts all chains; true: all are complete. */
static bool begin(struct engine_plan *plan)
{
    plan->unfinished = engine_plan_all_chains(plan);
    plan->number = ++plan->session->starts;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        note_result(plan, i, chain_start(plan->chains[i]));
    return plan->unfinished == 0;
}

/* All chains are complete. */
static void end_round(struct engine_plan *plan)
{
    if (!plan->repeat || !engine_repeat_goes_on(plan))
        engine_plan_complete(plan);
}

/* Of `entry`, which has the channel. */
static void start(struct engine_plan *plan)
{
    struct engine_session *session = plan->session;
    plan->taken_ns = clock_now_ns();
    plan->status = 0;
    plan->fault = 0;
    plan->holding = engine_plan_all_chains(plan);
    atomic_store_explicit(&plan->running_since_ns, plan->taken_ns, memory_order_relaxed);
    if (begin(plan)) {
        end_round(plan);
        return;
    }
    note_posted(plan);
    engine_plan_list(plan, &session->running);
}

/* Later rounds of a repeating plan, which hold up no channel, have no order with other starts. */
static bool must_wait(struct engine_plan *plan)
{
    const struct engine_session *session = plan->session;
    return __builtin_expect(session->split > 0, 0) && session->on_channel[plan->channel] == plan &&
           engine_flow_holds(plan);
}

void engine_plan_start(struct engine_session *session, const struct submit_entry *entry)
{
    struct engine_plan *plan =
        session->plans && entry->plan < PLANS_PER_SESSION_MAX ? session->plans[entry->plan] : NULL;
    engine_count(&session->engine->starts, 1);
    if (!plan) {
        engine_plan_refuse(session, entry, -ENOENT);
        return;
    }
    if (plan->unfinished || plan->held || plan->state == ENGINE_PLAN_LEAVING) {
        engine_plan_refuse(session, entry, -EBUSY);
        return;
    }
    if (plan->state == ENGINE_PLAN_BROKEN) {
        engine_count(&plan->errors, 1);
        engine_plan_refuse(session, entry, plan->error);
        return;
    }
    plan->entry = *entry;
    plan->stopping = plan->cut = plan->later = false;
    engine_count(&plan->starts, 1);
    session->on_channel[plan->channel] = plan;
    if (plan->state == ENGINE_PLAN_PAUSED || must_wait(plan))
        plan->held = true;
    else
        start(plan);
}

static void start_held(struct engine_plan *plan)
{
    if (must_wait(plan))
        return;
    plan->held = false;
    engine_parts_apply(plan);
    start(plan);
}

void engine_plan_resume(struct engine_plan *plan)
{
    engine_plan_set_state(plan, ENGINE_PLAN_OPEN);
    if (!plan->held)
        return;
    engine_session_wake(plan->session);
    start_held(plan);
}

void engine_plans_go_on(struct engine_session *session)
{
    session->held = false;
    for (int channel = 0; channel < CHANNELS; channel++) {
        struct engine_plan *plan = session->on_channel[channel];
        if (plan && plan->held && plan->state == ENGINE_PLAN_OPEN)
            start_held(plan);
    }
}

bool engine_plan_run(struct engine_plan *plan)
{
    if (plan->again) {
        plan->again = false;
        begin(plan);
    } else {
        for (uint64_t left = plan->unfinished; left; left &= left - 1) {
            uint32_t i = (uint32_t)__builtin_ctzll(left);
            note_result(plan, i, chain_run(plan->chains[i]));
        }
    }
    if (plan->repeat && plan->status < 0)
        engine_repeat_cut(plan);
    if (plan->unfinished) {
        note_posted(plan);
        if (engine_plan_idle(plan))
            engine_plan_list(plan, &plan->session->waiting);
        return false;
    }
    end_round(plan);
    return true;
}
