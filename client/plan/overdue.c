#include "client/plan/overdue.h"

#include <errno.h>
#include <stdio.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/core/slots.h"
#include "client/core/wait.h"
#include "client/plan/plan.h"
#include "proto/notify.h"

enum { RANK_BYTES = 128, TEXT_BYTES = 384 };

/* NOTIFY_NO_LINE: there is none. */
static uint32_t line_of(const struct tca *session, uint32_t rank, uint32_t slot)
{
    return notify_find(session->notify, rank, slot);
}

static uint64_t taken_of(const struct tca *session, uint32_t line)
{
    return line == NOTIFY_NO_LINE
               ? 0
               : atomic_load_explicit(notify_taken_at(session->notify, line), memory_order_relaxed);
}

static uint64_t pending_of(const struct tca *session, uint32_t line)
{
    return line == NOTIFY_NO_LINE
               ? 0
               : notify_arrived(notify_line_at(session->notify, line)) - taken_of(session, line);
}

/* ---- the rank that is waited for ---- */

/* The process's notification segment, if this one maps it. */
static const struct mapped_segment *segment_of(const struct tca *session, uint64_t id)
{
    const struct mapped_segment *at = session->mapped_segments;
    while (at && at->session != id)
        at = at->next;
    return at;
}

/* Where it is and, on this node, what it does: a hint, as it may go on at any time. */
static void describe_rank(const struct tca *session, uint32_t rank, char text[RANK_BYTES])
{
    text[0] = '\0';
    if (!session->members || rank >= session->sources || rank >= session->identity.size)
        return;
    const struct group_member *member = &session->members[rank];
    if (member->node != session->node) {
        snprintf(text, RANK_BYTES, " (session %llu of node %u)",
                 (unsigned long long)member->session, member->node);
        return;
    }
    const struct mapped_segment *segment = segment_of(session, member->session);
    /* relaxed: a hint */
    const bool knows = segment && segment->segment && !segment->own && !segment->gone,
               sleeps = knows && atomic_load_explicit(&segment->segment->sleeping,
                                                      memory_order_relaxed) != 0;
    snprintf(text, RANK_BYTES, " (session %llu of this node%s)",
             (unsigned long long)member->session,
             !knows   ? ""
             : sleeps ? ", which sleeps in a wait of libtca itself"
                      : ", which does not sleep in libtca: it computes, or is stopped");
}

/* ---- plans ---- */

/* The wait step at which a client-seat chain of the plan is blocked, or NULL. */
static const struct step *wait_step_of(const struct tca_plan *plan)
{
    const struct tca *session = plan->session;
    for (uint64_t left = plan->client_left; left; left &= left - 1) {
        const struct notify_line *line = chain_waits_for(plan->chains[__builtin_ctzll(left)]);
        for (uint32_t i = 0; i < plan->step_count && line; i++) {
            const struct step *step = &plan->steps[i];
            if (step->kind != STEP_WAIT)
                continue;
            const uint32_t own = line_of(session, step->notification.rank, step->notification.slot);
            if (own != NOTIFY_NO_LINE && notify_line_at(session->notify, own) == line)
                return step;
        }
    }
    return NULL;
}

static void describe_wait(const struct tca_plan *plan, const struct step *wait,
                          char text[TEXT_BYTES])
{
    const uint32_t line = line_of(plan->session, wait->notification.rank, wait->notification.slot);
    char rank[RANK_BYTES];
    describe_rank(plan->session, wait->notification.rank, rank);
    snprintf(text, TEXT_BYTES,
             "it waits for rank %u to notify slot %u, at step %u of %u, where %llu of %llu have "
             "come, after %llu%s",
             wait->notification.rank, wait->notification.slot, (unsigned)(wait - plan->steps) + 1,
             plan->step_count, (unsigned long long)pending_of(plan->session, line),
             (unsigned long long)wait->notification.count,
             (unsigned long long)taken_of(plan->session, line), rank);
}

static void describe_remaining(const struct tca_plan *plan, char text[TEXT_BYTES])
{
    const struct step *wait = wait_step_of(plan);
    if (plan->flags & TCA_PLAN_REPEAT && !plan->stopping)
        snprintf(text, TEXT_BYTES, "it repeats until tca_plan_stop()");
    else if (wait)
        describe_wait(plan, wait, text);
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

void plan_waits_for(const struct tca_plan *plan, char *text, size_t text_bytes)
{
    char left[TEXT_BYTES];
    describe_remaining(plan, left);
    snprintf(text, text_bytes, "%s", left);
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

/* ---- notifications ---- */

/* The program's lowest slot of the rank with notifications that were not taken. SLOT_LIBRARY_FIRST:
 * there is none. */
static uint32_t other_slot(const struct tca *session, uint32_t rank, uint64_t *ret_pending)
{
    const uint32_t bits = atomic_load_explicit(&session->notify->table_bits, memory_order_acquire);
    uint32_t lowest = SLOT_LIBRARY_FIRST;
    for (uint32_t i = 0; bits <= NOTIFY_TABLE_BITS_MAX && i < 1u << bits; i++) {
        const uint64_t key = notify_table(session->notify, bits)[i].key;
        const uint32_t slot = (uint32_t)key;
        if (key >> 32 != rank || slot >= lowest)
            continue;
        const uint64_t pending = pending_of(session, line_of(session, rank, slot));
        if (pending == 0)
            continue;
        lowest = slot;
        *ret_pending = pending;
    }
    return lowest;
}

/* Names that slot: the caller may have meant it. */
static void describe_other_slots(const struct tca *session, uint32_t rank, char text[TEXT_BYTES])
{
    uint64_t pending;
    const uint32_t slot = other_slot(session, rank, &pending);
    text[0] = '\0';
    if (slot != SLOT_LIBRARY_FIRST)
        snprintf(text, TEXT_BYTES, "; its slot %u has %llu that were not taken", slot,
                 (unsigned long long)pending);
}

int overdue_notification(const struct tca *session, const struct session_slot *awaited,
                         int64_t timeout_ns)
{
    const uint32_t rank = awaited->rank, slot = awaited->slot, line = line_of(session, rank, slot);
    char others[TEXT_BYTES], who[RANK_BYTES], waited[TIMEOUT_TEXT_BYTES];
    if (timeout_ns == 0)
        return error_static(-ETIMEDOUT, "the notification has not arrived yet");
    session_timeout_text(session, timeout_ns, waited);
    if (pending_of(session, line) > 0)
        return error_set(-ETIMEDOUT,
                         "rank %u notified slot %u, but its data was not copied %s: "
                         "is its process stopped?",
                         rank, slot, waited);
    describe_other_slots(session, rank, others);
    describe_rank(session, rank, who);
    return error_set(-ETIMEDOUT, "rank %u did not notify slot %u %s; %llu were taken before%s%s",
                     rank, slot, waited, (unsigned long long)taken_of(session, line), others, who);
}

int overdue_any(const struct tca *session, uint32_t slot, int64_t timeout_ns)
{
    char waited[TIMEOUT_TEXT_BYTES];
    if (timeout_ns == 0)
        return error_static(-ETIMEDOUT, "the notification has not arrived yet");
    return error_set(-ETIMEDOUT, "none of %u ranks notified slot %u %s", session->sources, slot,
                     session_timeout_text(session, timeout_ns, waited));
}
