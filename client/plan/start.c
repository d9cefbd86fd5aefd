/* Starting a plan: the fast path. */
#include <errno.h>

#include "client/core/error.h"
#include "client/core/seats.h"
#include "client/core/session.h"
#include "client/plan/order.h"
#include "client/plan/pair.h"
#include "client/plan/parts.h"
#include "client/plan/plan.h"
#include "client/plan/progress.h"
#include "client/plan/trial.h"
#include "client/plan/trial_route.h"

#define unlikely(condition) __builtin_expect((condition), 0)

__attribute__((noinline, cold)) int plan_check_startable(struct tca_plan *plan)
{
    char name[PLAN_TEXT_BYTES];
    if (plan->state == PLAN_RUNNING)
        session_progress(plan->session);
    if (plan->state == PLAN_RUNNING)
        return error_set(-EBUSY,
                         "%s: its last start is still running: call tca_wait() or tca_test()",
                         plan_text(plan, name));
    if (plan->state == PLAN_BUILDING)
        return plan_not_committed(plan);
    if (plan->broken) {
        plan->last_status = plan->broken; /* tca_wait() returns it, too */
        return error_set(plan->broken, "%s cannot be started any more: %s", plan_text(plan, name),
                         plan->why);
    }
    return 0;
}

static __attribute__((noinline, cold)) int set_ring_error(int error)
{
    if (error == -EAGAIN)
        return error_static(
            -EAGAIN,
            "the submission ring is full, or too many starts are in flight: wait for earlier ones");
    return error_static(error, "the session's submission ring is corrupt");
}

/* Submits the start to the ring of its channel. */
static inline __attribute__((always_inline)) int submit(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    if (unlikely(session->in_flight >= COMPLETE_ENTRIES)) {
        session_progress(session);
        if (session->in_flight >= COMPLETE_ENTRIES)
            return set_ring_error(-EAGAIN);
    }
    plan->start_ns = clock_now_ns();
    struct submit_entry entry = {.plan = plan->submit_id,
                                 .sequence = (uint32_t)plan->starts + 1,
                                 .start_ns = plan->start_ns};
    int r = ring_push(plan->submit, &entry);
    if (unlikely(r < 0))
        return set_ring_error(r);
    session->in_flight++;
    plan->daemon_left = true;
    session_ring_engine(session, &session->segment->engine_armed);
    return 0;
}

/* relaxed: only this process writes it, and readers order nothing by it */
static inline void count_start(struct tca_plan *plan)
{
    atomic_store_explicit(plan->client_starts, plan->starts, memory_order_relaxed);
}

static inline void run_client_chains(struct tca_plan *plan)
{
    for (uint32_t i = 0; i < plan->client_count; i++) {
        int r = chain_start(plan->chains[i]);
        if (r == 0)
            plan->client_left |= 1ull << i;
        else if (unlikely(r < 0))
            plan_note_error(plan, r);
    }
    count_start(plan);
}

static __attribute__((noinline)) int submit_measured(struct tca_plan *plan)
{
    if (plan->route_trial && plan->flags & PLAN_TRIES)
        trial_route_start(plan);
    else if (plan->flags & PLAN_TRIES)
        trial_start(plan);
    int r = plan->ordered ? order_start(plan) : 0;
    if (r < 0)
        return r;
    if (plan->daemon_count > 0)
        return submit(plan);
    plan->start_ns = clock_now_ns();
    return 0;
}

/* Starts a plan with times, trials, chains in the daemon's seat, or wait steps. */
static __attribute__((noinline)) int start_slowly(struct tca_plan *plan)
{
    plan->status = 0;
    plan->stopping = plan->cut = false;
    if (plan->pace >= PACE_SUBMITS) {
        int r = plan->pace == PACE_SUBMITS ? submit(plan) : submit_measured(plan);
        if (r < 0)
            return r;
    }
    plan->starts++;
    plan->state = PLAN_RUNNING;
    if (plan->parts)
        parts_count(plan);
    if (plan->client_count > 0 || plan->daemon_count == 0) { /* counts plans without steps, too */
        struct standby *standby = plan->paired ? plan->session->standby : NULL;
        standby_enter(standby);
        run_client_chains(plan);
        if (plan->paired)
            pairs_push(plan->session); /* the caller may compute now */
        standby_leave(standby);
        if (plan->client_left || repeats_here(plan)) {
            plan_run_later(plan);
            return 0;
        }
        if (plan->flags & TCA_PLAN_TIMED)
            plan->client_done_ns = clock_now_ns();
    } else if (plan->route_trial) {
        count_start(plan); /* tcad does not know those that were run here */
    }
    if (!plan->daemon_left)
        plan_finish(plan);
    return 0;
}

int tca_start(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    /* relaxed: a hint to read the socket, through which the events themselves come */
    if (unlikely(atomic_load_explicit(&session->segment->events, memory_order_relaxed) !=
                 session->events_seen))
        session_drain(session);
    if (unlikely(plan->state != PLAN_IDLE || plan->broken)) {
        int r = plan_check_startable(plan);
        if (r < 0)
            return r;
    }
    if (plan->pace != PACE_FAST)
        return start_slowly(plan);

    plan->starts++;
    plan->status = 0;
    if (plan->raises) {
        session_raise(session, plan->raises);
        count_start(plan);
    } else {
        run_client_chains(plan);
        if (unlikely(plan->client_left != 0)) {
            plan->state = PLAN_RUNNING;
            plan_run_later(plan);
            return 0;
        }
        if (unlikely(plan->status < 0)) {
            plan->state = PLAN_RUNNING;
            plan_finish(plan);
            return 0;
        }
    }
    plan->last_status = 0;
    plan->last_starts = plan->starts;
    return 0;
}

int plan_start_and_test(struct tca_plan *plan)
{
    int r = tca_start(plan);
    if (r < 0 || plan->state == PLAN_RUNNING)
        return r;
    return plan->last_status == 0 && !plan->lossy ? 1 : tca_test(plan);
}
