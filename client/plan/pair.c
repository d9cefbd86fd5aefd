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
#include "client/plan/trial_route.h"
#include "proto/notify.h"

/* ---- events of the driver ---- */

/* Other processes of this node and tcad add to `routed` as well. */
static void notified(void *context, uint64_t token)
{
    struct tca *session = context;
    const struct notify_target *raises = &((const struct landing *)(uintptr_t)token)->raises;
    if (!raises->line)
        return;
    notify_raise_routed_at(raises, clock_now_ns()); /* before the engine's word */
    if (atomic_load(&session->notify->engine_armed) != 0)
        session_ring_engine(session, &session->notify->engine_armed);
}

static struct pair *pair_of(const struct tca *session, const struct driver_peer *peer)
{
    struct pair *pair = session->pairs->pairs;
    while (pair && pair->peer != peer)
        pair = pair->next;
    return pair;
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
        pair_lose(session, pair, error);
}

/* A peer that carries nonsense loses the pair, one that has closed the connection in order needs
 * none. Devices report the end of the other process as a broken connection, too: then tcad answers
 * the request for another one with the reason. */
static void peer_broken(void *context, struct driver_peer *peer, int error)
{
    struct tca *session = context;
    struct pair *pair = pair_of(session, peer);
    if (!pair || pair->error || error == -ESHUTDOWN)
        return;
    if (error == -EPROTO) {
        pair->via->driver->ops->peer_fail(pair->via->driver, peer, -ENETDOWN);
        pair_lose(session, pair, -ENETDOWN);
        return;
    }
    pair->report = PAIR_AGAIN;
    session->pairs->reports = true;
}

static bool tell(const struct tca *session, const Tca__Message *message)
{
    return session->control.lost || control_tell(&session->control, message);
}

/* Whether tcad knows all that it is to be told. */
static bool report_one(const struct tca *session, struct pair *pair)
{
    Tca__PairLost lost = TCA__PAIR_LOST__INIT;
    Tca__PairOffer offer = TCA__PAIR_OFFER__INIT;
    const Tca__Message ended = REQUEST(PAIR_LOST, pair_lost, &lost),
                       offered = REQUEST(PAIR_OFFER, pair_offer, &offer);
    offer.pair = lost.pair = pair->id;
    offer.offer = (ProtobufCBinaryData){pair->offer_bytes, pair->offer};
    if (pair->offer_bytes > 0 && tell(session, &offered))
        pair->offer_bytes = 0;
    lost.again = pair->report == PAIR_AGAIN;
    lost.turn = pair->turn;
    if (pair->report != PAIR_WELL && tell(session, &ended))
        pair->report = PAIR_WELL;
    return pair->report == PAIR_WELL && pair->offer_bytes == 0;
}

__attribute__((noinline, cold)) void pairs_report(struct tca *session)
{
    session->pairs->reports = false;
    for (struct pair *pair = session->pairs->pairs; pair; pair = pair->next)
        session->pairs->reports |= !report_one(session, pair);
}

/* ---- making ---- */

bool pairs_are_busy(const struct pairs *pairs)
{
    bool busy = false;
    for (struct pair_driver *via = pairs->drivers; via; via = via->next)
        busy |= via->driver->ops->arm(via->driver) < 0;
    return busy;
}

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
    if (pairs_are_busy(pairs))
        return false;
    pairs->leaves_events = control_is_full(&session->control);
    return session->polled || pairs->leaves_events ||
           standby_add(session->standby, session->control.fd, true) == 0;
}

static bool left(void *context)
{
    const struct tca *session = context;
    const struct pairs *pairs = session->pairs;
    if (pairs->leaves_events && !control_is_full(&session->control))
        return true;
    return pairs_are_busy(pairs);
}

static const struct standby_ops standby_ops = {.work = work, .arm = arm, .left = left};

int pairs_expect(struct tca *session)
{
    if (session->pairs)
        return 0;
    struct pairs *pairs = calloc(1, sizeof(*pairs));
    if (!pairs)
        return -ENOMEM;
    session->pairs = pairs;
    return 0;
}

void pairs_stand_by(struct tca *session)
{
    struct pairs *pairs = session->pairs;
    if (session->standby || pairs->alone)
        return;
    pairs->alone = standby_new(&standby_ops, session, session->notify, &session->standby) < 0;
    for (struct pair_driver *via = pairs->drivers; session->standby && via; via = via->next)
        standby_add(session->standby, via->driver->ops->event_fd(via->driver), false);
}

int pairs_open(struct tca *session, uint32_t rail, struct pair_driver **ret_via)
{
    const struct driver_events events = {.notified = notified,
                                         .puts_lost = puts_lost,
                                         .peer_down = peer_down,
                                         .peer_broken = peer_broken,
                                         .context = session};
    struct pairs *pairs = session->pairs;
    struct pair_driver *via = pairs->drivers;
    while (via && via->rail != rail)
        via = via->next;
    if (via) {
        *ret_via = via;
        return 0;
    }
    int r = pairs_open_driver(session, rail, &events, &via);
    if (r < 0)
        return r;
    via->next = pairs->drivers;
    pairs->drivers = via;
    pairs->costly |= via->seat->asks_kernel;
    if (session->standby)
        standby_add(session->standby, via->driver->ops->event_fd(via->driver), false);
    atomic_store_explicit(&session->connected, true, memory_order_relaxed);
    *ret_via = via;
    return 0;
}

struct pair *pair_look_up(const struct tca *session, uint64_t id)
{
    struct pair *pair = session->pairs ? session->pairs->pairs : NULL;
    while (pair && pair->id != id)
        pair = pair->next;
    return pair;
}

int pair_make(struct tca *session, uint64_t id, uint32_t rail, struct pair **ret_pair)
{
    struct pair_driver *via;
    int r = pairs_open(session, rail, &via);
    if (r < 0)
        return r;
    struct pair *pair = calloc(1, sizeof(*pair));
    if (!pair)
        return -ENOMEM;
    pair->id = id;
    pair->via = via;
    r = via->seat->peer_new(via->driver, id, &pair->peer);
    if (r < 0) {
        free(pair);
        return r;
    }
    pair->next = session->pairs->pairs;
    session->pairs->pairs = pair;
    *ret_pair = pair;
    return 0;
}

int pair_find(struct tca *session, uint64_t id, uint32_t rail, struct pair **ret_pair)
{
    if (pairs_expect(session) < 0)
        return error_static(-ENOMEM, "out of memory");
    standby_enter(session->standby);
    struct pair *pair = pair_look_up(session, id);
    int r = pair ? pair->error : pair_make(session, id, rail, &pair);
    standby_leave(session->standby);
    if (r == -ENODEV) /* pairs_open() has said why */
        return r;
    if (r < 0)
        return error_set(r, "no connection to the receiver: %s", tca_strerror(r));
    pair->awaited = false;
    *ret_pair = pair;
    return 0;
}

/* ---- running ---- */

int pairs_move(struct tca *session)
{
    struct pairs *pairs = session->pairs;
    int moved = 0;
    for (struct pair_driver *via = pairs->drivers; via; via = via->next)
        moved += via->driver->ops->progress(via->driver, PAIR_PIECES) > 0;
    if (__builtin_expect(pairs->reports, 0))
        pairs_report(session);
    return moved;
}

void pairs_progress(struct tca *session)
{
    session->idle_moves += session->pairs->costly;
    session->skipped = 0;
    if (pairs_move(session) > 0) {
        session->idle_moves = 0;
        waiter_moved(&session->waiter);
    }
    if (__builtin_expect(session->pairs->news, 0))
        pairs_take_news(session);
}

void pairs_push(struct tca *session)
{
    standby_enter(session->standby);
    for (struct pair_driver *via = session->pairs->drivers; via; via = via->next)
        if (via->seat->push)
            via->seat->push(via->driver);
    standby_leave(session->standby);
}

/* Number of connections whose data has not reached the other host; give_up: abandons them. */
static unsigned drain(struct tca *session, const struct pair *one, bool give_up)
{
    unsigned late = 0;
    for (struct pair *pair = session->pairs->pairs; pair; pair = pair->next) {
        if (pair->error || (one && one != pair) ||
            pair->via->seat->delivered(pair->via->driver, pair->peer))
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
        session_progress_within(session);
        sched_yield();
    }
    drain(session, one, true);
    standby_leave(session->standby);
}

void pair_abandon(struct tca *session, struct pair *pair, int error)
{
    standby_enter(session->standby);
    if (pair->error == 0) {
        pair_lose(session, pair, error);
        pairs_report(session);
    }
    pair->via->seat->abandon(pair->via->driver, pair->peer, error);
    standby_leave(session->standby);
}

/* ---- ends ---- */

void pairs_lose(struct tca *session, int error)
{
    standby_enter(session->standby);
    for (struct pair *pair = session->pairs ? session->pairs->pairs : NULL; pair;
         pair = pair->next) {
        if (pair->error)
            continue;
        pair->error = error;
        pair->via->driver->ops->peer_fail(pair->via->driver, pair->peer, error);
    }
    standby_leave(session->standby);
}

void pairs_clear(struct tca *session)
{
    struct pairs *pairs = session->pairs;
    if (!pairs)
        return;
    session->standby = standby_free(session->standby);
    targets_end(session, TARGET_LANDING, pair_end_landing, NULL);
    while (pairs->pairs) {
        struct pair *pair = pairs->pairs;
        if (control_is_inherited(&session->control))
            pair->via->seat->abandon(pair->via->driver, pair->peer, -ECANCELED);
        pair_remove(session, pair);
    }
    for (struct mapped_region *region = session->mapped_regions; region; region = region->next)
        pair_forget_region(region);
    while (pairs->drivers) {
        struct pair_driver *via = pairs->drivers;
        pairs->drivers = via->next;
        via->driver->ops->close(via->driver);
        free(via);
    }
    free(pairs);
    session->pairs = NULL;
}

/* ---- regions of this session, as the drivers know them ---- */

int pair_region(const struct pair_driver *via, struct mapped_region *region,
                struct driver_region **ret_region)
{
    const struct driver_memory memory = {.base = region->base,
                                         .length_bytes = region->bytes,
                                         .fd = region->fd,
                                         .dmabuf = region->dmabuf};
    struct seat_region *known = region->seat_regions;
    while (known && known->via != via)
        known = known->next;
    if (known) {
        *ret_region = known->region;
        return 0;
    }
    known = malloc(sizeof(*known));
    if (!known)
        return -ENOMEM;
    *known = (struct seat_region){.next = region->seat_regions, .via = via};
    int r = via->driver->ops->region_add(via->driver, &memory, &known->region);
    if (r < 0) {
        free(known);
        return r;
    }
    region->seat_regions = known;
    *ret_region = known->region;
    return 0;
}

void pair_forget_region(struct mapped_region *region)
{
    while (region->seat_regions) {
        struct seat_region *known = region->seat_regions;
        region->seat_regions = known->next;
        known->via->driver->ops->region_remove(known->via->driver, known->region);
        free(known);
    }
}

void pairs_forget_region(struct tca *session, struct mapped_region *region)
{
    standby_enter(session->standby);
    targets_end_in(session, region->targets, TARGET_LANDING, pair_end_landing);
    pair_forget_region(region);
    standby_leave(session->standby);
}

/* ---- when all that was put over pairs has landed ---- */

/* Either thread. A pair that has ended has nothing in flight. */
static void flush_done(struct driver_op *op, int status)
{
    struct pair *pair = op->owner;
    (void)status;
    pair->flushed = pair->flushing;
}

static void begin_flush(struct pair *pair)
{
    pair->flushing = pair->flush_wanted;
    pair->flush = (struct driver_op){.done = flush_done, .owner = pair};
    if (pair->error ||
        pair->via->driver->ops->peer_flush(pair->via->driver, pair->peer, &pair->flush) < 0)
        pair->flushed = pair->flushing;
}

void pairs_flush(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    const struct pair *last = NULL;
    standby_enter(session->standby);
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct pair *pair = plan->transfers[i].pair;
        if (!pair) /* of this node */
            continue;
        if (pair != last) {
            pair->flush_wanted++;
            if (pair->flushed == pair->flushing)
                begin_flush(pair);
        }
        plan->transfers[i].flush = pair->flush_wanted;
        last = pair;
    }
    pairs_push(session);
    standby_leave(session->standby);
}

bool pairs_flushed(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    bool all = true;
    standby_enter(session->standby);
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct pair *pair = plan->transfers[i].pair;
        if (!pair)
            continue;
        if (pair->flushed == pair->flushing && pair->flushed < plan->transfers[i].flush)
            begin_flush(pair);
        all &= pair->flushed >= plan->transfers[i].flush;
    }
    standby_leave(session->standby);
    return all;
}

/* ---- pairs that end: the plans that put over them break, unless tcad puts for them now ---- */

static bool puts_over(const struct tca_plan *plan, const struct pair *pair)
{
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        if (plan->transfers[i].pair == pair)
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
        if (!puts_over(plan, pair) || trial_route_goes_on(plan, pair->error))
            continue;
        plan->lossy |= lossy;
        plan_break(plan, pair->error, text);
    }
}

/* The next plan gets another one. */
void pair_lose(struct tca *session, struct pair *pair, int error)
{
    pair->error = pair->error ? pair->error : error;
    pair->report = PAIR_GIVEN_UP;
    session->pairs->reports = session->pairs->news = pair->down = true;
}

static void break_plans(struct tca *session, struct pair *pair)
{
    if (pair->lost)
        pair_break_plans(session, pair, true,
                         "the connection to its receiver was lost, and puts of completed "
                         "starts may not have arrived");
    if (pair->down)
        pair_break_plans(session, pair, false, "the connection to its receiver was lost");
    pair->lost = pair->down = false;
}

void pairs_take_news(struct tca *session)
{
    session->pairs->news = false;
    for (struct pair *pair = session->pairs->pairs; pair; pair = pair->next)
        break_plans(session, pair);
}

void pair_gone(struct tca *session, struct pair *pair, const char *text)
{
    if (pair->error == -ENETDOWN)
        break_plans(session, pair);
    pair->lost = pair->down = false;
    pair_break_plans(session, pair, false, text);
}
