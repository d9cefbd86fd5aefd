/* Bounces, on the engine's thread: requests to a process to copy between its attached memory and
 * the staging memory, before data is put and after it has arrived (proto/segment.h). Notifications
 * of a session keep the order in which its data has arrived. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/engine/engine_internal.h"
#include "proto/notify.h"

struct landed {
    struct engine_landing *landing;
    uint64_t count; /* of its notifications */
};

struct engine_bounces {
    struct engine_call begin_call;
    struct engine_session *session;
    struct ring rings[BOUNCE_WAYS];
    uint32_t done[BOUNCE_WAYS]; /* entries known to be complete; those from here to the ring's tail
                                   are in progress: */
    struct engine_fetch *fetching[BOUNCE_ENTRIES];
    struct landed landing[BOUNCE_ENTRIES];
    /* waiting for room in the rings */
    struct engine_fetch *fetches, **fetches_last;
    struct engine_landing *first, *last;
    bool ended;   /* the process has ended */
    bool dropped; /* before it had copied all arrived data */
};

static uint32_t in_flight(const struct engine_bounces *bounces, enum bounce_way way)
{
    return bounces->rings[way].mine - bounces->done[way];
}

/* ---- requests to the process ---- */

static void append(struct engine_bounces *bounces, struct engine_landing *landing)
{
    landing->next = NULL;
    landing->previous = bounces->last;
    *(bounces->last ? &bounces->last->next : &bounces->first) = landing;
    bounces->last = landing;
}

static void leave(struct engine_bounces *bounces, struct engine_landing *landing)
{
    *(landing->previous ? &landing->previous->next : &bounces->first) = landing->next;
    *(landing->next ? &landing->next->previous : &bounces->last) = landing->previous;
}

static int hand_over_fetches(struct engine_bounces *bounces)
{
    struct ring *ring = &bounces->rings[BOUNCE_OUT];
    int r = 0;
    for (struct engine_fetch *fetch; (fetch = bounces->fetches);) {
        const uint32_t at = ring->mine % BOUNCE_ENTRIES;
        if (in_flight(bounces, BOUNCE_OUT) == BOUNCE_ENTRIES ||
            (r = ring_push(ring, &fetch->bounce)) < 0)
            break;
        bounces->fetching[at] = fetch;
        bounces->fetches = fetch->next;
        if (!bounces->fetches)
            bounces->fetches_last = &bounces->fetches;
    }
    return r;
}

static int hand_over_landings(struct engine_bounces *bounces)
{
    struct ring *ring = &bounces->rings[BOUNCE_IN];
    int r = 0;
    for (struct engine_landing *landing; (landing = bounces->first);) {
        const uint32_t at = ring->mine % BOUNCE_ENTRIES;
        if (in_flight(bounces, BOUNCE_IN) == BOUNCE_ENTRIES ||
            (r = ring_push(ring, &landing->bounce)) < 0)
            break;
        leave(bounces, landing);
        bounces->landing[at] = (struct landed){landing, landing->waiting};
        landing->waiting = 0;
        landing->in_flight++;
    }
    return r;
}

static const char overwritten[] = "impossible index in a bounce ring";

static void hand_over(struct engine_session *session)
{
    struct engine_bounces *bounces = session->bounces;
    const uint32_t before = bounces->rings[BOUNCE_OUT].mine + bounces->rings[BOUNCE_IN].mine;
    if (session->broken)
        return;
    int out = hand_over_fetches(bounces), in = hand_over_landings(bounces);
    if (out == -EPROTO || in == -EPROTO)
        engine_session_break(session, overwritten);
    if (bounces->rings[BOUNCE_OUT].mine + bounces->rings[BOUNCE_IN].mine == before)
        return;
    /* release: the entries before the bell; pairs with the client's acquire before it looks at the
     * rings */
    atomic_fetch_add_explicit(&session->segment->bounce_bell, 1, memory_order_release);
    futex_wake_all(&session->segment->bounce_bell);
}

/* ---- requests that the process has completed ---- */

static void raise_notification(struct engine_landing *landing, uint64_t count)
{
    if (!landing->line)
        return;
    notify_raise_routed(landing->line, count, clock_now_ns());
    notify_wake(landing->segment);
}

static void post_quiet(struct engine_landing *landing)
{
    loop_post_own(landing->loop, &landing->quiet_post, landing->quiet, landing->quiet_context);
}

/* release: pairs with engine_raises_wait() */
static void count_landed(const struct engine_bounces *bounces, int change)
{
    _Atomic uint64_t *landed = &bounces->session->engine->landed;
    atomic_store_explicit(landed,
                          atomic_load_explicit(landed, memory_order_relaxed) + (uint64_t)change,
                          memory_order_release);
}

static void finish_fetch(struct engine_fetch *fetch, int status)
{
    struct driver_op *op = fetch->op;
    fetch->op = NULL;
    op->done(op, status);
}

static void drop(struct engine_bounces *bounces, struct engine_landing *landing)
{
    bounces->dropped = landing->dropped = true;
}

static void finish_landing(struct engine_bounces *bounces, const struct landed *landed, bool good)
{
    struct engine_landing *landing = landed->landing;
    landing->in_flight--;
    count_landed(bounces, -1);
    if (good)
        raise_notification(landing, landed->count);
    else
        drop(bounces, landing);
    if (landing->quiet && landing->in_flight == 0 && landing->waiting == 0)
        post_quiet(landing);
}

/* Finishes all requests in flight but the last `left`. */
static unsigned finish(struct engine_bounces *bounces, enum bounce_way way, uint32_t left,
                       int status)
{
    unsigned count = 0;
    for (; in_flight(bounces, way) > left; count++) {
        const uint32_t at = bounces->done[way]++ % BOUNCE_ENTRIES;
        if (way == BOUNCE_OUT)
            finish_fetch(bounces->fetching[at], status);
        else
            finish_landing(bounces, &bounces->landing[at], status == 0);
    }
    return count;
}

unsigned engine_bounces_poll(struct engine_session *session)
{
    struct engine_bounces *bounces = session->bounces;
    unsigned work = 0;
    for (int way = 0; way < BOUNCE_WAYS && !bounces->ended; way++) {
        if (in_flight(bounces, way) == 0)
            continue;
        int left = ring_left(&bounces->rings[way]);
        if (left < 0 ||
            (uint32_t)left > in_flight(bounces, way)) { /* the process has moved its index back */
            engine_session_break(session, overwritten);
            return work;
        }
        work += finish(bounces, way, (uint32_t)left, 0);
    }
    if (work)
        hand_over(session);
    return work;
}

/* ---- fetches and arrived data ---- */

int engine_fetch_post(void *context, struct driver_op *op)
{
    struct engine_fetch *fetch = context;
    struct engine_bounces *bounces = fetch->session->bounces;
    if (bounces->ended)
        return -EOWNERDEAD;
    assert(!fetch->op);
    fetch->op = op;
    fetch->next = NULL;
    *bounces->fetches_last = fetch;
    bounces->fetches_last = &fetch->next;
    hand_over(fetch->session);
    return 0;
}

void engine_landed(struct engine_landing *landing)
{
    struct engine_bounces *bounces = landing->session ? landing->session->bounces : NULL;
    if (!bounces || bounces->ended ||
        (landing->bounce == 0 && !bounces->first && in_flight(bounces, BOUNCE_IN) == 0)) {
        if (landing->bounce == 0)
            raise_notification(landing, 1);
        else if (bounces)
            drop(bounces, landing);
        return;
    }
    /* A landing that already waits moves to the end, behind data that has arrived since; so each
     * landing is in the list at most once. */
    if (landing->waiting++ > 0)
        leave(bounces, landing);
    else
        count_landed(bounces, 1);
    append(bounces, landing);
    hand_over(landing->session);
}

void engine_landing_end(struct engine *engine, struct engine_landing *landing,
                        void (*done)(void *context), void *context)
{
    landing->loop = engine->loop;
    landing->quiet = done;
    landing->quiet_context = context;
    if (landing->in_flight == 0 && landing->waiting == 0)
        post_quiet(landing);
}

/* Queues an empty landing behind the others: when it is finished, so are they. */
static void await_copied_work(struct engine *engine, void *context)
{
    struct engine_landing *landing = context;
    const struct engine_bounces *bounces = landing->session ? landing->session->bounces : NULL;
    landing->dropped = bounces && bounces->dropped;
    engine_landed(landing);
    engine_landing_end(engine, landing, landing->quiet, landing->quiet_context);
}

void engine_await_copied(struct engine *engine, struct engine_landing *landing,
                         void (*done)(void *context), void *context)
{
    landing->quiet = done;
    landing->quiet_context = context;
    engine_call(engine, &landing->copied_call, await_copied_work, NULL, landing);
}

/* ---- waiting for notifications ---- */

bool engine_raises_wait(const struct engine *engine)
{
    /* acquire: pairs with count_landed(). A sender that has ended was told that its data arrived. */
    return atomic_load_explicit(&engine->landed, memory_order_acquire) > 0;
}

static bool within(const struct engine_landing *landing, const struct engine_raise_wait *wait)
{
    return landing->line && landing->line >= wait->first && landing->line < wait->end;
}

static bool holds(const struct engine_bounces *bounces, const struct engine_raise_wait *wait)
{
    for (const struct engine_landing *landing = bounces->first; landing; landing = landing->next)
        if (within(landing, wait))
            return true;
    for (uint32_t i = 0; i < in_flight(bounces, BOUNCE_IN); i++)
        if (within(bounces->landing[(bounces->done[BOUNCE_IN] + i) % BOUNCE_ENTRIES].landing, wait))
            return true;
    return false;
}

static struct engine_session *holder(struct engine_session *first,
                                     const struct engine_raise_wait *wait)
{
    for (struct engine_session *session = first; session; session = session->next)
        if (session->bounces && holds(session->bounces, wait))
            return session;
    return NULL;
}

static void look_again(void *context)
{
    engine_await_raised(context);
}

/* Waits for one session's landings on these lines, then looks for another session that has some. */
static void await_raised_work(struct engine *engine, void *context)
{
    struct engine_raise_wait *wait = context;
    struct engine_session *session = holder(engine->active, wait);
    if (!session)
        session = holder(engine->parked, wait);
    wait->landing = (struct engine_landing){.session = session};
    if (session)
        engine_landed(&wait->landing);
    engine_landing_end(engine, &wait->landing, session ? look_again : wait->done,
                       session ? wait : wait->context);
}

void engine_await_raised(struct engine_raise_wait *wait)
{
    engine_call(wait->engine, &wait->call, await_raised_work, NULL, wait);
}

/* ---- life ---- */

static void begin_work(struct engine *engine, void *context)
{
    struct engine_bounces *bounces = context;
    bounces->session->bounces = bounces;
}

int engine_bounces_new(struct engine_session *session)
{
    struct engine_bounces *bounces = calloc(1, sizeof *bounces);
    if (!bounces)
        return -ENOMEM;
    bounces->session = session;
    bounces->fetches_last = &bounces->fetches;
    for (int way = 0; way < BOUNCE_WAYS; way++)
        ring_init(&bounces->rings[way], &session->segment->bounce[way],
                  session->segment->bounce_entries[way], sizeof(uint32_t), BOUNCE_ENTRIES);
    engine_call(session->engine, &bounces->begin_call, begin_work, NULL, bounces);
    return 0;
}

static void end_work(struct engine *engine, void *context)
{
    struct engine_session *session = context;
    struct engine_bounces *bounces = session->bounces;
    if (!bounces || bounces->ended)
        return;
    bounces->ended = true;
    finish(bounces, BOUNCE_OUT, 0, -EOWNERDEAD);
    finish(bounces, BOUNCE_IN, 0, -EOWNERDEAD);
    while (bounces->fetches) {
        struct engine_fetch *fetch = bounces->fetches;
        bounces->fetches = fetch->next;
        finish_fetch(fetch, -EOWNERDEAD);
    }
    while (bounces->first) {
        struct engine_landing *landing = bounces->first;
        leave(bounces, landing);
        landing->waiting = 0;
        landing->in_flight++;
        finish_landing(bounces, &(struct landed){landing, 0}, false);
    }
    engine_session_wake(session);
}

void engine_bounces_end(struct engine_session *session)
{
    engine_call(session->engine, &session->bounces_call, end_work, NULL, session);
}
