#include "client/plan/pair_internal.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/session.h"
#include "client/memory/mapping.h"
#include "client/plan/plan.h"
#include "client/plan/progress.h"
#include "proto/notify.h"

struct driver *pairs_driver(const struct tca *session)
{
    return session->pairs->driver;
}

size_t pairs_blob(const struct tca *session, uint32_t index, uint32_t generation,
                  uint64_t size_bytes, uint8_t ret_blob[LANDING_MAX_BYTES])
{
    return session->pairs->seat->blob(index, generation, size_bytes, ret_blob);
}

/* ---- events of the driver ---- */

/* Other processes of this node and tcad add to `routed` as well. */
static void notified(void *context, uint64_t token)
{
    struct tca *session = context;
    const struct landing *landing = (const struct landing *)(uintptr_t)token;
    if (!landing->line)
        return;
    atomic_store_explicit(&landing->line->landing, landing->address, memory_order_relaxed);
    notify_raise_routed(landing->line, 1, clock_now_ns());
    atomic_thread_fence(memory_order_seq_cst); /* pairs with the engine's, as in notify_wake() */
    if (atomic_load_explicit(&session->notify->engine_armed, memory_order_relaxed) != 0)
        session_ring_engine(session, &session->notify->engine_armed);
}

static struct pair *pair_of(const struct tca *session, const struct driver_peer *peer)
{
    struct pair *pair = session->pairs->pairs;
    while (pair && pair->peer != peer)
        pair = pair->next;
    return pair;
}

static bool puts_over(const struct tca_plan *plan, const struct pair *pair)
{
    for (uint32_t i = 0; i < plan->unit_count; i++)
        if (plan->units[i].pair == pair)
            return true;
    return false;
}

bool pair_is_used(const struct tca *session, const struct pair *pair)
{
    for (const struct tca_plan *plan = session->plans; plan; plan = plan->next)
        if (puts_over(plan, pair))
            return true;
    return false;
}

void pair_break_plans(struct tca *session, const struct pair *pair, bool lossy, const char *text)
{
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next) {
        if (!puts_over(plan, pair))
            continue;
        plan->lossy |= lossy;
        plan_break(plan, pair->error, text);
    }
}

/* The next plan gets another one. */
static void lose(struct tca *session, struct pair *pair, int error)
{
    pair->error = pair->error ? pair->error : error;
    pair->report = PAIR_GIVEN_UP;
    session->pairs->reports = session->pairs->news = pair->down = true;
}

static void puts_lost(void *context, struct driver_peer *peer, uint64_t flow, uint32_t count)
{
    struct tca *session = context;
    struct pair *pair = pair_of(session, peer);
    if (!pair)
        return;
    pair->error = pair->error ? pair->error : -ENETDOWN;
    session->pairs->news = pair->lost = true;
}

static void peer_down(void *context, struct driver_peer *peer, int error)
{
    struct tca *session = context;
    struct pair *pair = pair_of(session, peer);
    if (pair)
        lose(session, pair, error);
}

/* A peer that carries nonsense loses the pair, one that has closed the connection in order needs none. */
static void peer_broken(void *context, struct driver_peer *peer, int error)
{
    struct tca *session = context;
    struct pair *pair = pair_of(session, peer);
    if (!pair || pair->error || error == -ESHUTDOWN)
        return;
    if (error == -EPROTO) {
        session->pairs->driver->ops->peer_fail(session->pairs->driver, peer, -ENETDOWN);
        lose(session, pair, -ENETDOWN);
        return;
    }
    pair->report = PAIR_AGAIN;
    session->pairs->reports = true;
}

/* Either thread. What cannot be sent now is sent later. */
static __attribute__((noinline, cold)) void report(struct tca *session)
{
    session->pairs->reports = false;
    for (struct pair *pair = session->pairs->pairs; pair; pair = pair->next) {
        Tca__PairLost lost = TCA__PAIR_LOST__INIT;
        const Tca__Message message = REQUEST(PAIR_LOST, pair_lost, &lost);
        if (pair->report == PAIR_WELL)
            continue;
        lost.pair = pair->id;
        lost.again = pair->report == PAIR_AGAIN;
        lost.turn = pair->turn;
        if (session->control.lost || control_tell(&session->control, &message))
            pair->report = PAIR_WELL;
        else
            session->pairs->reports = true;
    }
}

static __attribute__((noinline, cold)) void take_news(struct tca *session)
{
    session->pairs->news = false;
    for (struct pair *pair = session->pairs->pairs; pair; pair = pair->next) {
        if (pair->lost)
            pair_break_plans(session, pair, true,
                             "the connection to its receiver was lost, and puts of completed "
                             "starts may not have arrived");
        if (pair->down)
            pair_break_plans(session, pair, false, "the connection to its receiver was lost");
        pair->lost = pair->down = false;
    }
}

/* ---- making ---- */

static bool work(void *context)
{
    struct tca *session = context;
    const bool heard = !session->polled && control_hear(&session->control, pair_event_early);
    return pairs_move(session) > 0 || heard;
}

static bool arm(void *context)
{
    struct tca *session = context;
    struct pairs *pairs = session->pairs;
    if (pairs->driver && pairs->driver->ops->arm(pairs->driver) < 0)
        return false;
    pairs->deaf = control_is_full(&session->control);
    return session->polled || pairs->deaf ||
           standby_add(session->standby, session->control.fd, true) == 0;
}

static bool left(void *context)
{
    const struct tca *session = context;
    const struct pairs *pairs = session->pairs;
    if (pairs->deaf && !control_is_full(&session->control))
        return true;
    return pairs->driver && pairs->driver->ops->arm(pairs->driver) < 0;
}

static const struct standby_ops standby_ops = {.work = work, .arm = arm, .left = left};

bool pairs_possible(const struct tca *session)
{
    bool others = false;
    for (uint32_t rank = 0; session->members && rank < session->identity.size; rank++)
        others |= session->members[rank].node != session->node;
    for (uint32_t rail = 1; others && rail <= session->rails.count; rail++)
        if (session->rails.at[rail].driver == DRIVER_TCP)
            return true;
    return false;
}

int pairs_expect(struct tca *session)
{
    if (!session->pairs)
        session->pairs = calloc(1, sizeof *session->pairs);
    return session->pairs ? 0 : -ENOMEM;
}

void pairs_stand_by(struct tca *session)
{
    struct pairs *pairs = session->pairs;
    if (session->standby || pairs->alone)
        return;
    pairs->alone = standby_new(&standby_ops, session, session->notify, &session->standby) < 0;
    if (session->standby && pairs->driver)
        standby_add(session->standby, pairs->driver->ops->event_fd(pairs->driver), false);
}

int pairs_open(struct tca *session)
{
    const struct driver_events events = {.notified = notified,
                                         .puts_lost = puts_lost,
                                         .peer_down = peer_down,
                                         .peer_broken = peer_broken,
                                         .context = session};
    struct pairs *pairs = session->pairs;
    if (pairs->driver)
        return 0;
    int r = seat_load(&pairs->seat);
    if (r == 0)
        r = pairs->seat->open(&events, &pairs->driver);
    if (r < 0)
        return r;
    if (session->standby)
        standby_add(session->standby, pairs->driver->ops->event_fd(pairs->driver), false);
    atomic_store_explicit(&session->connected, true, memory_order_relaxed);
    return 0;
}

struct pair *pair_look_up(const struct tca *session, uint64_t id)
{
    struct pair *pair = session->pairs ? session->pairs->pairs : NULL;
    while (pair && pair->id != id)
        pair = pair->next;
    return pair;
}

int pair_make(struct tca *session, uint64_t id, struct pair **ret_pair)
{
    int r = pairs_open(session);
    if (r < 0)
        return r;
    struct pair *pair = calloc(1, sizeof *pair);
    if (!pair)
        return -ENOMEM;
    pair->id = id;
    r = session->pairs->seat->peer_new(session->pairs->driver, id, &pair->peer);
    if (r < 0) {
        free(pair);
        return r;
    }
    pair->next = session->pairs->pairs;
    session->pairs->pairs = pair;
    *ret_pair = pair;
    return 0;
}

int pair_find(struct tca *session, uint64_t id, struct pair **ret_pair)
{
    if (pairs_expect(session) < 0)
        return error_static(-ENOMEM, "out of memory");
    standby_enter(session->standby);
    struct pair *pair = pair_look_up(session, id);
    int r = pair ? pair->error : pair_make(session, id, &pair);
    standby_leave(session->standby);
    if (r == -ENODEV) /* seat_load() has said why */
        return r;
    if (r < 0)
        return error_set(r, "no connection to the receiver: %s", tca_strerror(r));
    *ret_pair = pair;
    return 0;
}

int pair_region(struct tca *session, struct mapped_region *region,
                struct driver_region **ret_region)
{
    const struct driver_memory memory = {
        .base = region->base, .length_bytes = region->bytes, .fd = -1};
    int r = pairs_open(session);
    if (r == 0 && !region->seat_region)
        r = session->pairs->driver->ops->region_add(session->pairs->driver, &memory,
                                                    &region->seat_region);
    *ret_region = region->seat_region;
    return r;
}

/* ---- running ---- */

int pairs_move(struct tca *session)
{
    struct pairs *pairs = session->pairs;
    int moved = pairs->driver ? pairs->driver->ops->progress(pairs->driver, PAIR_PIECES) : 0;
    if (__builtin_expect(pairs->reports, 0))
        report(session);
    return moved;
}

void pairs_progress(struct tca *session)
{
    session->idle_moves++;
    session->skipped = 0;
    if (pairs_move(session) > 0) {
        session->idle_moves = 0;
        waiter_moved(&session->waiter);
    }
    if (__builtin_expect(session->pairs->news, 0))
        take_news(session);
}

void pairs_push(struct tca *session)
{
    standby_enter(session->standby);
    if (session->pairs->driver)
        session->pairs->seat->push(session->pairs->driver);
    standby_leave(session->standby);
}

/* Number of connections whose data has not reached the other host; give_up: abandons them. */
static unsigned drain(struct tca *session, const struct pair *one, bool give_up)
{
    unsigned late = 0;
    for (struct pair *pair = session->pairs->pairs; pair; pair = pair->next) {
        if (pair->error || (one && one != pair) ||
            session->pairs->seat->delivered(session->pairs->driver, pair->peer))
            continue;
        late++;
        if (give_up)
            pair_abandon(session, pair, -ETIMEDOUT);
    }
    return late;
}

void pairs_drain(struct tca *session, const struct pair *one, uint64_t end_ns)
{
    if (!session->pairs)
        return;
    standby_enter(session->standby);
    while (drain(session, one, false) > 0 && clock_left(end_ns) > 0) {
        session_drain(session); /* may remove others */
        if (pairs_move(session) == 0)
            sched_yield();
    }
    drain(session, one, true);
    standby_leave(session->standby);
}

void pair_abandon(struct tca *session, struct pair *pair, int error)
{
    standby_enter(session->standby);
    if (pair->error == 0) {
        lose(session, pair, error);
        report(session);
    }
    session->pairs->seat->abandon(session->pairs->driver, pair->peer, error);
    standby_leave(session->standby);
}

/* ---- ends ---- */

static void forget_region(struct tca *session, struct mapped_region *region)
{
    for (struct landing *landing = session->pairs->landings; landing; landing = landing->next) {
        if (landing->region != region)
            continue;
        session->pairs->driver->ops->landing_free(session->pairs->driver, landing->driver_landing);
        landing->driver_landing = NULL;
        landing->region = NULL;
    }
    session->pairs->driver->ops->region_remove(session->pairs->driver, region->seat_region);
    region->seat_region = NULL;
}

void pairs_forget_region(struct tca *session, struct mapped_region *region)
{
    standby_enter(session->standby);
    if (region->seat_region)
        forget_region(session, region);
    standby_leave(session->standby);
}

void pairs_lose(struct tca *session, int error)
{
    standby_enter(session->standby);
    for (struct pair *pair = session->pairs ? session->pairs->pairs : NULL; pair;
         pair = pair->next) {
        if (pair->error)
            continue;
        pair->error = error;
        session->pairs->driver->ops->peer_fail(session->pairs->driver, pair->peer, error);
    }
    standby_leave(session->standby);
}

void pairs_clear(struct tca *session)
{
    struct pairs *pairs = session->pairs;
    if (!pairs)
        return;
    session->standby = standby_free(session->standby);
    while (pairs->landings)
        pair_free_landing(session, pairs->landings);
    while (pairs->pairs) {
        struct pair *pair = pairs->pairs;
        if (session->control.pid != getpid()) /* its parent continues to use it */
            pairs->seat->abandon(pairs->driver, pair->peer, -ECANCELED);
        pair_remove(session, pair);
    }
    for (struct mapped_region *region = session->mapped_regions; region; region = region->next) {
        if (region->seat_region)
            pairs->driver->ops->region_remove(pairs->driver, region->seat_region);
        region->seat_region = NULL;
    }
    if (pairs->driver)
        pairs->driver->ops->close(pairs->driver);
    free(pairs);
    session->pairs = NULL;
}
