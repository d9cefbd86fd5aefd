#include "daemon/plans/plan_move.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>

#include "daemon/base/log.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

#define TO(state) (1u << ROUTE_##state)

/* From (row) to: a bit per state. */
static const unsigned legal[ROUTE_STATES] = {
    [ROUTE_SETTLED] = TO(RESTING) | TO(PAUSING) | TO(BINDING),
    [ROUTE_RESTING] = TO(SETTLED) | TO(PAUSING) | TO(FLUSHING),
    [ROUTE_PAUSING] = TO(FLUSHING),
    [ROUTE_FLUSHING] = TO(STRIPPING),
    [ROUTE_STRIPPING] = TO(REGISTERING) | TO(UNBINDING),
    [ROUTE_REGISTERING] = TO(PREPARING) | TO(STRIPPING),
    [ROUTE_PREPARING] = TO(SETTLED) | TO(STRIPPING),
    [ROUTE_BINDING] = TO(REGISTERING) | TO(STRIPPING) | TO(MAPPING) | TO(UNBINDING),
    [ROUTE_MAPPING] = TO(SETTLED) | TO(UNBINDING),
    [ROUTE_UNBINDING] = TO(SETTLED),
};

bool plan_move_legal(enum route_state from, enum route_state to)
{
    return from < ROUTE_STATES && to < ROUTE_STATES && (legal[from] & (1u << to));
}

bool plan_joins(const struct plan *plan, enum seat seat)
{
    return plan->move.seats & ~plan->seats & SEAT_BIT(seat);
}

bool plan_parts(const struct plan *plan)
{
    return plan->move.seats == SEAT_BIT(SEAT_CLIENT);
}

/* ---- the states ---- */

static void enter(struct plan *plan, enum route_state state);

static void go_on(void *context)
{
    struct plan *plan = context;
    plan->pending--;
    plan_advance(plan);
}

/* Unless another order has ended the rest. */
static void rested(void *context)
{
    struct plan *plan = context;
    if (plan->state != PLAN_READY || plan->move.state != ROUTE_RESTING)
        return;
    plan_look_back(plan);
    if (plan->trial.what == ASKED_PART)
        plan->move.seats = SEAT_BIT(SEAT_CLIENT);
    const bool moves = plan_mark_moving(plan) || plan->trial.what != ASKED_NOTHING;
    enter(plan, moves ? ROUTE_FLUSHING : ROUTE_SETTLED);
}

static void rest(struct plan *plan)
{
    plan->move.held = true;
    engine_plan_rest(plan->session->engine, &plan->run, rested, plan);
}

static void pause(struct plan *plan)
{
    plan->move.held = true;
    plan->pending++;
    engine_plan_pause(plan->session->engine, &plan->run, plan->lost_error, go_on, plan);
}

static void strip(struct plan *plan)
{
    plan_look_back(plan);
    plan_mark_moving(plan);
    plan_strip(plan, go_on);
}

static void unbind(struct plan *plan)
{
    if (plan_parts(plan))
        plan_part(plan);
    else
        plan_unbind_pairs(plan);
}

static void resume_work(struct engine *engine, void *context)
{
    struct plan *plan = context;
    engine_plan_resume(&plan->run);
}

static void settle(struct plan *plan)
{
    struct plan_move *move = &plan->move;
    if (plan_joins(plan, SEAT_CLIENT))
        plan_end_rise(plan);
    plan->seats = move->seats;
    if (move->held && plan_attached(plan))
        engine_call(plan->tcad->engine, &plan->resume_call, resume_work, NULL, plan);
    move->held = false;
    plan_watch(plan);
    plan_tell_settled(plan);
}

static void act(struct plan *plan)
{
    static void (*const work[ROUTE_STATES])(struct plan * plan) = {
        [ROUTE_SETTLED] = settle,
        [ROUTE_RESTING] = rest,
        [ROUTE_PAUSING] = pause,
        [ROUTE_FLUSHING] = plan_do_flush,
        [ROUTE_STRIPPING] = strip,
        [ROUTE_REGISTERING] = plan_do_move,
        [ROUTE_PREPARING] = plan_do_prepare,
        [ROUTE_BINDING] = plan_bind_both,
        [ROUTE_MAPPING] = plan_do_map,
        [ROUTE_UNBINDING] = unbind,
    };
    work[plan->move.state](plan);
}

static void enter(struct plan *plan, enum route_state state)
{
    assert(plan->pending == 0);
    assert(plan_move_legal(plan->move.state, state));
    plan->move.state = state;
    plan->pending++; /* a state that completes at once does not recurse */
    act(plan);
    plan->pending--;
    plan_advance(plan);
}

/* ---- the walk ---- */

void plan_move_begin(struct plan *plan, enum move_cause cause, enum route_state first,
                     unsigned seats)
{
    plan->move.cause = cause;
    plan->move.seats = seats;
    plan_begin_attempt(plan);
    enter(plan, first);
}

/* SETTLED or RESTING: what has happened since the last move began. */
static void look(struct plan *plan)
{
    const unsigned seats = plan->seats;
    if (plan_has_dead_link(plan)) {
        plan_move_begin(plan, CAUSE_LOSS, ROUTE_PAUSING, seats);
    } else if (plan->move.state == ROUTE_RESTING || plan->trial.what == ASKED_NOTHING) {
        return;
    } else if (plan_attached(plan)) {
        plan_move_begin(plan, CAUSE_TRIAL, ROUTE_RESTING, seats);
    } else if (plan->trial.what == ASKED_JOIN) {
        plan_take_request(plan);
        plan_move_begin(plan, CAUSE_TRIAL, ROUTE_BINDING, seats | SEAT_BIT(SEAT_DAEMON));
    } else {
        plan_answer_request(plan); /* tcad has left its seat meanwhile */
    }
}

static enum route_state next(const struct plan *plan)
{
    switch (plan->move.state) {
    case ROUTE_PAUSING:
        return ROUTE_FLUSHING;
    case ROUTE_FLUSHING:
        return ROUTE_STRIPPING;
    case ROUTE_STRIPPING:
        return plan_parts(plan) ? ROUTE_UNBINDING : ROUTE_REGISTERING;
    case ROUTE_REGISTERING:
        return ROUTE_PREPARING;
    case ROUTE_BINDING:
        return plan_joins(plan, SEAT_CLIENT) ? ROUTE_MAPPING : ROUTE_REGISTERING;
    default:
        return ROUTE_SETTLED;
    }
}

static bool has_failed(const struct plan *plan)
{
    const enum route_state state = plan->move.state;
    return plan->attempt.error < 0 && (state == ROUTE_REGISTERING || state == ROUTE_PREPARING ||
                                       state == ROUTE_BINDING || state == ROUTE_MAPPING);
}

static enum seat failed_seat(const struct plan *plan)
{
    return plan_joins(plan, SEAT_CLIENT) ? SEAT_CLIENT : SEAT_DAEMON;
}

unsigned plan_seats_left(const struct plan *plan)
{
    return plan->seats & ~SEAT_BIT(failed_seat(plan));
}

/* The plan goes on in its other seat, if it has one. */
static void fall_back(struct plan *plan)
{
    const enum seat failed = failed_seat(plan);
    const unsigned left = plan_seats_left(plan);
    if (left == 0) {
        plan_end_with_attempt(plan);
        plan_advance(plan);
        return;
    }
    log_debug(NULL, "plan %" PRIu64 ".%" PRIu32 " cannot be in the %s's seat: %s", plan->session_id,
              plan->id, seat_name(failed), plan->attempt.text);
    plan->move.seats = left;
    enter(plan, failed == SEAT_CLIENT ? ROUTE_UNBINDING : ROUTE_STRIPPING);
}

void plan_move_advance(struct plan *plan)
{
    if (plan->move.state == ROUTE_MAPPING)
        plan_check_pairs(plan);
    if (plan->move.state == ROUTE_SETTLED || plan->move.state == ROUTE_RESTING)
        look(plan);
    else if (has_failed(plan))
        fall_back(plan);
    else
        enter(plan, next(plan));
}

void plan_move_end(struct plan *plan)
{
    plan->move.state = ROUTE_SETTLED;
}
