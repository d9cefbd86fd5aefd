#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "daemon/base/loop.h"
#include "daemon/engine/engine_internal.h"
#include "proto/list.h"

enum {
    POP_BUDGET = 16, /* entries of one channel in one round */
    IDLE_ROUNDS_MAX =
        20000, /* a session that is quiet while others are busy: stop looking at its rings */
};

static bool has_starts(const struct engine_session *session)
{
    return session->running.first || session->waiting.first || session->held;
}

/* ---- the two lists ---- */

static void set_armed(struct engine_session *session, bool armed)
{
    atomic_store_explicit(&session->segment->engine_armed, armed, memory_order_relaxed);
    /* The engine needs wake-ups for notifications only while a plan may wait for them: otherwise
     * they would be a cost for the sender and the engine. */
    atomic_store_explicit(&session->notify->engine_armed, armed && has_starts(session),
                          memory_order_relaxed);
    session->armed = armed;
}

void engine_session_wake(struct engine_session *session)
{
    session->idle_rounds = 0;
    if (!session->armed)
        return;
    set_armed(session, false);
    if (session->parked) {
        session->parked = session->dormant = false;
        LIST_REMOVE(session, next, link);
        LIST_ADD(&session->engine->active, session, next, link);
    }
}

static bool something_there(struct engine_session *session)
{
    if (session->broken)
        return false;
    for (int i = 0; i < CHANNELS; i++)
        if (!session->on_channel[i] && ring_readable(&session->submit[i]))
            return true;
    return false;
}

/* A plan that waits for a notification may be released by a process that stores the counter
 * itself. */
static bool any_ready(const struct engine_session *session)
{
    return has_starts(session) && (session->ready || engine_session_marked(session));
}

bool engine_session_arm(struct engine_session *session)
{
    set_armed(session, true);
    /* Our stores before the second look, as the client's tail before its look at engine_armed:
     * segment.h */
    atomic_thread_fence(memory_order_seq_cst);
    if (something_there(session) || any_ready(session)) {
        set_armed(session, false);
        return false;
    }
    /* With plans under way it stays where a driver's event leads to a look at them. */
    if (!has_starts(session)) {
        session->parked = true;
        LIST_REMOVE(session, next, link);
        LIST_ADD(&session->engine->parked, session, next, link);
    }
    return true;
}

/* ---- a round ---- */

static void broken_on_loop(void *context)
{
    struct engine_session *session = context;
    const struct engine_events *events = &session->engine->events;
    events->session_broken(events->context, session->id, session->broken_why);
}

/* The first time counts. */
void engine_session_break(struct engine_session *session, const char *why)
{
    session->broken = true;
    if (session->broken_why)
        return;
    session->broken_why = why;
    loop_post_own(session->engine->loop, &session->broken_post, broken_on_loop, session);
}

static void take_other(struct engine_session *session, const struct submit_entry *entry)
{
    if (entry->plan & SUBMIT_STOP)
        engine_repeat_stop(session, entry);
    else if (entry->plan & SUBMIT_CANCEL)
        engine_plan_cancel(session, entry);
    else
        engine_parts_start(session, entry);
}

/* budget: entries of one channel */
static unsigned take_starts(struct engine_session *session, unsigned budget)
{
    unsigned work = 0;
    for (int channel = 0; channel < CHANNELS && session->engine->losses == 0; channel++) {
        for (unsigned i = 0; i < budget && !session->on_channel[channel]; i++) {
            struct submit_entry entry;
            int r = ring_pop(&session->submit[channel], &entry);
            if (r == 0)
                break;
            if (r < 0) {
                engine_session_break(session, "impossible index in a submission ring");
                return work;
            }
            if (__builtin_expect(entry.plan < SUBMIT_PARTS, 1))
                engine_plan_start(session, &entry);
            else
                take_other(session, &entry);
            work++;
            if (session->broken) {
                engine_session_break(
                    session, "completion ring overrun: more starts in flight than it has entries");
                return work;
            }
        }
    }
    return work;
}

static unsigned take(struct engine_session *session, unsigned budget)
{
    return session->broken || session->detaching ? 0 : take_starts(session, budget);
}

void engine_session_take_all(struct engine_session *session)
{
    take(session, SUBMIT_ENTRIES);
}

/* Also those that others wake meanwhile. */
static unsigned run_plans(struct engine_session *session)
{
    struct engine_plan *plan;
    if (session->held)
        engine_plans_go_on(session);
    engine_session_take_marks(session);
    unsigned work = session->ready;
    session->ready = false;
    for (session->turn = session->running.first; (plan = session->turn);) {
        session->turn = plan->next;
        work += engine_plan_run(plan); /* it may be freed from now on */
    }
    return work + session->ready;
}

unsigned engine_session_poll(struct engine_session *session)
{
    const bool was_broken = session->broken;
    unsigned work = has_starts(session) ? run_plans(session) : 0;
    if (session->broken && !was_broken)
        engine_session_break(session,
                             "completion ring overrun: more starts in flight than it has entries");
    work += take(session, POP_BUDGET);
    if (work)
        session->idle_rounds = 0;
    else if (!has_starts(session) && !session->detaching &&
             ++session->idle_rounds > IDLE_ROUNDS_MAX && engine_session_arm(session))
        session->dormant = session->parked;
    return work;
}

/* ---- life ---- */

static void attach_work(struct engine *engine, void *context)
{
    struct engine_session *session = context;
    /* Edge triggered, and never read: the client shares the file, could make it a blocking one, and
     * then a read would wait for the client. Every write to an eventfd is an edge. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = session};
    if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, session->wake_fd, &event) < 0)
        session->broken = true; /* out of kernel memory: the client could not wake the engine */
    LIST_ADD(&engine->active, session, next, link);
    if (session->broken)
        engine_session_break(session, "no kernel memory to watch its eventfd");
}

int engine_session_new(struct engine *engine, const struct engine_session_args *args,
                       struct engine_session **ret_session)
{
    struct engine_session *session = calloc(1, sizeof(*session));
    if (!session)
        return -ENOMEM;
    session->engine = engine;
    session->id = args->id;
    session->segment = args->segment;
    session->notify = args->notify;
    session->wake_fd = args->wake_fd;
    session->plans = calloc(PLANS_PER_SESSION_MAX, sizeof(*session->plans));
    if (!session->plans) {
        free(session);
        return -ENOMEM;
    }
    for (int i = 0; i < CHANNELS; i++)
        ring_init(&session->submit[i], &args->segment->submit[i], args->segment->submit_entries[i],
                  sizeof(struct submit_entry), SUBMIT_ENTRIES);
    ring_init(&session->complete, &args->segment->complete, args->segment->complete_entries,
              sizeof(struct complete_entry), COMPLETE_ENTRIES);
    engine->session_count++;
    engine_call(engine, &session->attach_call, attach_work, NULL, session);
    *ret_session = session;
    return 0;
}

struct engine *engine_of_session(const struct engine_session *session)
{
    return session->engine;
}

uint32_t engine_session_count(const struct engine *engine)
{
    return engine->session_count;
}

static void detached_on_loop(void *context)
{
    struct engine_session *session = context;
    void (*done)(void *context) = session->detached;
    void *done_context = session->detached_context;
    session->engine->session_count--;
    table_deinit(&session->flows);
    free(session->plans);
    free(session->lines);
    free(session);
    done(done_context);
}

bool engine_session_detach_step(struct engine_session *session)
{
    run_plans(session);
    if (has_starts(session))
        return false;
    epoll_ctl(session->engine->epoll_fd, EPOLL_CTL_DEL, session->wake_fd, NULL);
    engine_wake_others(session->engine); /* it may have been rung for them just before */
    LIST_REMOVE(session, next, link);
    loop_post_own(session->engine->loop, &session->detached_post, detached_on_loop, session);
    return true;
}

static void detach_work(struct engine *engine, void *context)
{
    struct engine_session *session = context;
    session->detaching = true;
    engine_session_wake(session);
}

void engine_session_detach(struct engine_session *session, void (*done)(void *context),
                           void *context)
{
    session->detached = done;
    session->detached_context = context;
    engine_call(session->engine, &session->detach_call, detach_work, NULL, session);
}

/* ---- the session closes ---- */

static void hurry_work(struct engine *engine, void *context)
{
    struct engine_session *session = context;
    for (uint32_t i = 0; i < PLANS_PER_SESSION_MAX; i++) {
        struct engine_plan *plan = session->plans[i];
        for (uint32_t k = 0; plan && k < plan->chain_count; k++)
            if (plan->chains[k]) /* else the plan is broken, and its chains are freed */
                chain_hurry(plan->chains[k], session->hurry);
        if (!plan)
            continue;
        plan->stopping = true;
        engine_plan_wake(plan);
    }
    engine_session_wake(session);
}

void engine_session_hurry(struct engine_session *session, int error)
{
    if (session->hurry)
        return;
    session->hurry = error;
    engine_call(session->engine, &session->hurry_call, hurry_work, NULL, session);
}
