/* The states of plans: which may follow which, and the walk through them (plan.h). */
#include <assert.h>

#include "daemon/plans/plan_internal.h"

static const char *const state_names[PLAN_STATES] = {
    [PLAN_NEW] = "new",
    [PLAN_PARSING] = "new",
    [PLAN_BINDING] = "binding",
    [PLAN_FALLING_BACK] = "binding",
    [PLAN_REGISTERING] = "registering",
    [PLAN_PREPARING] = "preparing",
    [PLAN_MAPPING] = "preparing",
    [PLAN_READY] = "ready",
    [PLAN_RESTING] = "ready",
    [PLAN_PAUSING] = "rebinding",
    [PLAN_MOVE_FLUSHING] = "rebinding",
    [PLAN_MOVE_STRIPPING] = "rebinding",
    [PLAN_MOVE_REGISTERING] = "rebinding",
    [PLAN_MOVE_PREPARING] = "rebinding",
    [PLAN_MOVE_BINDING] = "rebinding",
    [PLAN_MOVE_UNBINDING] = "rebinding",
    [PLAN_MOVE_MAPPING] = "rebinding",
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
    [PLAN_BINDING] = TO(FALLING_BACK) | TO(REGISTERING) | TO(LEAVING),
    [PLAN_FALLING_BACK] = TO(REGISTERING) | TO(LEAVING),
    [PLAN_REGISTERING] = TO(PREPARING) | TO(MAPPING) | TO(LEAVING),
    [PLAN_PREPARING] = TO(MAPPING) | TO(LEAVING),
    [PLAN_MAPPING] = TO(READY) | TO(LEAVING),
    [PLAN_READY] = TO(RESTING) | TO(PAUSING) | TO(MOVE_BINDING) | TO(BREAKING) | TO(LEAVING),
    [PLAN_RESTING] = TO(READY) | TO(MOVE_FLUSHING) | TO(PAUSING) | TO(BREAKING) | TO(LEAVING),
    [PLAN_PAUSING] = TO(MOVE_FLUSHING) | TO(BREAKING) | TO(LEAVING),
    [PLAN_MOVE_FLUSHING] = TO(MOVE_STRIPPING) | TO(BREAKING) | TO(LEAVING),
    [PLAN_MOVE_STRIPPING] = TO(MOVE_REGISTERING) | TO(MOVE_UNBINDING) | TO(BREAKING) | TO(LEAVING),
    [PLAN_MOVE_REGISTERING] = TO(MOVE_PREPARING) | TO(MOVE_STRIPPING) | TO(BREAKING) | TO(LEAVING),
    [PLAN_MOVE_PREPARING] = TO(READY) | TO(MOVE_STRIPPING) | TO(BREAKING) | TO(LEAVING),
    [PLAN_MOVE_BINDING] = TO(MOVE_REGISTERING) | TO(MOVE_MAPPING) | TO(READY) | TO(MOVE_STRIPPING) |
                          TO(BREAKING) | TO(LEAVING),
    [PLAN_MOVE_MAPPING] = TO(READY) | TO(BREAKING) | TO(LEAVING),
    [PLAN_MOVE_UNBINDING] = TO(READY) | TO(BREAKING) | TO(LEAVING),
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
    return plan->release_asked ? "releasing" : plan_state_name(plan->state);
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
    if (plan->state == PLAN_BINDING && plan_falls_back(plan))
        return PLAN_FALLING_BACK;
    if (plan_survives(plan))
        return PLAN_MOVE_STRIPPING;
    if (plan_stays_below(plan))
        return PLAN_READY;
    if (plan->error < 0 && plan->state < PLAN_BREAKING)
        return plan->state < PLAN_READY ? PLAN_LEAVING : PLAN_BREAKING;
    switch (plan->state) {
    case PLAN_BINDING:
        return PLAN_REGISTERING;
    case PLAN_REGISTERING: /* all chains may be the client's */
        return plan->run.chain_count > 0 ? PLAN_PREPARING : PLAN_MAPPING;
    case PLAN_MOVE_BINDING:
        return plan->rising ? PLAN_MOVE_MAPPING : PLAN_MOVE_REGISTERING;
    case PLAN_MOVE_STRIPPING:
        return plan->parting ? PLAN_MOVE_UNBINDING : PLAN_MOVE_REGISTERING;
    case PLAN_MOVE_PREPARING:
    case PLAN_MOVE_UNBINDING:
    case PLAN_MOVE_MAPPING:
        return PLAN_READY;
    case PLAN_READY:
    case PLAN_RESTING:
        return plan_has_dead_link(plan) ? PLAN_PAUSING
               : !plan->try_asked       ? plan->state
               : plan_attached(plan)    ? PLAN_RESTING
                                        : PLAN_MOVE_BINDING;
    case PLAN_PAUSING:
        return PLAN_MOVE_FLUSHING;
    case PLAN_BROKEN:
        return PLAN_BROKEN;
    default: /* the next of its row in plan.h */
        return plan->state + 1;
    }
}

static void act(struct plan *plan, enum plan_state from)
{
    switch (plan->state) {
    case PLAN_PARSING:
        plan_do_parse(plan);
        return;
    case PLAN_BINDING:
        plan_do_bind(plan);
        return;
    case PLAN_FALLING_BACK:
        plan_do_fall_back(plan);
        return;
    case PLAN_REGISTERING:
        plan_do_register(plan);
        return;
    case PLAN_PREPARING:
    case PLAN_MOVE_PREPARING:
        plan_do_prepare(plan);
        return;
    case PLAN_MAPPING:
    case PLAN_MOVE_MAPPING:
        plan_do_map(plan);
        return;
    case PLAN_READY:
        plan_do_ready(plan, from);
        return;
    case PLAN_RESTING:
        plan_do_rest(plan);
        return;
    case PLAN_PAUSING:
        plan_do_pause(plan);
        return;
    case PLAN_MOVE_FLUSHING:
    case PLAN_BREAK_FLUSHING:
    case PLAN_LEAVE_FLUSHING:
        plan_do_flush(plan);
        return;
    case PLAN_MOVE_STRIPPING:
        if (from != PLAN_MOVE_FLUSHING)
            plan_begin_parting(plan);
        plan_do_strip_moving(plan);
        return;
    case PLAN_MOVE_BINDING:
        if (plan->rising)
            plan_do_rise(plan);
        else
            plan_do_join(plan);
        return;
    case PLAN_MOVE_UNBINDING:
        plan_do_part(plan);
        return;
    case PLAN_MOVE_REGISTERING:
        plan_do_move(plan);
        return;
    case PLAN_BREAKING:
        plan_do_break(plan);
        return;
    case PLAN_BREAK_STRIPPING:
    case PLAN_LEAVE_STRIPPING:
        plan_do_strip(plan);
        return;
    case PLAN_LEAVING:
        plan_do_leave(plan);
        return;
    case PLAN_GONE:
        plan_do_free(plan);
        return;
    default: /* BROKEN: it waits for its release */
        return;
    }
}

void plan_enter(struct plan *plan, enum plan_state state)
{
    const enum plan_state from = plan->state;
    assert(plan->pending == 0);
    assert(plan_state_legal(from, state));
    plan->state = state;
    plan->pending++; /* a state that completes at once does not recurse */
    act(plan, from);
    if (state == PLAN_GONE)
        return;
    plan->pending--;
    plan_advance(plan);
}

void plan_advance(struct plan *plan)
{
    if (plan->pending > 0)
        return;
    const enum plan_state to = next(plan);
    if (to != plan->state)
        plan_enter(plan, to);
}
