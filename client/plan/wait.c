/* Waiting for starts, and for conditions of the caller. A wait also advances all running starts of
 * the session; waits for notifications: notified.c. */
#include <errno.h>
#include <stdio.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/hang.h"
#include "client/core/session.h"
#include "client/core/wait.h"
#include "client/memory/lane.h"
#include "client/plan/overdue.h"
#include "client/plan/pair.h"
#include "client/plan/plan.h"
#include "client/plan/trial.h"
#include "client/plan/waits.h"
#include "proto/notify.h"

enum {
    SLICE_NS = 100 * 1000 * 1000, /* longest sleep without a wake-up */
    HELPED_SLICE_NS = 100 * 1000, /* the same while a receiver copies, which does not wake us */
};

/* ---- why a start has failed ---- */

enum { TEXT_BYTES = 160 };

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

/* ---- waits ---- */

/* Reads the socket if there are events and, to detect the daemon's end, every SLICE_NS. */
static void check_socket(struct tca *session, uint64_t now_ns)
{
    if (!session_has_events(session) && now_ns - session->polled_ns < SLICE_NS)
        return;
    session->polled_ns = now_ns;
    session_drain(session);
    if (now_ns - session->reviewed_ns >= SLICE_NS) {
        session->reviewed_ns = now_ns;
        trials_review(session);
    }
}

/* Once for each wait, but not for a poll, which has no beginning. */
static __attribute__((cold)) void tell_hang(const struct tca *session, struct wait_spec *spec,
                                            uint64_t waited_ns)
{
    if (spec->told || spec->timeout_ns == 0 || !spec->overdue)
        return;
    spec->told = true;
    hang_report(session, waited_ns, spec->overdue, spec->subject);
}

int session_check(struct tca *session, struct wait_spec *spec)
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
    const uint64_t waited_ns = now_ns - session->waiter.started_ns;
    if (__builtin_expect(waited_ns >= session->settings.hang_ns, 0))
        tell_hang(session, spec, waited_ns);
    return spec->timeout_ns >= 0 && waited_ns >= (uint64_t)spec->timeout_ns ? TIMED_OUT : 0;
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

int session_sleep(struct tca *session, struct wait_spec *spec)
{
    /* chains that run here may wait for completions, too */
    const bool through = spec->notified && !session->running && !session->pairs;
    uint32_t doorbell =
        notify_prepare_sleep_as(session->notify, through ? NOTIFY_SLEEPS_THROUGH : NOTIFY_SLEEPS);
    session->polled_ns = 0; /* read the socket before each sleep */
    int r = session_check(session, spec);
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

int session_copy(struct tca *session, struct wait_spec *spec)
{
    struct waiter *waiter = &session->waiter;
    int r;
    if (waiter->started_ns == 0)
        waiter->started_ns = clock_now_ns();
    do
        r = session_check(session, spec);
    while (r == 0 && session->copying);
    if (spec->timeout_ns >= 0) {
        int64_t left_ns = (int64_t)clock_left(waiter->started_ns + (uint64_t)spec->timeout_ns);
        spec->timeout_ns = left_ns > 0 ? left_ns : 0;
    }
    waiter_begin(waiter);
    return r;
}

/* ---- completion of a start ---- */

static inline int result_of(const struct tca_plan *plan)
{
    if (session_has_events(plan->session))
        session_drain(plan->session);
    return __builtin_expect(plan->last_status == 0 && !plan->lossy, 1) ? 1 : plan_failure(plan);
}

static int plan_ready(struct tca *session, void *subject)
{
    struct tca_plan *plan = subject;
    if (session_has_pairs(session) && !session->running && !session->plans_held &&
        session_skips_pairs(session))
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
        if (session_has_events(session))
            session_drain(session);
        session_progress(session);
    }
    return plan->state == PLAN_RUNNING ? 0 : idle_result(plan);
}

static int plan_overdue(const void *subject, int64_t timeout_ns)
{
    return overdue_plan(subject, timeout_ns);
}

static __attribute__((noinline)) int wait_running(struct tca_plan *plan, int64_t timeout_ns)
{
    struct wait_spec spec = {.ready = plan_ready, .subject = plan, .overdue = plan_overdue};
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

static int call_overdue(const void *subject, int64_t timeout_ns)
{
    const struct session_wait *wait = subject;
    return wait->overdue(wait->context, timeout_ns);
}

int session_wait_until(struct tca *session, const struct session_wait *wait, int64_t timeout_ns)
{
    struct wait_spec spec = {.ready = call_ready,
                             .failed = call_rare,
                             .subject = (void *)wait,
                             .overdue = wait->overdue ? call_overdue : NULL};
    int r = session_timeout(session, timeout_ns, &spec.timeout_ns);
    if (r == 0)
        r = wait_for(session, &spec, SLOW_ROUNDS);
    if (r != TIMED_OUT)
        return r;
    return wait->overdue ? wait->overdue(wait->context, timeout_ns) : 0;
}

/* The program's condition. */
struct condition {
    const struct tca *session;
    int (*ready)(void *context);
    void *context;
};

static int call_condition(void *context)
{
    const struct condition *condition = context;
    return condition->ready(condition->context);
}

static int condition_overdue(const void *context, int64_t timeout_ns)
{
    const struct condition *condition = context;
    char waited[TIMEOUT_TEXT_BYTES];
    return error_set(-ETIMEDOUT, "the condition has not become true %s",
                     session_timeout_text(condition->session, timeout_ns, waited));
}

int tca_wait_until(struct tca *session, int (*ready)(void *context), void *context,
                   int64_t timeout_ns)
{
    struct condition condition = {session, ready, context};
    const struct session_wait wait = {
        .ready = call_condition, .overdue = condition_overdue, .context = &condition};
    return session_wait_until(session, &wait, timeout_ns);
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
