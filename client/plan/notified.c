/* Waiting for notifications, and taking them. */
#include <errno.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/core/wait.h"
#include "client/memory/lane.h"
#include "client/plan/overdue.h"
#include "client/plan/pair.h"
#include "client/plan/plan.h"
#include "client/plan/waits.h"
#include "proto/notify.h"

/* Looks for its line. */
static bool find_line(const struct tca *session, struct session_slot *slot)
{
    /* acquire: pairs with the release in lines_add(): the table has these lines */
    const uint32_t count = atomic_load_explicit(&session->notify->line_count, memory_order_acquire);
    if (count == slot->searched)
        return false;
    slot->searched = count;
    const uint32_t line = notify_find(session->notify, slot->rank, slot->slot);
    if (line == NOTIFY_NO_LINE)
        return false;
    slot->line = notify_line_at(session->notify, line);
    slot->taken = notify_taken_at(session->notify, line);
    return true;
}

static uint64_t taken_before(const struct session_slot *slot)
{
    return slot->line ? atomic_load_explicit(slot->taken, memory_order_relaxed) : 0;
}

static uint64_t pending(const struct session_slot *slot)
{
    return slot->line ? notify_arrived(slot->line) - taken_before(slot) : 0;
}

/* ---- a notification from one rank ---- */

int session_slot_find(struct tca *session, uint32_t rank, uint32_t slot,
                      struct session_slot *ret_slot)
{
    if (__builtin_expect(rank >= session->sources, 0))
        return error_set(-EINVAL, "rank %u: the group's ranks go from 0 to %u", rank,
                         session->sources - 1);
    *ret_slot = (struct session_slot){.rank = rank, .slot = slot};
    find_line(session, ret_slot);
    return 0;
}

/* What may raise notifications, or runs here. */
static inline void advance(struct tca *session)
{
    if (__builtin_expect(session->running != NULL, 0) ||
        (session_has_pairs(session) && !session_skips_pairs(session)))
        session_progress(session);
}

/* Takes what has arrived, at most `most`, and returns how many. */
static inline __attribute__((always_inline)) int
take_some(struct tca *session, struct session_slot *awaited, uint64_t most)
{
    const bool found = __builtin_expect(awaited->line != NULL, 1) || find_line(session, awaited);
    uint64_t count = pending(awaited);
    if (count > 0) {
        int landed = lane_complete(session, awaited->rank);
        if (__builtin_expect(landed <= 0, 0))
            return landed;
        if (count > most)
            count = most;
        if (__builtin_expect(session->engine_takes, 0)
                ? notify_take(awaited->line, awaited->taken, count)
                : notify_take_alone(awaited->line, awaited->taken, count))
            return (int)count;
    }
    struct lane_in *in = lane_in_of(session, awaited->rank);
    if (__builtin_expect(in && lane_pending(&in->lane), 0))
        lane_drain(&in->lane);
    /* The data will most likely be there next time: prefetching moves it between the cores together
     * with the counter. An invalid address is harmless. */
    uint64_t landing =
        found ? atomic_load_explicit(&awaited->line->landing, memory_order_relaxed) : 0;
    if (landing)
        __builtin_prefetch((const void *)(uintptr_t)landing);
    advance(session);
    return 0;
}

static inline int take(struct tca *session, struct session_slot *awaited)
{
    return take_some(session, awaited, 1);
}

int session_take(struct tca *session, struct session_slot *slot)
{
    return take(session, slot);
}

int session_grant(const struct session_slot *slot)
{
    if (!slot->line)
        return error_set(-EPROTO, "rank %u, slot %u: no committed plan uses it", slot->rank,
                         slot->slot);
    atomic_fetch_sub_explicit(slot->taken, 1, memory_order_relaxed);
    return 0;
}

static int take_notification(struct tca *session, void *subject)
{
    return take(session, subject);
}

static int rank_failed(struct tca *session, void *subject)
{
    const struct session_slot *awaited = subject;
    /* acquire: the check that follows sees all notifications from before its daemon wrote the
     * state */
    switch (
        atomic_load_explicit(&session->notify->source_state[awaited->rank], memory_order_acquire)) {
    case SOURCE_ALIVE:
        break;
    case SOURCE_NODE_DOWN:
        return error_set(-EHOSTDOWN, "rank %u cannot notify any more: its node is unreachable",
                         awaited->rank);
    default:
        return error_set(-EOWNERDEAD, "rank %u cannot notify any more: its process has ended",
                         awaited->rank);
    }
    return session->control.lost ? session_drain(session) : 0;
}

static inline __attribute__((always_inline)) int take_all(struct tca *session,
                                                          struct session_slot *slot, uint32_t most)
{
    int r = take_some(session, slot, most);
    if (r != 0)
        return r;
    if (session_has_events(session))
        session_drain(session);
    const int failure = rank_failed(session, slot);
    if (__builtin_expect(failure == 0, 1))
        return 0;
    if (session->pairs)
        pairs_take(session);
    r = take_some(session, slot, most);
    return r != 0 ? r : failure;
}

int session_take_all(struct tca *session, struct session_slot *slot, uint32_t most)
{
    return take_all(session, slot, most);
}

void session_advance(struct tca *session)
{
    if (session_has_events(session))
        session_drain(session);
    advance(session);
}

bool session_is_quiet(struct tca *session, struct session_slot *slot)
{
    if (!slot->line && !find_line(session, slot))
        return rank_failed(session, slot) == 0;
    return pending(slot) == 0 && rank_failed(session, slot) == 0;
}

int tca_notified(struct tca *session, uint32_t rank, uint32_t slot)
{
    struct session_slot awaited = {0};
    int r = session_slot_find(session, rank, slot, &awaited);
    return r < 0 ? r : take_all(session, &awaited, 1);
}

/* A wait of tca_notified_wait(): the slot first. */
struct awaited_slot {
    struct session_slot slot;
    const struct tca *session;
};

static int slot_overdue(const void *subject, int64_t timeout_ns)
{
    const struct awaited_slot *awaited = subject;
    return overdue_notification(awaited->session, &awaited->slot, timeout_ns);
}

int tca_notified_wait(struct tca *session, uint32_t rank, uint32_t slot, int64_t timeout_ns)
{
    struct awaited_slot awaited = {.session = session};
    struct wait_spec spec = {.ready = take_notification,
                             .failed = rank_failed,
                             .subject = &awaited.slot,
                             .overdue = slot_overdue,
                             .notified = true};
    int r = session_slot_find(session, rank, slot, &awaited.slot);
    if (r < 0 || (r = session_timeout(session, timeout_ns, &spec.timeout_ns)) < 0)
        return r;
    r = wait_for(session, &spec, 0);
    if (__builtin_expect(r < 0, 0))
        return r == TIMED_OUT ? slot_overdue(&awaited, timeout_ns) : r;
    return 0;
}

uint64_t tca_notified_count(struct tca *session, uint32_t rank, uint32_t slot)
{
    struct session_slot awaited = {0};
    if (session_slot_find(session, rank, slot, &awaited) < 0)
        return 0;
    if (session_has_events(session))
        session_drain(session); /* a program may only call this function until a notification
                                   arrives, which may require processing events */
    return awaited.line || find_line(session, &awaited) ? pending(&awaited) : 0;
}

uint64_t tca_notified_ns(struct tca *session, uint32_t rank, uint32_t slot)
{
    struct session_slot awaited = {0};
    if (session_slot_find(session, rank, slot, &awaited) < 0)
        return 0;
    return awaited.line ? atomic_load_explicit(&awaited.line->arrived_ns, memory_order_relaxed) : 0;
}

/* ---- a notification from any rank ---- */

struct awaited_any {
    const struct tca *session;
    struct watch *watch;
    uint32_t rank; /* which has notified */
};

static int any_overdue(const void *subject, int64_t timeout_ns)
{
    const struct awaited_any *any = subject;
    return overdue_any(any->session, any->watch->slot, timeout_ns);
}

/* Of the first line in the queue, which comes back to it while it has more. */
static bool take_first(struct tca *session, struct awaited_any *any)
{
    const uint32_t line = watch_take(&session->watches, any->watch);
    struct session_slot awaited = {.rank = session->watches.lines[line].rank,
                                   .slot = any->watch->slot,
                                   .line = notify_line_at(session->notify, line),
                                   .taken = notify_taken_at(session->notify, line)};
    if (awaited.rank >= session->sources)
        return false;
    const bool taken = session_take(session, &awaited) > 0;
    if (pending(&awaited) > 0)
        watch_queue(&session->watches, line);
    any->rank = awaited.rank;
    return taken;
}

/* Skips ranks that died during a put. */
static int take_any(struct tca *session, void *subject)
{
    struct awaited_any *any = subject;
    if (watches_update(&session->watches, session->notify) < 0)
        return error_static(-ENOMEM, "out of memory");
    for (uint32_t left = any->watch->queued; left > 0; left--)
        if (take_first(session, any))
            return 1;
    lanes_drain(session);
    advance(session);
    return 0;
}

static int session_failed(struct tca *session, void *subject)
{
    return session->control.lost ? session_drain(session) : 0;
}

int tca_notified_wait_any(struct tca *session, uint32_t slot, int64_t timeout_ns,
                          uint32_t *ret_rank)
{
    struct awaited_any any = {.session = session};
    struct wait_spec spec = {.ready = take_any,
                             .failed = session_failed,
                             .subject = &any,
                             .overdue = any_overdue,
                             .notified = true};
    int r = session_timeout(session, timeout_ns, &spec.timeout_ns);
    if (r < 0)
        return r;
    if (watches_find(&session->watches, session->notify, slot, &any.watch) < 0)
        return error_static(-ENOMEM, "out of memory");
    r = wait_for(session, &spec, SLOW_ROUNDS);
    if (r < 0)
        return r == TIMED_OUT ? any_overdue(&any, timeout_ns) : r;
    *ret_rank = any.rank;
    return 0;
}
