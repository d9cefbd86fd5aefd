/* Advances starts from tca_start() to completion. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/session.h"
#include "client/plan/pair.h"
#include "client/plan/plan.h"
#include "client/plan/progress.h"
#include "client/plan/trial_route.h"
#include "drivers/shm/share.h"
#include "proto/status.h"

/* Steps of a few microseconds each on puts that are copied piecewise or wait for their receivers,
 * in one call of the driver. */
enum { PIECES = 4 };

static void finish(struct tca_plan *plan)
{
    plan->state = PLAN_IDLE;
    plan->last_status = plan->status;
    plan->refused = 0;
    plan->last_starts = plan->starts;
    plan->last = (struct plan_times){0};
    if (plan->daemon_count == 0 && !(plan->flags & TCA_PLAN_TIMED))
        return;
    plan->last.start_ns = plan->start_ns;
    plan->last.done_ns = plan->client_done_ns;
    if (plan->daemon_count > 0 && plan->entry.done_ns > plan->last.done_ns)
        plan->last.done_ns = plan->entry.done_ns;
    plan->last.seen_ns = clock_now_ns();
}

/* ---- failures in doubt ---- */

/* A driver tells that memory is gone, and cannot tell whether its process has ended. tcad breaks
 * the plan with the reason (-ESTALE, -EOWNERDEAD, -EHOSTDOWN), which may arrive later. */
static bool in_doubt(const struct tca_plan *plan)
{
    return !plan->broken && !plan->session->control.lost && plan->status == -ESTALE;
}

void plan_finish(struct tca_plan *plan)
{
    if (__builtin_expect(plan->status < 0, 0) && in_doubt(plan)) {
        plan->doubt_end_ns = clock_now_ns() + DOUBT_NS;
        plan->session->plans_in_doubt++;
        return;
    }
    if (plan->flags & PLAN_TRIES && trial_route_holds(plan)) {
        plan->hold_end_ns = clock_now_ns() + TRIAL_HOLD_NS;
        plan->session->plans_held++;
        return;
    }
    finish(plan);
}

/* ---- starts that are held until their data has arrived ---- */

static void end_hold(struct tca_plan *plan)
{
    plan->hold_end_ns = 0;
    plan->session->plans_held--;
    finish(plan);
}

static __attribute__((noinline, cold)) void end_holds(struct tca *session)
{
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next) {
        if (!plan->hold_end_ns)
            continue;
        const bool arrived = trial_route_arrived(plan);
        if (!arrived && !plan->broken && !session->control.lost &&
            clock_left(plan->hold_end_ns) > 0)
            continue;
        if (!arrived)
            trial_route_late(plan);
        end_hold(plan);
    }
}

static void end_doubt(struct tca_plan *plan)
{
    if (plan->broken)
        plan->status = plan->broken;
    plan->doubt_end_ns = 0;
    plan->session->plans_in_doubt--;
    plan->session->failures++; /* again: who has looked since the first time saw it running */
    finish(plan);
}

static __attribute__((noinline, cold)) void end_doubts(struct tca *session)
{
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next)
        if (plan->doubt_end_ns && (!in_doubt(plan) || clock_left(plan->doubt_end_ns) == 0))
            end_doubt(plan);
}

/* ---- */

void plan_note_error(struct tca_plan *plan, int error)
{
    if (error >= 0 || plan->status < 0)
        return;
    plan->status = error;
    plan->session->failures++;
}

/* ---- chains in the daemon's seat ---- */

/* Ignores completions of plans that were released and of starts that were abandoned. */
static void take_completion(struct tca *session, const struct complete_entry *entry)
{
    if (session->in_flight > 0)
        session->in_flight--;
    struct tca_plan *plan =
        entry->plan < PLANS_PER_SESSION_MAX ? session->plans_by_id[entry->plan] : NULL;
    if (!plan || !plan->daemon_left || entry->sequence != (uint32_t)plan->starts)
        return;
    plan->daemon_left = false;
    plan->entry = *entry;
    const int status = status_from_wire(entry->status);
    /* tcad has just lost the rail, and does not know the plan any more: it goes on in the client's
     * seat */
    plan_note_error(plan, status == -ENOENT && plan->route_trial ? -ENETDOWN : status);
    if (!plan->client_left)
        plan_finish(plan);
}

void session_complete(struct tca *session)
{
    struct complete_entry entry;
    int r;
    while ((r = ring_pop(&session->complete, &entry)) > 0)
        take_completion(session, &entry);
    if (r < 0 && !session->control.lost)
        control_lose(&session->control, -EPROTO);
}

/* ---- chains in the client's seat ---- */

void plan_run_later(struct tca_plan *plan)
{
    plan->next_running = plan->session->running;
    plan->session->running = plan;
}

/* All chains in the client's seat are complete: begins the next round. False: none follows, the
 * start is over. */
static bool repeat_begin(struct tca_plan *plan)
{
    if (plan->status == 0 && !plan->cut)
        plan->rounds++;
    if (plan->status == 0 && plan->broken)
        plan->status = plan->broken;
    if (plan->status < 0 || plan->stopping)
        return false;
    for (uint32_t i = 0; i < plan->client_count; i++) {
        int r = chain_start(plan->chains[i]);
        if (r == 0)
            plan->client_left |= 1ull << i;
        else
            plan_note_error(plan, r);
    }
    return true;
}

/* No round follows: ends the chains that have not begun this one. */
static void repeat_cut(struct tca_plan *plan)
{
    for (uint64_t left = plan->client_left; left; left &= left - 1) {
        struct chain *chain = plan->chains[__builtin_ctzll(left)];
        if (!chain_at_first_wait(chain))
            continue;
        chain_unstart(chain);
        plan->client_left &= ~(left & -left);
        plan->cut = true;
    }
}

/* True when all client-seat chains are complete. */
static bool run_chains(struct tca_plan *plan)
{
    for (uint64_t left = plan->client_left; left; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(left);
        int r = chain_run(plan->chains[i]);
        if (r == 0)
            continue;
        plan->client_left &= ~(1ull << i);
        plan_note_error(plan, r);
    }
    if (plan->status < 0 && plan->flags & TCA_PLAN_REPEAT)
        repeat_cut(plan);
    return plan->client_left == 0;
}

static void run_plans(struct tca *session)
{
    session->copying = session->running && session->shm->ops->progress(session->shm, PIECES) > 0;
    for (struct tca_plan **link = &session->running; *link;) {
        struct tca_plan *plan = *link;
        if (!run_chains(plan) || (repeats_here(plan) && repeat_begin(plan))) {
            session->copying |= plan->client_left == 0; /* the next round is complete as well */
            link = &plan->next_running;
            continue;
        }
        *link = plan->next_running;
        if (plan->flags & TCA_PLAN_TIMED)
            plan->client_done_ns = clock_now_ns();
        if (!plan->daemon_left)
            plan_finish(plan);
    }
}

/* ---- failures ---- */

void plan_cancel_here(struct tca_plan *plan, int error)
{
    if (repeats_here(plan))
        plan_note_error(plan,
                        error); /* all chains may be complete, and the next round about to begin */
    for (uint64_t left = plan->client_left; left; left &= left - 1)
        chain_cancel(plan->chains[__builtin_ctzll(left)], error);
}

/* Does not advance other plans of the session: this process may be a forked child. */
static void end_chains(struct tca_plan *plan, int error)
{
    struct tca *session = plan->session;
    standby_enter(session->standby);
    plan_cancel_here(plan, error);
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        if (plan->transfers[i].pair)
            pair_abandon(session, plan->transfers[i].pair, error);
        else
            shm_put_cancel(session->shm, plan->transfers[i].put, error);
    run_chains(plan);
    standby_leave(session->standby);
    assert(!plan->client_left);
    struct tca_plan **link = &session->running;
    while (*link != plan)
        link = &(*link)->next_running;
    *link = plan->next_running;
}

void plan_abandon(struct tca_plan *plan, int error)
{
    if (plan->state != PLAN_RUNNING)
        return;
    if (plan->doubt_end_ns) {
        end_doubt(plan);
        return;
    }
    if (plan->hold_end_ns) { /* it was complete */
        end_hold(plan);
        return;
    }
    plan_note_error(plan, error);
    plan->daemon_left = false;
    if (plan->client_left || repeats_here(plan))
        end_chains(plan, error);
    finish(plan);
}

void plan_break(struct tca_plan *plan, int error, const char *text)
{
    if (plan->state == PLAN_BUILDING || error >= 0)
        return;
    if (plan->broken == 0) {
        plan->broken = error;
        plan->session->failures++;
        snprintf(plan->why, sizeof(plan->why), "%s", text && text[0] ? text : status_text(error));
    }
    if (plan->state == PLAN_RUNNING) {
        plan->ending = error;
        plan->session->ending = true;
    }
}

/* When a process or node has ended, chains that do not need it continue: rank_gone() has marked the
 * steps of the others. */
static void fail_chains(struct tca_plan *plan, int error)
{
    if (error != -EOWNERDEAD && error != -EHOSTDOWN) {
        plan_cancel_here(plan, error);
        return;
    }
    for (uint64_t left = plan->client_left; left; left &= left - 1)
        chain_lose(plan->chains[__builtin_ctzll(left)], error);
}

/* Ends the starts of broken plans. Called outside of chain steps, in which the event may have been
 * processed. Notifications that arrived before the event still count. */
static void end_broken(struct tca *session)
{
    session->ending = false;
    run_plans(session);
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next) {
        if (plan->ending && session->control.lost)
            plan_abandon(plan, plan->ending);
        else if (plan->ending)
            fail_chains(plan, plan->ending); /* run_plans() ends them */
        plan->ending = 0;
    }
    run_plans(session);
}

static void run_all(struct tca *session)
{
    run_plans(session);
    while (__builtin_expect(session->ending, 0))
        end_broken(session);
    if (__builtin_expect(session->plans_in_doubt, 0))
        end_doubts(session);
    if (__builtin_expect(session->plans_held, 0))
        end_holds(session);
}

void session_progress_within(struct tca *session)
{
    session_complete(session);
    if (atomic_load_explicit(&session->connected, memory_order_relaxed)) /* a hint */
        pairs_progress(session);
    run_all(session);
}

static __attribute__((noinline)) void run_with_pairs(struct tca *session)
{
    pairs_stand_by(session);
    standby_enter(session->standby);
    pairs_progress(session);
    run_all(session);
    standby_leave(session->standby);
}

void session_progress(struct tca *session)
{
    session_complete(session);
    /* relaxed: a hint */
    if (__builtin_expect(atomic_load_explicit(&session->connected, memory_order_relaxed), 0))
        run_with_pairs(session);
    else
        run_all(session);
}

/* ---- ending a start from outside ---- */

int plan_order(struct tca_plan *plan, uint32_t order)
{
    struct tca *session = plan->session;
    const struct submit_entry entry = {.plan = plan->id | order,
                                       .sequence = (uint32_t)plan->starts};
    int r = ring_push(plan->submit, &entry);
    if (r < 0)
        return error_static(r, r == -EAGAIN ? "the submission ring is full: try again"
                                            : "the session's submission ring is corrupt");
    session_ring_engine(session, &session->segment->engine_armed);
    return 0;
}

int tca_plan_cancel(struct tca_plan *plan)
{
    if (plan->state != PLAN_RUNNING)
        return 0;
    int r = plan->daemon_left ? plan_order(plan, SUBMIT_CANCEL) : 0;
    if (r < 0)
        return r;
    plan_cancel_here(plan, -ECANCELED);
    session_progress(plan->session);
    return 0;
}

/* ---- repeating plans; those of the daemon's seat repeat there (daemon/engine/engine_repeat.c)
 * ---- */

int repeat_check(const struct tca_plan *plan)
{
    if (!(plan->flags & TCA_PLAN_REPEAT))
        return 0;
    if (plan->chain_count == 0)
        return error_static(-EINVAL, "a repeating plan without steps would never wait");
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (plan->steps[plan->chain_first[i]].kind != STEP_WAIT &&
            plan->steps[plan->chain_first[i]].kind != STEP_WAIT_SIGNAL)
            return error_set(-EINVAL,
                             "chain %u of a repeating plan begins with a put or a notification: "
                             "each chain must begin with a wait",
                             i);
    return 0;
}

int tca_plan_stop(struct tca_plan *plan)
{
    char name[PLAN_TEXT_BYTES];
    if (!(plan->flags & TCA_PLAN_REPEAT))
        return error_set(-EINVAL, "%s does not repeat (TCA_PLAN_REPEAT)", plan_text(plan, name));
    if (plan->state != PLAN_RUNNING || plan->stopping)
        return 0;
    int r = plan->client_count > 0 ? 0 : plan_order(plan, SUBMIT_STOP);
    if (r < 0)
        return r;
    plan->stopping = true;
    repeat_cut(plan);
    session_progress(plan->session);
    return 0;
}

uint64_t tca_plan_rounds(struct tca_plan *plan)
{
    if (!(plan->flags & TCA_PLAN_REPEAT) || plan->state == PLAN_BUILDING)
        return 0;
    if (plan->state == PLAN_RUNNING)
        session_progress(plan->session);
    /* acquire: pairs with the daemon's release: what the rounds have put here is visible */
    return plan->client_count > 0 ? plan->rounds
                                  : atomic_load_explicit(&plan->session->segment->rounds[plan->id],
                                                         memory_order_acquire);
}
