/* Waiting for starts and notifications: spin, yield, sleep (proto/wait.h). A wait also advances all
 * running starts of the session. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/session.h"
#include "client/core/slots.h"
#include "client/core/wait.h"
#include "client/memory/lane.h"
#include "client/plan/pair.h"
#include "client/plan/plan.h"
#include "client/plan/trial.h"
#include "proto/notify.h"

/* Internal result: the caller describes what timed out. */
enum { TIMED_OUT = INT_MIN };

/* > 0: ready; 0: not yet; < 0: failed. */
typedef int check_fn(struct tca *session, void *subject);

struct wait_spec {
    check_fn *ready;
    /* < 0: it can never become ready. NULL: `ready` reports this itself. Called now and then, and
     * before each sleep, and then `ready` once more. */
    check_fn *failed;
    void *subject;
    bool notified;      /* for notifications: completions are no reason to wake it */
    int64_t timeout_ns; /* from the start of the wait or, if it copies, from the end of copying */
};

enum {
    SLICE_NS = 100 * 1000 * 1000, /* longest sleep without a wake-up */
    HELPED_SLICE_NS = 100 * 1000, /* the same while a receiver copies, which does not wake us */
    /* Checks of session_wait() take several times as long as that of a notification: so many fewer
     * come before the first yield. */
    SLOW_ROUNDS = 48,
    IDLE_MOVES = 200, /* about 50 us */
    IDLE_SKIPS = 128,
};

/* ---- errors of waits: which plan or rank, what it waits for, why a start has failed ---- */

enum { TEXT_BYTES = 160 };

/* NULL: there is none. */
static struct notify_line *line_of(const struct tca *session, uint32_t rank, uint32_t slot)
{
    const uint32_t line = notify_find(session->notify, rank, slot);
    return line == NOTIFY_NO_LINE ? NULL : notify_line_at(session->notify, line);
}

/* The wait step at which a client-seat chain of the plan is blocked, or NULL. */
static const struct step *wait_step_of(const struct tca_plan *plan)
{
    const struct tca *session = plan->session;
    for (uint64_t left = plan->client_left; left; left &= left - 1) {
        const struct notify_line *line = chain_waits_for(plan->chains[__builtin_ctzll(left)]);
        for (uint32_t i = 0; i < plan->step_count && line; i++) {
            const struct step *step = &plan->steps[i];
            if (step->kind == STEP_WAIT &&
                line == line_of(session, step->notification.rank, step->notification.slot))
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

/* The first three return -ETIMEDOUT. timeout_ns is that of the public call; 0, a poll, sets a
 * static text. */
static __attribute__((cold)) int overdue_plan(const struct tca_plan *plan, int64_t timeout_ns)
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
    for (uint32_t i = 0; i < plan->transfer_count && !gone; i++)
        if (atomic_load_explicit(&plan->transfers[i].gone, memory_order_relaxed))
            gone = plan->transfers[i].notify;
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
/* Returns the error of the last start, which has failed or may have. */
static __attribute__((cold)) int plan_failure(const struct tca_plan *plan)
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

/* The program's lowest slot of the rank with notifications that were not taken. False: there is
 * none. */
static bool other_slot(const struct tca *session, uint32_t rank, struct session_slot *ret_slot)
{
    const uint32_t bits = atomic_load_explicit(&session->notify->table_bits, memory_order_acquire);
    *ret_slot = (struct session_slot){.rank = rank, .slot = SLOT_LIBRARY_FIRST};
    for (uint32_t i = 0; bits <= NOTIFY_TABLE_BITS_MAX && i < 1u << bits; i++) {
        const uint64_t key = notify_table(session->notify, bits)[i].key;
        struct session_slot other = {.rank = rank, .slot = (uint32_t)key};
        if (key >> 32 == rank && other.slot < ret_slot->slot && find_line(session, &other) &&
            pending(&other) > 0)
            *ret_slot = other;
    }
    return ret_slot->line;
}

/* Names that slot: the caller may have meant it. */
static void describe_other_slots(const struct tca *session, uint32_t rank, char text[TEXT_BYTES])
{
    struct session_slot other;
    text[0] = '\0';
    if (other_slot(session, rank, &other))
        snprintf(text, TEXT_BYTES, "; its slot %u has %llu that were not taken", other.slot,
                 (unsigned long long)pending(&other));
}

static __attribute__((cold)) int overdue_notification(const struct tca *session,
                                                      const struct session_slot *awaited,
                                                      int64_t timeout_ns)
{
    const uint32_t rank = awaited->rank, slot = awaited->slot;
    char others[TEXT_BYTES], waited[TIMEOUT_TEXT_BYTES];
    if (timeout_ns == 0)
        return error_static(-ETIMEDOUT, "the notification has not arrived yet");
    session_timeout_text(session, timeout_ns, waited);
    if (pending(awaited) > 0)
        return error_set(-ETIMEDOUT,
                         "rank %u notified slot %u, but its data was not copied %s: "
                         "is its process stopped?",
                         rank, slot, waited);
    describe_other_slots(session, rank, others);
    return error_set(-ETIMEDOUT, "rank %u did not notify slot %u %s; %llu were taken before%s",
                     rank, slot, waited, (unsigned long long)taken_before(awaited), others);
}

/* From any rank. */
static __attribute__((cold)) int overdue_any(const struct tca *session, uint32_t slot,
                                             int64_t timeout_ns)
{
    char waited[TIMEOUT_TEXT_BYTES];
    if (timeout_ns == 0)
        return error_static(-ETIMEDOUT, "the notification has not arrived yet");
    return error_set(-ETIMEDOUT, "none of %u ranks notified slot %u %s", session->sources, slot,
                     session_timeout_text(session, timeout_ns, waited));
}

/* ---- waits ---- */

/* Whether the daemon has sent events that were not read yet. */
static bool has_events(const struct tca *session)
{
    return atomic_load_explicit(&session->segment->events, memory_order_relaxed) !=
           session->events_seen;
}

/* Reads the socket if there are events and, to detect the daemon's end, every SLICE_NS. */
static void check_socket(struct tca *session, uint64_t now_ns)
{
    if (!has_events(session) && now_ns - session->polled_ns < SLICE_NS)
        return;
    session->polled_ns = now_ns;
    session_drain(session);
    if (now_ns - session->reviewed_ns >= SLICE_NS) {
        session->reviewed_ns = now_ns;
        trials_review(session);
    }
}

/* One step of a wait off the fast path. 0: continue waiting, else the result. */
static int check_rest(struct tca *session, const struct wait_spec *spec)
{
    uint64_t now_ns = clock_now_ns();
    check_socket(session, now_ns);
    lanes_drain(session);
    session_progress(session);
    int failure = spec->failed ? spec->failed(session, spec->subject) : 0;
    if (failure < 0 && session->pairs)
        pairs_take(session);
    /* after the check for failure: it may have become ready just before its sender's end */
    int r = spec->ready(session, spec->subject);
    if (r != 0 || failure < 0)
        return r != 0 ? r : failure;
    if (spec->timeout_ns >= 0 && now_ns - session->waiter.started_ns >= (uint64_t)spec->timeout_ns)
        return TIMED_OUT;
    return 0;
}

/* How long it may sleep; 0: there is work now. */
static int64_t arm(struct tca *session)
{
    const bool helped = session->running && session->shm->ops->arm(session->shm) == -EAGAIN;
    int r = session->pairs ? pairs_arm(session) : 0;
    return r == -EAGAIN                                                         ? 0
           : helped || session->plans_held > 0 || session->helpers > 0 || r < 0 ? HELPED_SLICE_NS
                                                                                : SLICE_NS;
}

static int sleep_slice(struct tca *session, const struct wait_spec *spec)
{
    /* chains that run here may wait for completions, too */
    const bool through = spec->notified && !session->running && !session->pairs;
    uint32_t doorbell =
        notify_prepare_sleep_as(session->notify, through ? NOTIFY_SLEEPS_THROUGH : NOTIFY_SLEEPS);
    session->polled_ns = 0; /* read the socket before each sleep */
    int r = check_rest(session, spec);
    if (r == 0 && !notify_will_sleep(session->notify))
        return 0; /* woken, or the checks have made nested waits */
    if (r == 0 && waiter_has_moved(&session->waiter)) {
        notify_cancel_sleep(session->notify);
        return 0;
    }
    int64_t slice_ns = r == 0 ? arm(session) : 0;
    if (slice_ns == 0) {
        notify_cancel_sleep(session->notify);
        return r;
    }
    if (spec->timeout_ns >= 0) {
        int64_t left_ns =
            (int64_t)clock_left(session->waiter.started_ns + (uint64_t)spec->timeout_ns);
        slice_ns = left_ns < slice_ns ? left_ns : slice_ns;
    }
    notify_sleep(session->notify, doorbell, slice_ns); /* in any case the caller checks again */
    return 0;
}

/* Copies long puts, without sleeping or yielding, until nothing is left to copy. */
static __attribute__((noinline)) int continue_copying(struct tca *session, struct wait_spec *spec)
{
    struct waiter *waiter = &session->waiter;
    int r;
    if (waiter->started_ns == 0)
        waiter->started_ns = clock_now_ns();
    do
        r = check_rest(session, spec);
    while (r == 0 && session->copying);
    if (spec->timeout_ns >= 0) {
        int64_t left_ns = (int64_t)clock_left(waiter->started_ns + (uint64_t)spec->timeout_ns);
        spec->timeout_ns = left_ns > 0 ? left_ns : 0;
    }
    waiter_begin(waiter);
    return r;
}

/* rounds: of waiter_step()'s first ones, to be left out. */
static __attribute__((always_inline)) inline int wait_until(struct tca *session,
                                                            struct wait_spec *spec, uint32_t rounds)
{
    waiter_begin(&session->waiter);
    session->waiter.rounds = rounds;
    for (;;) {
        int r = spec->ready(session, spec->subject);
        if (r != 0)
            return r;
        if (__builtin_expect(session->copying, 0) && (r = continue_copying(session, spec)) != 0)
            return r;
        switch (waiter_step(&session->waiter)) {
        case WAITER_AGAIN:
            break;
        case WAITER_CHECK:
            r = check_rest(session, spec);
            break;
        case WAITER_SLEEP:
            r = sleep_slice(session, spec);
            break;
        }
        if (r != 0)
            return r;
    }
}

/* Waits; with a time-out of 0, checks once. */
static __attribute__((always_inline)) inline int wait_for(struct tca *session,
                                                          struct wait_spec *spec, uint32_t rounds)
{
    if (spec->timeout_ns != 0)
        return wait_until(session, spec, rounds);
    session->waiter.started_ns = 0;
    return check_rest(session, spec);
}

/* Waits; with a time-out of 0, checks once. The checks may wait themselves if they leave
 * session->waiter as it was. */
static int session_wait(struct tca *session, struct wait_spec *spec)
{
    return wait_for(session, spec, SLOW_ROUNDS);
}

/* ---- completion of a start ---- */

/* Looking at connections to other nodes can take a system call, many times as long as looking for a
 * notification or a completion: when nothing has come over them for long, it is done rarely. */
static inline bool skips_pairs(struct tca *session)
{
    return session->idle_moves >= IDLE_MOVES && ++session->skipped < IDLE_SKIPS;
}

/* relaxed: a hint */
static inline bool has_pairs(const struct tca *session)
{
    return __builtin_expect(atomic_load_explicit(&session->connected, memory_order_relaxed), 0);
}

static inline int result_of(const struct tca_plan *plan)
{
    if (has_events(plan->session))
        session_drain(plan->session);
    return __builtin_expect(plan->last_status == 0 && !plan->lossy, 1) ? 1 : plan_failure(plan);
}

static int plan_ready(struct tca *session, void *subject)
{
    struct tca_plan *plan = subject;
    if (has_pairs(session) && !session->running && !session->plans_held && skips_pairs(session))
        session_complete(session);
    else
        session_progress(session);
    return plan->state == PLAN_RUNNING ? 0 : result_of(plan);
}

/* The result of a plan that is not running. */
static inline int idle_result(const struct tca_plan *plan)
{
    return __builtin_expect(plan->state == PLAN_IDLE, 1) ? result_of(plan)
                                                         : plan_not_committed(plan);
}

int tca_test(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    if (plan->state == PLAN_RUNNING) {
        if (has_events(session))
            session_drain(session);
        session_progress(session);
    }
    return plan->state == PLAN_RUNNING ? 0 : idle_result(plan);
}

static __attribute__((noinline)) int wait_running(struct tca_plan *plan, int64_t timeout_ns)
{
    struct wait_spec spec = {.ready = plan_ready, .subject = plan};
    int r = session_timeout(plan->session, timeout_ns, &spec.timeout_ns);
    if (r == 0)
        r = wait_for(plan->session, &spec, 0);
    return r == TIMED_OUT ? overdue_plan(plan, timeout_ns) : r;
}

/* A start in the client's seat is often complete before it is waited for. */
int tca_wait(struct tca_plan *plan, int64_t timeout_ns)
{
    int r = plan->state == PLAN_RUNNING ? wait_running(plan, timeout_ns) : idle_result(plan);
    return r < 0 ? r : 0;
}

/* ---- completion of all starts ---- */

static int plans_idle(struct tca *session, void *subject)
{
    session_progress(session);
    for (const struct tca_plan *plan = session->plans; plan; plan = plan->next)
        if (plan->state == PLAN_RUNNING)
            return 0;
    return 1;
}

void plans_drain(struct tca *session, int64_t timeout_ns)
{
    struct wait_spec spec = {.ready = plans_idle, .timeout_ns = timeout_ns};
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next) {
        plan->stopping = true;
        for (uint32_t i = 0; i < plan->client_count; i++)
            chain_hurry(plan->chains[i], -ECANCELED);
    }
    wait_until(session, &spec, 0);
}

/* ---- notifications ---- */

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
        (has_pairs(session) && !skips_pairs(session)))
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
    if (has_events(session))
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
    if (has_events(session))
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

int tca_notified_wait(struct tca *session, uint32_t rank, uint32_t slot, int64_t timeout_ns)
{
    struct session_slot awaited = {0};
    struct wait_spec spec = {
        .ready = take_notification, .failed = rank_failed, .subject = &awaited, .notified = true};
    int r = session_slot_find(session, rank, slot, &awaited);
    if (r < 0 || (r = session_timeout(session, timeout_ns, &spec.timeout_ns)) < 0)
        return r;
    r = wait_for(session, &spec, 0);
    if (__builtin_expect(r < 0, 0))
        return r == TIMED_OUT ? overdue_notification(session, &awaited, timeout_ns) : r;
    return 0;
}

uint64_t tca_notified_count(struct tca *session, uint32_t rank, uint32_t slot)
{
    struct session_slot awaited = {0};
    if (session_slot_find(session, rank, slot, &awaited) < 0)
        return 0;
    if (has_events(session))
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
    struct watch *watch;
    uint32_t rank; /* which has notified */
};

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
    struct awaited_any any = {0};
    struct wait_spec spec = {
        .ready = take_any, .failed = session_failed, .subject = &any, .notified = true};
    int r = session_timeout(session, timeout_ns, &spec.timeout_ns);
    if (r < 0)
        return r;
    if (watches_find(&session->watches, session->notify, slot, &any.watch) < 0)
        return error_static(-ENOMEM, "out of memory");
    r = session_wait(session, &spec);
    if (r < 0)
        return r == TIMED_OUT ? overdue_any(session, slot, timeout_ns) : r;
    *ret_rank = any.rank;
    return 0;
}

/* ---- conditions of the caller ---- */

/* The callbacks may make nested waits, for example for a commit, so the state of this wait is
 * saved. */
static int call_ready(struct tca *session, void *subject)
{
    const struct session_wait *wait = subject;
    const struct waiter own = session->waiter;
    int r = wait->ready(wait->context);
    session->waiter = own;
    return r;
}

static int call_rare(struct tca *session, void *subject)
{
    const struct session_wait *wait = subject;
    const struct waiter own = session->waiter;
    if (wait->rare)
        wait->rare(wait->context);
    session->waiter = own;
    return session->control.lost ? session_drain(session) : 0;
}

int session_wait_until(struct tca *session, const struct session_wait *wait, int64_t timeout_ns)
{
    struct wait_spec spec = {.ready = call_ready, .failed = call_rare, .subject = (void *)wait};
    int r = session_timeout(session, timeout_ns, &spec.timeout_ns);
    if (r == 0)
        r = session_wait(session, &spec);
    return r == TIMED_OUT ? 0 : r;
}

int tca_wait_until(struct tca *session, int (*ready)(void *context), void *context,
                   int64_t timeout_ns)
{
    const struct session_wait wait = {.ready = ready, .context = context};
    int r = session_wait_until(session, &wait, timeout_ns);
    char waited[TIMEOUT_TEXT_BYTES];
    return r == 0 ? error_set(-ETIMEDOUT, "the condition has not become true %s",
                              session_timeout_text(session, timeout_ns, waited))
                  : r;
}

void session_expect_help(struct tca *session, bool begins)
{
    session->helpers += begins ? 1 : -1u;
}

uint64_t session_failures(struct tca *session)
{
    session_progress(session);
    return session->failures;
}
