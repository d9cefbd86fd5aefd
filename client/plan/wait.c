/*
 * Waiting: spin, yield, sleep (proto/wait.h), for the end of a start or for a notification.
 * Meanwhile everything of the session that can go on does.
 */
#include <errno.h>
#include <limits.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/session.h"
#include "client/memory/lane.h"
#include "client/plan/overdue.h"
#include "client/plan/plan.h"
#include "proto/notify.h"

enum {
    SLICE_NS = 100 * 1000 * 1000, /* how long a sleeper trusts that somebody would wake it */
    HELPED_SLICE_NS = 100 * 1000,
};

/* The time is over: what did not happen is for the caller to say. */
enum { TIMED_OUT = INT_MIN };

/* What is waited for: > 0 it is there, 0 not yet, < 0 it failed. */
typedef int look_fn(struct tca *session, void *subject);

struct patience {
    look_fn *look;
    look_fn *hopeless; /* 0, or why it will never come */
    void *subject;
    int64_t timeout_ns; /* from the start of the wait, or from the end of copying in it */
};

/* The daemon has sent some that were not read yet. */
static bool has_events(const struct tca *session)
{
    return atomic_load_explicit(&session->segment->events, memory_order_relaxed) !=
           session->events_seen;
}

/* The socket is looked at when the daemon says that it sent something, and now and then, for its
 * end. */
static void check_socket(struct tca *session, uint64_t now_ns)
{
    if (!has_events(session) && now_ns - session->polled_ns < SLICE_NS)
        return;
    session->polled_ns = now_ns;
    session_drain(session);
}

/* Everything but what is waited for: 0 go on waiting, else the result. */
static int check_rest(struct tca *session, const struct patience *patience)
{
    uint64_t now_ns = clock_now_ns();
    check_socket(session, now_ns);
    session_progress(session);
    int hopeless = patience->hopeless(session, patience->subject);
    int r = patience->look(
        session,
        patience->subject); /* after the look for its sender's end: it may have come just before */
    if (r != 0 || hopeless < 0)
        return r != 0 ? r : hopeless;
    if (patience->timeout_ns >= 0 &&
        now_ns - session->waiter.started_ns >= (uint64_t)patience->timeout_ns)
        return TIMED_OUT;
    return 0;
}

static int sleep_slice(struct tca *session, const struct patience *patience)
{
    uint32_t doorbell = notify_prepare_sleep(session->notify);
    session->polled_ns = 0; /* look at the socket before each sleep */
    int r = check_rest(session, patience);
    if (r != 0) {
        notify_cancel_sleep(session->notify);
        return r;
    }
    /* A receiver that is at work for us does not know that we sleep. */
    bool helped = session->running && session->shm->ops->arm(session->shm) == -EAGAIN;
    int64_t slice_ns = helped ? HELPED_SLICE_NS : SLICE_NS;
    if (patience->timeout_ns >= 0) {
        int64_t left_ns =
            (int64_t)clock_left(session->waiter.started_ns + (uint64_t)patience->timeout_ns);
        slice_ns = left_ns < slice_ns ? left_ns : slice_ns;
    }
    notify_sleep(session->notify, doorbell, slice_ns); /* whatever it says: look again */
    return 0;
}

/* There is something to do: long puts go on, and nobody sleeps or yields as long as they do. */
static __attribute__((noinline)) int copy_on(struct tca *session, struct patience *patience)
{
    struct waiter *waiter = &session->waiter;
    int r;
    if (waiter->started_ns == 0)
        waiter->started_ns = clock_now_ns();
    do
        r = check_rest(session, patience);
    while (r == 0 && session->copying);
    if (patience->timeout_ns >= 0) {
        int64_t left_ns = (int64_t)clock_left(waiter->started_ns + (uint64_t)patience->timeout_ns);
        patience->timeout_ns = left_ns > 0 ? left_ns : 0;
    }
    waiter_begin(waiter);
    return r;
}

static __attribute__((always_inline)) inline int wait_until(struct tca *session,
                                                            struct patience *patience)
{
    waiter_begin(&session->waiter);
    for (;;) {
        int r = patience->look(session, patience->subject);
        if (r != 0)
            return r;
        if (__builtin_expect(session->copying, 0) && (r = copy_on(session, patience)) != 0)
            return r;
        switch (waiter_step(&session->waiter)) {
        case WAITER_AGAIN:
            break;
        case WAITER_CHECK:
            r = check_rest(session, patience);
            break;
        case WAITER_SLEEP:
            r = sleep_slice(session, patience);
            break;
        }
        if (r != 0)
            return r;
    }
}

/* A time-out of 0: one careful look. */
static int look_once(struct tca *session, const struct patience *patience)
{
    session->waiter.started_ns = 0;
    return check_rest(session, patience);
}

/* ---- a start's end ---- */

/* Why the plan is broken is why its start failed, too: a rail may have noticed first that what it
 * puts to has gone, and only that. */
static int result_of(const struct tca_plan *plan)
{
    if (has_events(plan->session))
        session_drain(plan->session);
    if (plan->last_status == 0 && !plan->lossy)
        return 1;
    char fault[256] = "", name[PLAN_TEXT_BYTES];
    if (plan->daemon_count > 0 && !plan->lossy)
        driver_fault_text((enum rail)plan->entry.rail, plan->entry.fault, fault, sizeof(fault));
    return error_set(
        plan->broken ? plan->broken : plan->last_status, "start %llu of %s failed: %s%s%s",
        (unsigned long long)plan->last_starts, plan_text(plan, name),
        plan->broken ? plan->why : tca_strerror(plan->last_status), fault[0] ? ": " : "", fault);
}

static int look_plan(struct tca *session, void *subject)
{
    struct tca_plan *plan = subject;
    session_progress(session);
    return plan->state == PLAN_RUNNING ? 0 : result_of(plan);
}

/* Who breaks a plan also ends its start. */
static int hopeless_plan(struct tca *session, void *subject)
{
    return 0;
}

static int not_committed(const struct tca_plan *plan)
{
    char name[PLAN_TEXT_BYTES];
    return error_set(-EINVAL, "%s was not committed", plan_text(plan, name));
}

int tca_test(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    if (plan->state == PLAN_RUNNING) {
        if (has_events(session))
            session_drain(session);
        session_progress(session);
    }
    if (plan->state == PLAN_RUNNING)
        return 0;
    return plan->state == PLAN_IDLE ? result_of(plan) : not_committed(plan);
}

int tca_wait(struct tca_plan *plan, int64_t timeout_ns)
{
    struct tca *session = plan->session;
    struct patience patience = {.look = look_plan, .hopeless = hopeless_plan, .subject = plan};
    int r;
    if (plan->state != PLAN_RUNNING) {
        r = plan->state == PLAN_IDLE ? result_of(plan) : not_committed(plan);
    } else {
        r = session_timeout(session, timeout_ns, &patience.timeout_ns);
        if (r == 0)
            r = patience.timeout_ns == 0 ? look_once(session, &patience)
                                         : wait_until(session, &patience);
        if (r == TIMED_OUT)
            r = overdue_plan(plan, timeout_ns);
    }
    return r < 0 ? r : 0;
}

/* ---- the end of all starts ---- */

static int look_idle(struct tca *session, void *subject)
{
    session_progress(session);
    for (const struct tca_plan *plan = session->plans; plan; plan = plan->next)
        if (plan->state == PLAN_RUNNING)
            return 0;
    return 1;
}

void plans_drain(struct tca *session, int64_t timeout_ns)
{
    struct patience patience = {
        .look = look_idle, .hopeless = hopeless_plan, .timeout_ns = timeout_ns};
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next)
        for (uint32_t i = 0; i < plan->client_count; i++)
            chain_hurry(plan->chains[i], -ECANCELED);
    wait_until(session, &patience);
}

/* ---- a notification ---- */

struct awaited {
    struct notify_line *line;
    _Atomic uint64_t *taken;
    uint32_t rank;
};

static int find(struct tca *session, uint32_t rank, uint32_t slot, struct awaited *ret_awaited)
{
    if (__builtin_expect(rank >= session->sources || slot >= SLOTS_PER_SOURCE, 0))
        return error_set(-EINVAL, "rank %u, slot %u: ranks go from 0 to %u, slots to %d", rank,
                         slot, session->sources - 1, SLOTS_PER_SOURCE - 1);
    *ret_awaited =
        (struct awaited){.line = notify_line_of(session->notify, rank, slot),
                         .taken = notify_taken_of(session->notify, session->sources, rank, slot),
                         .rank = rank};
    return 0;
}

static inline int look_notified(struct tca *session, void *subject)
{
    struct awaited *awaited = subject;
    if (notify_arrived(awaited->line) !=
        atomic_load_explicit(awaited->taken, memory_order_relaxed)) {
        int landed = lane_landed(session, awaited->rank);
        if (__builtin_expect(landed <= 0, 0))
            return landed;
        if (__builtin_expect(session->engine_takes, 0)
                ? notify_take(awaited->line, awaited->taken, 1)
                : notify_take_alone(awaited->line, awaited->taken, 1))
            return 1;
    }
    struct lane_in *in = lane_in_of(session, awaited->rank);
    if (__builtin_expect(in && lane_pending(&in->lane), 0))
        lane_drain(&in->lane);
    /* Where the data will be next time, most likely: lets it cross between the cores together with
     * the counter. Whoever wrote a wrong address only spoils our guess. */
    uint64_t landing = atomic_load_explicit(&awaited->line->landing, memory_order_relaxed);
    if (landing)
        __builtin_prefetch((const void *)(uintptr_t)landing);
    if (__builtin_expect(session->running != NULL, 0))
        session_progress(session);
    return 0;
}

static int hopeless_notified(struct tca *session, void *subject)
{
    const struct awaited *awaited = subject;
    /* acquire: what a rank notified before its daemon wrote its end is seen by the look that
     * follows */
    switch (
        atomic_load_explicit(&session->notify->source_state[awaited->rank], memory_order_acquire)) {
    case SOURCE_ALIVE:
        break;
    case SOURCE_NODE_DOWN:
        return error_set(-EHOSTDOWN, "rank %u will not notify any more: its node cannot be reached",
                         awaited->rank);
    default:
        return error_set(-EOWNERDEAD, "rank %u will not notify any more: its process has ended",
                         awaited->rank);
    }
    return session->control.lost ? session_drain(session) : 0;
}

int tca_notified(struct tca *session, uint32_t rank, uint32_t slot)
{
    struct awaited awaited = {0};
    int r = find(session, rank, slot, &awaited);
    if (r < 0)
        return r;
    if ((r = look_notified(session, &awaited)) != 0)
        return r;
    if (atomic_load_explicit(&session->segment->events, memory_order_relaxed) !=
        session->events_seen)
        session_drain(session);
    int hopeless = hopeless_notified(session, &awaited);
    if (__builtin_expect(hopeless == 0, 1))
        return 0;
    return look_notified(session, &awaited) ? 1 : hopeless;
}

int tca_notified_wait(struct tca *session, uint32_t rank, uint32_t slot, int64_t timeout_ns)
{
    struct awaited awaited = {0};
    struct patience patience = {
        .look = look_notified, .hopeless = hopeless_notified, .subject = &awaited};
    int r = find(session, rank, slot, &awaited);
    if (r < 0 || (r = session_timeout(session, timeout_ns, &patience.timeout_ns)) < 0)
        return r;
    r = patience.timeout_ns == 0 ? look_once(session, &patience) : wait_until(session, &patience);
    if (__builtin_expect(r < 0, 0))
        return r == TIMED_OUT ? overdue_notification(session, rank, slot, timeout_ns) : r;
    return 0;
}

/* ---- from any rank ---- */

struct awaited_any {
    uint32_t slot;
    uint32_t rank; /* the one that was heard last: the others are looked at before it */
};

/* Who has died in the middle of a put is passed over. */
static int look_any(struct tca *session, void *subject)
{
    struct awaited_any *any = subject;
    for (uint32_t i = 1; i <= session->sources; i++) {
        struct awaited awaited = {0};
        uint32_t rank = (any->rank + i) % session->sources;
        find(session, rank, any->slot, &awaited);
        if (look_notified(session, &awaited) > 0) {
            any->rank = rank;
            return 1;
        }
    }
    return 0;
}

static int hopeless_any(struct tca *session, void *subject)
{
    return session->control.lost ? session_drain(session) : 0;
}

int tca_notified_wait_any(struct tca *session, uint32_t slot, int64_t timeout_ns,
                          uint32_t *ret_rank)
{
    struct awaited first = {0};
    struct awaited_any any = {.slot = slot, .rank = session->heard};
    struct patience patience = {.look = look_any, .hopeless = hopeless_any, .subject = &any};
    int r = find(session, 0, slot, &first);
    if (r < 0 || (r = session_timeout(session, timeout_ns, &patience.timeout_ns)) < 0)
        return r;
    r = patience.timeout_ns == 0 ? look_once(session, &patience) : wait_until(session, &patience);
    if (r < 0)
        return r == TIMED_OUT ? overdue_any(session, slot, timeout_ns) : r;
    *ret_rank = session->heard = any.rank;
    return 0;
}

uint64_t tca_notified_count(struct tca *session, uint32_t rank, uint32_t slot)
{
    struct awaited awaited = {0};
    if (find(session, rank, slot, &awaited) < 0)
        return 0;
    if (atomic_load_explicit(&session->segment->events, memory_order_relaxed) !=
        session->events_seen)
        session_drain(session); /* it may be the only call that is made until something has arrived,
                                   which may depend on them (bounce.h) */
    return notify_arrived(awaited.line) - atomic_load_explicit(awaited.taken, memory_order_relaxed);
}

uint64_t tca_notified_ns(struct tca *session, uint32_t rank, uint32_t slot)
{
    struct awaited awaited = {0};
    if (find(session, rank, slot, &awaited) < 0)
        return 0;
    return atomic_load_explicit(&awaited.line->arrived_ns, memory_order_relaxed);
}
