/* Ends, pauses and resumes plans: orders of the loop's thread, and cancels of the client. */
#include <assert.h>
#include <errno.h>

#include "daemon/base/loop.h"
#include "daemon/engine/engine_internal.h"

void engine_plan_attach(struct engine_session *session, struct engine_plan *plan)
{
    plan->session = session;
    assert(session->plans && !session->plans[plan->id]);
    session->plans[plan->id] = plan;
    atomic_store_explicit(&session->segment->rounds[plan->id], 0, memory_order_relaxed);
}

struct engine_plan *engine_plan_of(struct engine_session *session, const struct submit_entry *entry)
{
    const uint32_t id = entry->plan & ~(uint32_t)(SUBMIT_STOP | SUBMIT_CANCEL);
    struct engine_plan *plan =
        session->plans && id < PLANS_PER_SESSION_MAX ? session->plans[id] : NULL;
    return plan && plan->entry.sequence == entry->sequence ? plan : NULL;
}

static void cancel(struct engine_plan *plan, int error)
{
    for (uint64_t left = plan->unfinished; left; left &= left - 1)
        chain_cancel(plan->chains[__builtin_ctzll(left)], error);
}

/* Nothing of the plan is in flight: posts quiet() to the loop, if an order is pending. */
static void quiet(struct engine_plan *plan)
{
    struct engine_session *session = plan->session;
    void (*done)(void *context) = plan->quiet;
    void *context = plan->quiet_context;

    if (!done)
        return;
    plan->quiet = NULL;
    if (plan->state == ENGINE_PLAN_LEAVING) {
        session->plans[plan->id] = NULL;
        plan->session = NULL;
    }
    loop_post_own(session->engine->loop, &plan->quiet_post, done, context);
}

/* The plan rests, or a later order has replaced the one to rest. */
static void tell_rested(struct engine_plan *plan)
{
    void (*done)(void *context) = plan->rested;
    if (!done)
        return;
    plan->rested = NULL;
    loop_post_own(plan->session->engine->loop, &plan->rested_post, done, plan->rested_context);
}

void engine_plan_finish_orders(struct engine_plan *plan)
{
    if (plan->state == ENGINE_PLAN_RESTING) {
        engine_plan_set_state(plan, ENGINE_PLAN_PAUSED);
        tell_rested(plan);
    }
    quiet(plan);
}

void engine_plan_complete_held(struct engine_plan *plan, int error)
{
    struct engine_session *session = plan->session;
    if (!plan->held)
        return;
    plan->held = false;
    if (session->on_channel[plan->channel] == plan)
        session->on_channel[plan->channel] = NULL;
    if (!session->detaching)
        engine_plan_refuse(session, &plan->entry, error);
}

void engine_plan_cancel(struct engine_session *session, const struct submit_entry *entry)
{
    struct engine_plan *plan = engine_plan_of(session, entry);
    if (!plan)
        return;
    engine_plan_complete_held(plan, -ECANCELED);
    if (plan->again) {
        engine_repeat_fail(plan, -ECANCELED);
        return;
    }
    cancel(plan, -ECANCELED);
    engine_plan_wake(plan);
}

static void lose(struct engine_plan *plan, int error)
{
    for (uint64_t left = plan->unfinished; left; left &= left - 1)
        chain_lose(plan->chains[__builtin_ctzll(left)], error);
}

static void order_work(struct engine *engine, void *context)
{
    static const enum engine_plan_state states[] = {[ENGINE_BREAK] = ENGINE_PLAN_BROKEN,
                                                    [ENGINE_DETACH] = ENGINE_PLAN_LEAVING,
                                                    [ENGINE_PAUSE] = ENGINE_PLAN_PAUSED};
    const struct engine_order *order = context;
    struct engine_plan *plan = order->plan;
    if (order->verb == ENGINE_REST) {
        plan->rested = order->done;
        plan->rested_context = order->context;
        engine_repeat_hold(plan);
        engine_plan_set_state(plan, plan->unfinished ? ENGINE_PLAN_RESTING : ENGINE_PLAN_PAUSED);
        if (plan->unfinished == 0)
            tell_rested(plan);
        return;
    }
    engine_session_wake(order->session);
    engine_plan_wake(plan);
    if (order->verb == ENGINE_LOSE) {
        /* acquire: pairs with engine_plan_lose(), which may leave further losses to this order */
        atomic_exchange_explicit(&plan->losing, false, memory_order_acq_rel);
        lose(plan, order->error);
        return;
    }
    /* A start that was submitted before the object ended runs as far as it can without it. */
    if (order->verb == ENGINE_BREAK)
        engine_session_take_all(order->session);
    engine_plan_set_state(plan, states[order->verb]);
    tell_rested(plan);
    if (order->verb != ENGINE_PAUSE) {
        if (plan->error == 0)
            plan->error = order->error;
        engine_plan_complete_held(plan, order->error);
    }
    plan->quiet = order->done;
    plan->quiet_context = order->context;
    if (order->verb == ENGINE_PAUSE)
        engine_repeat_hold(plan);
    if (plan->again) {
        engine_repeat_fail(plan, order->error);
        return;
    }
    if (order->verb == ENGINE_BREAK)
        lose(plan, order->error);
    else
        cancel(plan, order->error);
    if (plan->unfinished == 0)
        quiet(plan);
}

static void give_order(struct engine_order *order, const struct engine_order *wanted)
{
    *order = *wanted;
    engine_call(order->session->engine, &order->call, order_work, NULL, order);
}

void engine_plan_break(struct engine_session *session, struct engine_plan *plan, int error,
                       void (*done)(void *context), void *context)
{
    give_order(&plan->order, &(struct engine_order){.session = session,
                                                    .plan = plan,
                                                    .verb = ENGINE_BREAK,
                                                    .error = error,
                                                    .done = done,
                                                    .context = context});
}

void engine_plan_lose(struct engine_session *session, struct engine_plan *plan, int error)
{
    /* release: what is marked as gone; pairs with order_work() */
    if (atomic_exchange_explicit(&plan->losing, true, memory_order_acq_rel))
        return;
    give_order(&plan->lose_order,
               &(struct engine_order){
                   .session = session, .plan = plan, .verb = ENGINE_LOSE, .error = error});
}

void engine_plan_detach(struct engine_session *session, struct engine_plan *plan, int error,
                        void (*done)(void *context), void *context)
{
    give_order(&plan->order, &(struct engine_order){.session = session,
                                                    .plan = plan,
                                                    .verb = ENGINE_DETACH,
                                                    .error = error,
                                                    .done = done,
                                                    .context = context});
}

void engine_plan_pause(struct engine_session *session, struct engine_plan *plan, int error,
                       void (*done)(void *context), void *context)
{
    give_order(&plan->order, &(struct engine_order){.session = session,
                                                    .plan = plan,
                                                    .verb = ENGINE_PAUSE,
                                                    .error = error,
                                                    .done = done,
                                                    .context = context});
}

void engine_plan_rest(struct engine_session *session, struct engine_plan *plan,
                      void (*done)(void *context), void *context)
{
    give_order(&plan->rest_order, &(struct engine_order){.session = session,
                                                         .plan = plan,
                                                         .verb = ENGINE_REST,
                                                         .done = done,
                                                         .context = context});
}
