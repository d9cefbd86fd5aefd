#include "client/plan/overdue.h"

#include <errno.h>
#include <stdio.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/core/slots.h"
#include "client/core/wait.h"
#include "client/plan/plan.h"
#include "proto/notify.h"

enum { TEXT_BYTES = 160 };

/* ---- a start ---- */

/* The wait step at which a client-seat chain of the plan is blocked, or NULL. */
static const struct step *wait_step_of(const struct tca_plan *plan)
{
    const struct tca *session = plan->session;
    for (uint64_t left = plan->client_left; left; left &= left - 1) {
        const struct chain *chain = plan->chains[__builtin_ctzll(left)];
        for (uint32_t i = 0; i < plan->step_count; i++) {
            const struct step *step = &plan->steps[i];
            if (step->kind == STEP_WAIT &&
                chain_waits_for(chain, notify_line_of(session->notify, step->notification.rank,
                                                      step->notification.slot)))
                return step;
        }
    }
    return NULL;
}

static void describe_remaining(const struct tca_plan *plan, char text[TEXT_BYTES])
{
    const struct step *wait = wait_step_of(plan);
    if (plan->flags & TCA_PLAN_REPEAT && !plan->stopping)
        snprintf(text, TEXT_BYTES, "it repeats until tca_plan_stop()");
    else if (wait)
        snprintf(text, TEXT_BYTES, "it waits for rank %u to notify slot %u",
                 wait->notification.rank, wait->notification.slot);
    else if (plan->doubt_end_ns)
        snprintf(text, TEXT_BYTES, "it has failed, and tcad has not reported why");
    else if (plan->hold_end_ns)
        snprintf(text, TEXT_BYTES, "it is complete, and waits until its data has arrived");
    else if (plan->daemon_left)
        snprintf(text, TEXT_BYTES, "tcad has not reported completion (tcactl plan explain %llu.%u)",
                 (unsigned long long)plan->session->id, plan->id);
    else
        snprintf(text, TEXT_BYTES,
                 "the receiver has not copied its part: it does so in calls of the library");
}

int overdue_plan(const struct tca_plan *plan, int64_t timeout_ns)
{
    char name[PLAN_TEXT_BYTES], left[TEXT_BYTES], waited[TIMEOUT_TEXT_BYTES];
    if (timeout_ns == 0)
        return error_static(-ETIMEDOUT, "the start is not complete yet");
    describe_remaining(plan, left);
    return error_set(-ETIMEDOUT, "start %llu of %s did not complete %s: %s",
                     (unsigned long long)plan->starts, plan_text(plan, name),
                     session_timeout_text(plan->session, timeout_ns, waited), left);
}

static enum driver_id entry_driver(const struct tca_plan *plan)
{
    const struct rail_list *rails = &plan->session->rails;
    return plan->entry.rail <= rails->count ? rails->at[plan->entry.rail].driver : DRIVER_NONE;
}

/* Names the first rank that has ended and that a chain in the client's seat needs. */
static void describe_gone(const struct tca_plan *plan, char text[TEXT_BYTES])
{
    const struct step *gone = NULL;
    for (uint32_t i = 0; i < plan->unit_count && !gone; i++)
        if (atomic_load_explicit(&plan->units[i].gone, memory_order_relaxed))
            gone = plan->units[i].notify;
    for (uint32_t i = 0; i < plan->step_count && !gone; i++)
        if (plan->steps[i].kind == STEP_WAIT &&
            atomic_load_explicit(&plan->steps[i].gone, memory_order_relaxed))
            gone = &plan->steps[i];
    text[0] = '\0';
    if (gone)
        snprintf(text, TEXT_BYTES, ": rank %u has ended", gone->notification.rank);
}

/* Prefers the reason why the plan is broken to its start's status, because a rail that fails first
 * reports a less specific error. */
int plan_failure(const struct tca_plan *plan)
{
    char fault[256] = "", name[PLAN_TEXT_BYTES], gone[TEXT_BYTES] = "";
    const int status = plan->broken ? plan->broken : plan->last_status;
    if (!plan->broken && plan->refused)
        return error_set(status, "the last start was refused: %s",
                         plan->refusal ? plan->refusal : tca_strerror(status));
    if (plan->daemon_count > 0 && !plan->lossy)
        driver_fault_text(entry_driver(plan), plan->entry.fault, fault, sizeof(fault));
    if (!plan->broken && (status == -EOWNERDEAD || status == -EHOSTDOWN))
        describe_gone(plan, gone);
    return error_set(status, "start %llu of %s failed: %s%s%s%s",
                     (unsigned long long)plan->last_starts, plan_text(plan, name),
                     plan->broken ? plan->why : tca_strerror(status), gone, fault[0] ? ": " : "",
                     fault);
}

/* ---- notifications ---- */

static uint64_t pending(const struct tca *session, uint32_t rank, uint32_t slot)
{
    const _Atomic uint64_t *taken = notify_taken_of(session->notify, session->sources, rank, slot);
    return notify_arrived(notify_line_of(session->notify, rank, slot)) -
           atomic_load_explicit(taken, memory_order_relaxed);
}

/* Names a slot with notifications that were not taken: the caller may have meant that one. */
static void describe_other_slots(const struct tca *session, uint32_t rank, char text[TEXT_BYTES])
{
    text[0] = '\0';
    for (uint32_t slot = 0; slot < SLOTS_PROGRAM; slot++) {
        uint64_t count = pending(session, rank, slot);
        if (count == 0)
            continue;
        snprintf(text, TEXT_BYTES, "; its slot %u has %llu that were not taken", slot,
                 (unsigned long long)count);
        return;
    }
}

int overdue_notification(const struct tca *session, uint32_t rank, uint32_t slot,
                         int64_t timeout_ns)
{
    char others[TEXT_BYTES], waited[TIMEOUT_TEXT_BYTES];
    if (timeout_ns == 0)
        return error_static(-ETIMEDOUT, "the notification has not arrived yet");
    session_timeout_text(session, timeout_ns, waited);
    if (pending(session, rank, slot) > 0)
        return error_set(-ETIMEDOUT,
                         "rank %u notified slot %u, but its data was not copied %s: "
                         "is its process stopped?",
                         rank, slot, waited);
    describe_other_slots(session, rank, others);
    return error_set(
        -ETIMEDOUT, "rank %u did not notify slot %u %s; %llu were taken before%s", rank, slot,
        waited,
        (unsigned long long)atomic_load_explicit(
            notify_taken_of(session->notify, session->sources, rank, slot), memory_order_relaxed),
        others);
}

int overdue_any(const struct tca *session, uint32_t slot, int64_t timeout_ns)
{
    char waited[TIMEOUT_TEXT_BYTES];
    if (timeout_ns == 0)
        return error_static(-ETIMEDOUT, "the notification has not arrived yet");
    return error_set(-ETIMEDOUT, "none of %u ranks notified slot %u %s", session->sources, slot,
                     session_timeout_text(session, timeout_ns, waited));
}
