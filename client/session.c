#include "client/core/session.h"
#include "client/memory/alloc.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/hang.h"
#include "client/core/hello.h"
#include "client/core/process.h"
#include "client/core/segment.h"
#include "client/core/slots.h"
#include "client/core/subgroup.h"
#include "client/core/timeout.h"
#include "client/core/wait.h"
#include "client/forks.h"
#include "client/memory/lane.h"
#include "client/plan/pair.h"
#include "client/plan/plan.h"
#include "client/plan/progress.h"
#include "client/plan/trial.h"
#include "proto/dcfa.h"

enum {
    /* for the daemon, which knows the time-out, to report it with a more precise error */
    GRACE_NS = 1000 * 1000 * 1000,
    LINES_FIRST = 64, /* whose pages are allocated at once */
};

/* ---- time-outs and requests ---- */

uint64_t session_limit_begin(struct tca *session)
{
    const uint64_t outer_ns = session->limit_ns;
    session->limit_ns = session_end(session);
    return outer_ns;
}

void session_limit_end(struct tca *session, uint64_t outer_ns)
{
    session->limit_ns = outer_ns;
}

uint64_t session_end(const struct tca *session)
{
    return session->limit_ns ? session->limit_ns : clock_end(session->settings.timeout_ns);
}

static int64_t left_of(uint64_t end_ns)
{
    return end_ns == END_NEVER ? TCA_FOREVER : (int64_t)clock_left(end_ns);
}

int session_timeout(const struct tca *session, int64_t timeout_ns, int64_t *ret_timeout_ns)
{
    if (timeout_ns == TCA_DEFAULT)
        timeout_ns = session->limit_ns ? left_of(session->limit_ns) : session->settings.timeout_ns;
    if (timeout_ns < TCA_FOREVER)
        return error_set(-EINVAL,
                         "time-out %lld ns: it must be 0 or more, TCA_FOREVER or TCA_DEFAULT",
                         (long long)timeout_ns);
    *ret_timeout_ns = timeout_ns;
    return 0;
}

const char *session_timeout_text(const struct tca *session, int64_t timeout_ns,
                                 char text[TIMEOUT_TEXT_BYTES])
{
    if (timeout_ns == TCA_DEFAULT)
        snprintf(text, TIMEOUT_TEXT_BYTES, "within %.3g s (TCA_TIMEOUT)",
                 (double)session->settings.timeout_ns / 1e9);
    else if (timeout_ns == 0)
        snprintf(text, TIMEOUT_TEXT_BYTES, "yet");
    else
        snprintf(text, TIMEOUT_TEXT_BYTES, "within %.3g s", (double)timeout_ns / 1e9);
    return text;
}

uint64_t session_wire_timeout(int64_t timeout_ns)
{
    const uint64_t forever_ns = 365ull * 86400 * 1000000000;
    return timeout_ns < 0 || (uint64_t)timeout_ns > forever_ns ? forever_ns : (uint64_t)timeout_ns;
}

/* The daemon does not count late replies as events. As long as one is owed, pretends that there are
 * events, so that the socket is read; likewise while events may be held for replies that have come,
 * and for a session that has lost events, so that every call reports it. */
static void expect_owed(struct tca *session)
{
    if (session->control.owed > 0 || session->control.arrived > 0 || session->events_lost)
        session->events_seen =
            atomic_load_explicit(&session->segment->events, memory_order_relaxed) - 1;
}

static int request_until(struct tca *session, const Tca__Message *request, int fd,
                         Tca__Message__BodyCase expected, uint64_t end_ns, struct reply *ret_reply)
{
    struct control *control = &session->control;
    standby_enter(session->standby); /* this thread reads the socket now */
    int r = control_request_fd(control, request, fd, expected, end_ns, ret_reply);
    /* a plan that is being released still has its place, its memory and the sources of its puts */
    if ((r == -EDQUOT || r == -EBUSY) && control->posted > 0 &&
        control_await_replies(control, 0, end_ns))
        r = control_request_fd(control, request, fd, expected, end_ns, ret_reply);
    if (r == -EDQUOT && session->keeper && session->keeper->spare(session->keeper) &&
        control_await_replies(control, 0, end_ns))
        r = control_request_fd(control, request, fd, expected, end_ns, ret_reply);
    expect_owed(session);
    standby_leave(session->standby);
    return r;
}

int session_request(struct tca *session, const Tca__Message *request,
                    Tca__Message__BodyCase expected, struct reply *ret_reply)
{
    return session_request_fd(session, request, -1, expected, ret_reply);
}

int session_request_fd(struct tca *session, const Tca__Message *request, int fd,
                       Tca__Message__BodyCase expected, struct reply *ret_reply)
{
    /* other waits of the call may have used up its time: tcad is not to blame */
    const uint64_t end_ns = session_end(session);
    return request_until(session, request, fd, expected,
                         session->limit_ns && end_ns != END_NEVER ? end_ns + GRACE_NS : end_ns,
                         ret_reply);
}

static uint64_t with_grace(uint64_t end_ns)
{
    return end_ns == END_NEVER ? end_ns : end_ns + GRACE_NS;
}

int session_request_timed(struct tca *session, const Tca__Message *request,
                          Tca__Message__BodyCase expected, int64_t timeout_ns,
                          struct reply *ret_reply)
{
    return request_until(session, request, -1, expected, with_grace(clock_end(timeout_ns)),
                         ret_reply);
}

int session_ask(struct tca *session, const Tca__Message *request, uint64_t end_ns,
                struct control_asked *asked)
{
    standby_enter(session->standby);
    const int r = control_ask(&session->control, request, -1, with_grace(end_ns), asked);
    standby_leave(session->standby);
    return r;
}

int session_reply(struct tca *session, struct control_asked *asked, const Tca__Message *request,
                  Tca__Message__BodyCase expected, uint64_t end_ns, struct reply *ret_reply)
{
    standby_enter(session->standby);
    const int r =
        control_take(&session->control, asked, request, expected, with_grace(end_ns), ret_reply);
    expect_owed(session);
    standby_leave(session->standby);
    return r;
}

/* ---- events and late replies ---- */

int session_drain(struct tca *session)
{
    /* read first, so that events sent during the drain are noticed. acquire: pairs with the
     * daemon's increment after its send */
    uint32_t events = atomic_load_explicit(&session->segment->events, memory_order_acquire);
    standby_enter(session->standby);
    int r = control_drain(&session->control);
    standby_leave(session->standby);
    session->events_seen = events;
    expect_owed(session);
    return r;
}

void session_lose(struct tca *session, int error)
{
    const bool invalid = error == -EPROTO || error == -EEXIST || error == -EINVAL;
    session->events_lost = true;
    control_lose(&session->control, invalid ? -EPROTO : -ENOMEM);
}

/* Gives back what a late reply grants. */
static void late(void *context, const Tca__Message *message, struct frame *frame)
{
    struct tca *session = context;
    Tca__RegionFree region_free = TCA__REGION_FREE__INIT;
    Tca__PlanRelease plan_release = TCA__PLAN_RELEASE__INIT;
    Tca__DcfaRelease dcfa_release = TCA__DCFA_RELEASE__INIT;
    const Tca__Message free_region = REQUEST(REGION_FREE, region_free, &region_free),
                       release_plan = REQUEST(PLAN_RELEASE, plan_release, &plan_release),
                       release_dcfa = REQUEST(DCFA_RELEASE, dcfa_release, &dcfa_release);
    switch (message->body_case) {
    case TCA__MESSAGE__BODY_REGION_GRANTED:
        region_free.region = message->region_granted->region;
        control_send(&session->control, &free_region);
        break;
    case TCA__MESSAGE__BODY_PLAN_COMMITTED:
        mapping_adopt(session, message->plan_committed, frame); /* the daemon sends them once */
        plan_release.plan = message->plan_committed->plan;
        control_send(&session->control, &release_plan);
        break;
    case TCA__MESSAGE__BODY_DCFA_CREATED:
        dcfa_release.kind = message->dcfa_created->kind;
        dcfa_release.id = message->dcfa_created->id;
        control_send(&session->control, &release_dcfa);
        break;
    case TCA__MESSAGE__BODY_DCFA_OPENED:
        dcfa_release.kind = DCFA_PROCESSOR;
        control_send(&session->control, &release_dcfa);
        break;
    default:
        break;
    }
}

/* The daemon has ended: breaks all plans; completions already reported still count. */
static void lost(void *context, int error)
{
    struct tca *session = context;
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next)
        plan_break(plan, error, "its tcad has ended");
    pairs_lose(session, error);
}

static const struct control_ops session_control_ops = {
    .event = session_event, .late = late, .await = session_await, .lost = lost};

/* ---- the shm driver ---- */

/* Driver event: a client-seat put with a notification was copied. */
static void notified(void *context, uint64_t token)
{
    session_raise(context, (const struct notify_target *)(uintptr_t)token);
}

static int open_driver(struct tca *session)
{
    const struct driver_ops *ops = driver_of_id(DRIVER_SHM);
    const struct driver_config config = {.segment_bytes = 0}; /* a put is copied at once */
    const struct driver_events events = {.notified = notified, .context = session};
    int r = ops ? ops->open(&config, &events, &session->shm) : -ENODEV;
    return r < 0 ? error_set(r, "cannot open the shm driver: %s", tca_strerror(r)) : 0;
}

/* ---- opening ---- */

/* What a session with few slots uses. */
static int populate_notify(struct notify_segment *notify, uint32_t ranks)
{
    int r = segment_populate(notify, offsetof(struct notify_segment, source_state) + ranks);
    if (r == 0)
        r = segment_populate(notify->lines, LINES_FIRST * sizeof(struct notify_line));
    if (r == 0)
        r = segment_populate(notify_taken_at(notify, 0), LINES_FIRST * sizeof(uint64_t));
    return r < 0 ? r
                 : segment_populate(notify_table(notify, NOTIFY_TABLE_BITS_MIN),
                                    sizeof(struct notify_place) << NOTIFY_TABLE_BITS_MIN);
}

static int map_segments(struct tca *session, const Tca__Welcome *welcome, struct frame *frame)
{
    void *segment, *notify;
    if (frame->fd_count != 3 || welcome->session_segment_bytes < sizeof(struct session_segment) ||
        welcome->notify_segment_bytes < NOTIFY_SEGMENT_BYTES)
        return error_set(-EPROTO, "tcad sent %zu descriptors and segments of %llu and %llu bytes",
                         frame->fd_count, (unsigned long long)welcome->session_segment_bytes,
                         (unsigned long long)welcome->notify_segment_bytes);
    int r = segment_map(frame->fds[0], 0, sizeof(struct session_segment), "the session segment",
                        &segment);
    if (r < 0)
        return r;
    session->segment = segment;
    r = segment_map(frame->fds[1], 0, NOTIFY_SEGMENT_BYTES, "the notification segment", &notify);
    if (r < 0)
        return r;
    session->notify = notify;
    session->engine_fd = frame->fds[2];
    frame->fds[2] = -1;
    if (session->segment->magic != SEGMENT_MAGIC || session->segment->version != PROTO_VERSION)
        return error_set(-EPROTO,
                         "tcad sent a session segment of version %u; this library knows %d",
                         session->segment->version, PROTO_VERSION);
    if ((r = segment_populate(segment, sizeof(struct session_segment))) < 0)
        return r;
    return populate_notify(notify, session->identity.size);
}

static void init_rings(struct tca *session)
{
    struct session_segment *segment = session->segment;
    for (uint32_t i = 0; i < CHANNELS; i++)
        ring_init(&session->submit[i], &segment->submit[i], segment->submit_entries[i],
                  sizeof(struct submit_entry), SUBMIT_ENTRIES);
    ring_init(&session->complete, &segment->complete, segment->complete_entries,
              sizeof(struct complete_entry), COMPLETE_ENTRIES);
}

static int greet(struct tca *session, const char *name, uint64_t end_ns)
{
    struct reply reply;
    int r = hello_ask(&session->control, name, session->identity.size, end_ns, &reply);
    if (r < 0)
        return r;
    const Tca__Welcome *welcome = reply.message->welcome;
    session->sources = session->identity.size;
    session->id = welcome->session;
    session->node = welcome->node;
    session->node_name = strdup(welcome->node_name);
    r = session->node_name ? map_segments(session, welcome, reply.frame)
                           : error_static(-ENOMEM, "out of memory");
    if (r == 0)
        r = rails_take(&session->rails, welcome);
    if (r == 0)
        r = rails_check(&session->rails, session->settings.rail);
    reply_free(&reply);
    if (r < 0)
        return r;
    init_rings(session);
    return mapping_insert_own_segment(session);
}

static int open_all(struct tca *session, const struct tca_open_args *args)
{
    int r = environment_settings(&session->settings);
    if (r < 0 || (r = identity_find(args, &session->identity)) < 0)
        return r;
    hang_set_limit(session->settings.hang_ns);
    if (args->timeout_ns < TCA_DEFAULT)
        return error_set(-EINVAL,
                         "time-out %lld ns: it must be more than 0, 0 for TCA_TIMEOUT, TCA_FOREVER "
                         "or TCA_DEFAULT",
                         (long long)args->timeout_ns);
    if (args->timeout_ns != 0 && args->timeout_ns != TCA_DEFAULT)
        session->settings.timeout_ns = args->timeout_ns;
    if (session->identity.rank == 0) /* the others most likely have the same */
        environment_warn();
    waiter_init(&session->waiter, session->settings.spin_ns, session->settings.yield_ns);

    uint64_t end_ns = clock_end(session->settings.timeout_ns);
    if ((r = control_open(&session->control, args->socket, end_ns, &session_control_ops, session)) <
            0 ||
        (r = greet(session, args->name, end_ns)) < 0 || (r = open_driver(session)) < 0)
        return r;
    pairs_tell_rails(session);
    if (session->identity.size > 1 || session->identity.group[0])
        r = group_join(session, left_of(end_ns));
    if (r == 0 && pairs_possible(session))
        r = pairs_expect(session) < 0 ? error_static(-ENOMEM, "out of memory") : 0;
    if (r == 0 && session->pairs)
        pairs_stand_by(session);
    return r;
}

int tca_open(const struct tca_open_args *args, struct tca **ret_session)
{
    static const struct tca_open_args nothing;
    /* keeps its rings and its waiter on cache lines of their own */
    struct tca *session =
        aligned_alloc(LINE_BYTES, (sizeof(*session) + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
    if (!session)
        return error_static(-ENOMEM, "out of memory");
    memset(session, 0, sizeof(*session));
    session->engine_fd = session->control.fd = -1;
    session->forget_region = pairs_forget_region;
    session->trial_effects = &trial_effects;
    forks_handle();
    int r = open_all(session, args ? args : &nothing);
    if (r < 0) {
        tca_close(session);
        return r;
    }
    *ret_session = session;
    return 0;
}

/* Waits until the data of all starts has arrived, including what its receivers copy. */
static void drain_starts(struct tca *session)
{
    const uint64_t end_ns = session_end(session);
    Tca__SessionClose body = TCA__SESSION_CLOSE__INIT;
    const Tca__Message message = REQUEST(SESSION_CLOSE, session_close, &body);
    if (session->plans) {
        control_send(&session->control, &message);
        plans_drain(session, left_of(end_ns));
    }
    process_drain_all(session, end_ns);
    pairs_drain(session, NULL, end_ns);
}

struct tca *tca_close(struct tca *session)
{
    if (!session)
        return NULL;
    if (session->keeper)
        session->keeper->drop(session->keeper, NULL);
    /* shutdown() works even if a forked child has the socket open. A child that closes its parent's
     * session must neither end it nor touch its lanes. */
    if (session->control.fd >= 0 && !control_is_inherited(&session->control)) {
        drain_starts(session);
        shutdown(session->control.fd, SHUT_RDWR);
    }
    while (session->plans)
        plan_destroy(session->plans);
    trials_keep(session);
    slots_end(session);
    watches_end(&session->watches);
    pairs_clear(session);
    process_clear(session);
    lanes_clear(session);
    heap_clear(session);
    region_clear(session);
    mapping_clear(session);
    if (session->shm)
        session->shm->ops->close(session->shm);
    if (session->notify)
        munmap(session->notify, NOTIFY_SEGMENT_BYTES);
    if (session->segment)
        munmap(session->segment, sizeof(struct session_segment));
    if (session->engine_fd >= 0)
        close(session->engine_fd);
    control_close(&session->control);
    targets_deinit(&session->targets);
    free(session->node_name);
    group_forget_members(session);
    groups_end(session);
    free(session);
    return NULL;
}

int tca_event_fd(const struct tca *session)
{
    struct tca *polled = (struct tca *)session;
    standby_enter(polled->standby);
    polled->polled =
        true; /* nobody else takes events from it any more; those taken are dispatched */
    session_drain(polled);
    standby_leave(polled->standby);
    return session->control.fd;
}

int tca_dispatch(struct tca *session)
{
    int r = session_drain(session);
    session_progress(session);
    return r;
}

/* ---- properties ---- */

struct session_keeper **session_keeper(struct tca *session)
{
    return &session->keeper;
}

struct tca_msg **session_messengers(struct tca *session)
{
    return &session->messengers;
}
