/* The states of plans: which may follow which, and the walk through them (plan.h). */
#include <assert.h>

#include "daemon/base/loop.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/tcad.h"

static const char *const state_names[PLAN_STATES] = {
    [PLAN_NEW] = "new",
    [PLAN_PARSING] = "new",
    [PLAN_BINDING] = "binding",
    [PLAN_REGISTERING] = "registering",
    [PLAN_PREPARING] = "preparing",
    [PLAN_MAPPING] = "preparing",
    [PLAN_READY] = "ready",
    [PLAN_BREAKING] = "broken",
    [PLAN_BREAK_FLUSHING] = "broken",
    [PLAN_BREAK_STRIPPING] = "broken",
    [PLAN_BROKEN] = "broken",
    [PLAN_LEAVING] = "releasing",
    [PLAN_LEAVE_FLUSHING] = "releasing",
    [PLAN_LEAVE_STRIPPING] = "releasing",
    [PLAN_GONE] = "releasing",
};

#define TO(state) (1u << PLAN_##state)

/* From (row) to: a bit per state. */
static const unsigned legal[PLAN_STATES] = {
    [PLAN_NEW] = TO(PARSING),
    [PLAN_PARSING] = TO(BINDING) | TO(LEAVING),
    [PLAN_BINDING] = TO(REGISTERING) | TO(LEAVING),
    [PLAN_REGISTERING] = TO(PREPARING) | TO(MAPPING) | TO(LEAVING),
    [PLAN_PREPARING] = TO(MAPPING) | TO(LEAVING),
    [PLAN_MAPPING] = TO(READY) | TO(LEAVING),
    [PLAN_READY] = TO(BREAKING) | TO(LEAVING),
    [PLAN_BREAKING] = TO(BREAK_FLUSHING) | TO(LEAVING),
    [PLAN_BREAK_FLUSHING] = TO(BREAK_STRIPPING) | TO(LEAVING),
    [PLAN_BREAK_STRIPPING] = TO(BROKEN) | TO(LEAVING),
    [PLAN_BROKEN] = TO(LEAVING),
    [PLAN_LEAVING] = TO(LEAVE_FLUSHING),
    [PLAN_LEAVE_FLUSHING] = TO(LEAVE_STRIPPING),
    [PLAN_LEAVE_STRIPPING] = TO(GONE),
    [PLAN_GONE] = 0,
};

const char *plan_state_name(enum plan_state state)
{
    return state < PLAN_STATES ? state_names[state] : "?";
}

const char *plan_state_shown(const struct plan *plan)
{
    const bool moves = plan->move.state != ROUTE_SETTLED && plan->move.state != ROUTE_RESTING;
    return plan->release_asked                  ? "releasing"
           : plan->state == PLAN_READY && moves ? "rebinding"
                                                : plan_state_name(plan->state);
}

bool plan_state_legal(enum plan_state from, enum plan_state to)
{
    return from < PLAN_STATES && to < PLAN_STATES && (legal[from] & (1u << to));
}

/* What follows when nothing is pending; its own state: it waits for an event. */
static enum plan_state next(const struct plan *plan)
{
    if (plan->release_asked && plan->state < PLAN_LEAVING)
        return PLAN_LEAVING;
    if (plan->error < 0 && plan->state < PLAN_BREAKING)
        return plan->state < PLAN_READY ? PLAN_LEAVING : PLAN_BREAKING;
    switch (plan->state) {
    case PLAN_REGISTERING: /* all chains may be the client's */
        return plan->run.chain_count > 0 ? PLAN_PREPARING : PLAN_MAPPING;
    case PLAN_READY:
    case PLAN_BROKEN:
        return plan->state;
    default: /* the next of its row in plan.h */
        return plan->state + 1;
    }
}

static void wait_for_release(struct plan *plan)
{
}

static void act(struct plan *plan)
{
    static void (*const work[PLAN_STATES])(struct plan * plan) = {
        [PLAN_PARSING] = plan_do_parse,         [PLAN_BINDING] = plan_do_bind,
        [PLAN_REGISTERING] = plan_do_register,  [PLAN_PREPARING] = plan_do_prepare,
        [PLAN_MAPPING] = plan_do_map,           [PLAN_READY] = plan_do_ready,
        [PLAN_BREAKING] = plan_do_break,        [PLAN_BREAK_FLUSHING] = plan_do_flush,
        [PLAN_BREAK_STRIPPING] = plan_do_strip, [PLAN_BROKEN] = wait_for_release,
        [PLAN_LEAVING] = plan_do_leave,         [PLAN_LEAVE_FLUSHING] = plan_do_flush,
        [PLAN_LEAVE_STRIPPING] = plan_do_strip, [PLAN_GONE] = plan_do_free,
    };
    work[plan->state](plan);
}

void plan_enter(struct plan *plan, enum plan_state state)
{
    assert(plan->pending == 0);
    assert(plan_state_legal(plan->state, state));
    plan->state = state;
    plan_move_end(plan);
    plan->pending++; /* a state that completes at once does not recurse */
    act(plan);
    if (state == PLAN_GONE)
        return;
    plan_done(plan);
}

void plan_done(void *context)
{
    struct plan *plan = context;
    plan->pending--;
    plan_advance(plan);
}

/* The commit is over, unless there is another route. */
static bool fails(struct plan *plan)
{
    if (plan->attempt.error == 0 || plan->state >= PLAN_READY || plan->release_asked)
        return false;
    if (plan->state == PLAN_BINDING && plan->error == 0 && plan_fall_back(plan))
        return true;
    plan_end_with_attempt(plan);
    return false;
}

void plan_advance(struct plan *plan)
{
    if (plan->pending > 0 || fails(plan))
        return;
    const enum plan_state to = next(plan);
    if (to != plan->state)
        plan_enter(plan, to);
    else if (to == PLAN_READY)
        plan_move_advance(plan);
}

static bool slice(void *context)
{
    struct plan *plan = context;
    while (plan->job_next(plan))
        if (loop_slice_over(plan->tcad->loop))
            return true;
    if (plan->job_then)
        plan->job_then(plan);
    plan_done(plan);
    return false;
}

void plan_in_slices(struct plan *plan, bool (*step)(struct plan *plan),
                    void (*then)(struct plan *plan))
{
    plan->job_next = step;
    plan->job_then = then;
    plan->pending++;
    loop_job_begin(plan->tcad->loop, &plan->job, slice, plan);
}
