/* Pairs as tcad tells of them: connections, where puts land, ends. The standby thread takes these
 * events while the program computes; what it cannot deal with is left to the program's thread. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/session.h"
#include "client/memory/mapping.h"
#include "client/plan/pair_internal.h"
#include "proto/status.h"

static void adopt(struct pair *pair, int fd, const Tca__Pair *event)
{
    const uint8_t *secret = event->secret.len > 0 ? event->secret.data : NULL;
    atomic_store_explicit(&pair->encrypts, secret != NULL, memory_order_relaxed);
    int r = pair->via->seat->adopt(pair->via->driver, pair->peer, fd, event->dialled,
                                   event->kernel_tls, secret);
    if (r < 0) /* the other end finds it closed */
        pair->error = r;
}

/* tcad has connected them. */
static int take_connection(struct pair *pair, const Tca__Pair *event, struct frame *frame)
{
    const size_t bytes = event->secret.len;
    if (frame->fd_count != 1 || (bytes != 0 && bytes != PAIR_SECRET_BYTES))
        return -EPROTO;
    const int fd = frame->fds[0];
    frame->fds[0] = -1;
    pair->turn = event->turn;
    if (pair->report == PAIR_AGAIN)
        pair->report = PAIR_WELL;
    adopt(pair, fd, event);
    return 0;
}

static int make_offer(struct pair *pair, bool dials, uint8_t ret_offer[OFFER_MAX_BYTES],
                      size_t *ret_bytes)
{
    int r = pair->via->seat->offer(pair->via->driver, pair->peer, dials, ret_offer);
    *ret_bytes = r < 0 ? 0 : (size_t)r;
    return r < 0 ? r : 0;
}

/* The processes connect: this one offers its end or, when it knows the other one, is ready for
 * it. */
static int exchange_offers(struct pair *pair, const Tca__Pair *event)
{
    const struct pair_driver *via = pair->via;
    const bool knows = event->offer.len > 0;
    uint8_t offer[OFFER_MAX_BYTES];
    size_t bytes = 0;
    int r = pair->error;
    if (r == 0 && !(event->dialled && knows))
        r = make_offer(pair, event->dialled, offer, &bytes);
    if (r == 0 && knows)
        r = via->driver->ops->peer_answer(via->driver, pair->peer, event->offer.data,
                                          event->offer.len);
    if (r < 0)
        return r;
    memcpy(pair->offer, offer, bytes);
    pair->offer_bytes = bytes;
    return 0;
}

static void connect_processes(struct tca *session, struct pair *pair, const Tca__Pair *event)
{
    pair->awaited |= event->dialled && event->offer.len == 0 && event->turn == 0;
    pair->turn = event->turn;
    if (pair->report == PAIR_AGAIN)
        pair->report = PAIR_WELL;
    if (exchange_offers(pair, event) < 0 && !pair->error) {
        pair->via->driver->ops->peer_fail(pair->via->driver, pair->peer, -ENETDOWN);
        pair_lose(session, pair, -ENETDOWN);
    }
    pairs_report(session);
}

/* This process cannot have a connection. False: tcad cannot be told now. */
static bool refuse(const struct tca *session, uint64_t id)
{
    Tca__PairLost lost = TCA__PAIR_LOST__INIT;
    const Tca__Message message = REQUEST(PAIR_LOST, pair_lost, &lost);
    lost.pair = id;
    lost.refused = true;
    return session->control.lost || control_tell(&session->control, &message);
}

/* Of a pair that exists, or is made. *ret_pair: NULL: it was refused, for want of a driver, access
 * to the rail's device, or memory. */
static int pair_of_event(struct tca *session, uint64_t id, uint32_t rail, struct pair **ret_pair)
{
    *ret_pair = pair_look_up(session, id);
    int r = *ret_pair ? 0 : id == 0 ? -EPROTO : pair_make(session, id, rail, ret_pair);
    if (r < 0 && r != -EPROTO)
        return refuse(session, id) ? 0 : -ENOMEM;
    return r;
}

/* 0, also if the connection is closed at once, or why the session has to be lost. */
static int begin(struct tca *session, const Tca__Pair *event, struct frame *frame)
{
    struct pair *pair;
    int r = pair_of_event(session, event->id, event->rail, &pair);
    if (r < 0 || !pair)
        return r;
    if (!pair->via->seat->offer)
        return take_connection(pair, event, frame);
    connect_processes(session, pair, event);
    return 0;
}

static bool has_work(struct driver *driver)
{
    struct pollfd events = {.fd = driver->ops->event_fd(driver), .events = POLLIN};
    return driver->ops->arm(driver) < 0 || poll(&events, 1, 0) > 0;
}

static void take_all(struct driver *driver)
{
    for (unsigned i = 0; i < PAIR_ROUNDS_MAX; i++)
        if (driver->ops->progress(driver, PAIR_PIECES) <= 0 && !has_work(driver))
            return;
}

/* Takes no more than connections can hold: a sender could go on for ever. */
void pairs_take_locked(struct pairs *pairs)
{
    for (struct pair_driver *via = pairs->drivers; via; via = via->next)
        take_all(via->driver);
}

void pairs_take(struct tca *session)
{
    standby_enter(session->standby);
    pairs_take_locked(session->pairs);
    standby_leave(session->standby);
}

static void free_landing(struct landing *landing)
{
    if (landing->driver_landing)
        landing->via->driver->ops->landing_free(landing->via->driver, landing->driver_landing);
    free(landing->layout);
    free(landing);
}

static struct landing *landing_of(struct target *target)
{
    return (struct landing *)((uint8_t *)target - offsetof(struct landing, target));
}

void pair_end_landing(struct tca *session, struct target *target, const void *none)
{
    target_remove(session, target);
    free_landing(landing_of(target));
}

void pair_remove(struct tca *session, struct pair *pair)
{
    struct pair **link = &session->pairs->pairs;
    while (*link != pair)
        link = &(*link)->next;
    *link = pair->next;
    pair->via->driver->ops->peer_disconnect(pair->via->driver, pair->peer);
    free(pair);
}

static void end_of_pair(struct tca *session, struct target *target, const void *pair)
{
    if (landing_of(target)->pair == ((const struct pair *)pair)->id)
        pair_end_landing(session, target, NULL);
}

static struct pair *end(struct tca *session, uint64_t id, int error)
{
    struct pair *pair = pair_look_up(session, id);
    if (!pair)
        return NULL;
    pairs_take_locked(session->pairs); /* it still counts */
    targets_end(session, TARGET_LANDING, end_of_pair, pair);
    pair->ended = true;
    if (!pair->error)
        pair->error = error;
    pair->via->driver->ops->peer_fail(pair->via->driver, pair->peer, pair->error);
    return pair;
}

static bool is_part(const Tca__PairLanding *event, uint64_t region_bytes)
{
    return event->part_bytes <= region_bytes &&
           event->part_offset <= region_bytes - event->part_bytes;
}

/* Signals come without data. */
static int fill_counter(const Tca__PairLanding *event, struct mapped_region *region,
                        struct landing *landing)
{
    if (!event->notify || event->offset % sizeof(uint64_t) || event->offset > region->bytes ||
        region->bytes - event->offset < sizeof(uint64_t))
        return -EPROTO;
    landing->raises.counter = (_Atomic uint64_t *)(region->base + event->offset);
    landing->raises.signal = event->signal;
    return 0;
}

static int fill(struct tca *session, const Tca__PairLanding *event, struct landing *landing,
                struct driver_landing_args *args)
{
    const char *why;
    if (event->notify) {
        if (event->line >= NOTIFY_LINES_MAX)
            return -EPROTO;
        landing->raises.segment = session->notify;
        landing->raises.line = notify_line_at(session->notify, event->line);
    }
    if (!event->region)
        return 0;
    struct mapped_region *region = mapping_own(session, event->region);
    if (!region)
        return -ESTALE; /* freed meanwhile */
    landing->target.region = region;
    if (event->signal)
        return fill_counter(event, region, landing);
    landing->layout = malloc(event->layout.len + 1);
    if (!landing->layout)
        return -ENOMEM;
    memcpy(landing->layout, event->layout.data, event->layout.len);
    int r = layout_check(landing->layout, event->layout.len, &why);
    if (r == 0 && (!layout_fits(landing->layout, event->offset, region->bytes) ||
                   !is_part(event, region->bytes)))
        r = -EPROTO;
    if (r == 0)
        r = pair_region(landing->via, region, &args->region);
    args->offset_bytes = event->offset;
    args->part_offset_bytes = event->part_offset;
    args->part_bytes = event->part_bytes;
    args->layout = landing->layout;
    landing->raises.landing = region->address + event->offset;
    return r;
}

/* Data that still arrives for the landing is late, not early. */
static int skip(const struct pair_driver *via, const Tca__PairLanding *event)
{
    const struct driver_landing_args nothing = {.grant = event->pair};
    struct driver_landing *landing;
    int r =
        via->seat->landing_new(via->driver, &nothing, event->index, event->generation, &landing);
    if (r == 0)
        via->driver->ops->landing_free(via->driver, landing);
    return r;
}

static int make_landing(struct tca *session, const Tca__PairLanding *event, struct landing *landing)
{
    const struct pair_driver *via = landing->via;
    struct driver_landing_args args = {
        .notify = event->notify, .token = (uint64_t)(uintptr_t)landing, .grant = event->pair};
    int r = fill(session, event, landing, &args);
    return r < 0 ? r
                 : via->seat->landing_new(via->driver, &args, event->index, event->generation,
                                          &landing->driver_landing);
}

/* Of the landing's driver; where processes connect, it has to know the pair. *ret_via: NULL:
 * nothing will be put there. */
static int driver_of_landing(struct tca *session, const Tca__PairLanding *event,
                             struct pair_driver **ret_via)
{
    struct pair *pair;
    int r = event->pair ? pairs_open(session, event->rail, ret_via) : -EPROTO;
    if (r == 0 && !(*ret_via)->seat->offer)
        return 0;
    *ret_via = NULL;
    if (r == 0 || r == -ENODEV)
        r = pair_of_event(session, event->pair, event->rail, &pair);
    if (r == 0 && pair && !pair->ended)
        *ret_via = pair->via;
    return r;
}

/* 0, or why the session has to be lost. */
static int land(struct tca *session, const Tca__PairLanding *event)
{
    struct pair_driver *via;
    int r = driver_of_landing(session, event, &via);
    if (r < 0 || !via)
        return r;
    struct landing *landing = calloc(1, sizeof(*landing));
    if (!landing)
        return -ENOMEM;
    *landing = (struct landing){
        .target = {TARGET_LANDING, .number = event->generation}, .via = via, .pair = event->pair};
    r = make_landing(session, event, landing);
    if (r == 0)
        r = target_add(session, &landing->target,
                       landing->target.region ? &landing->target.region->targets : NULL);
    if (r < 0) {
        free_landing(landing);
        return r == -ESTALE ? skip(via, event) : r;
    }
    return 0;
}

static int land_all(struct tca *session, const Tca__Event *event)
{
    int r = 0;
    for (size_t i = 0; i < event->n_landings && r == 0; i++)
        r = land(session, event->landings[i]);
    return r;
}

/* Whether these targets were landings, or were gone: others are left to the program's thread,
 * perhaps with the event that announces them. */
static bool unland(struct tca *session, const Tca__Event *event)
{
    bool taken = false, all = true;
    for (size_t i = 0; i < event->n_ids; i++) {
        struct target *target = target_find(session, event->ids[i]);
        if (!target || target->kind != TARGET_LANDING) {
            all &= !target && session->control.early_count == 0;
            continue;
        }
        if (!taken) /* what has come still counts: the plan was released, not the start */
            pairs_take_locked(session->pairs);
        taken = true;
        pair_end_landing(session, target, NULL);
    }
    return all;
}

/* ---- on the program's thread ---- */

static int lost_for(int status)
{
    return status < 0 ? status : -EPROTO;
}

/* Those that tcad has ended, and whose last plan is released. */
static void remove_ended(struct tca *session)
{
    for (struct pair *pair = session->pairs->pairs, *next; pair; pair = next) {
        next = pair->next;
        if (pair->ended && !pair->awaited && !pair_is_used(session, pair))
            pair_remove(session, pair);
    }
}

static int take_event(struct tca *session, const Tca__Event *event, struct frame *frame)
{
    struct pair *pair;
    switch (event->kind) {
    case TCA__EVENT__KIND__PAIR:
        return event->pair ? begin(session, event->pair, frame) : 0;
    case TCA__EVENT__KIND__LANDING:
        return land_all(session, event);
    case TCA__EVENT__KIND__WITHDRAWN:
        unland(session, event);
        return 0;
    case TCA__EVENT__KIND__PAIR_GONE:
        pair = event->pair
                   ? end(session, event->pair->id, lost_for(status_from_wire(event->status)))
                   : NULL;
        if (pair)
            pair_gone(session, pair, event->text);
        remove_ended(session);
        return 0;
    default:
        return 0;
    }
}

void pair_event(struct tca *session, const Tca__Event *event, struct frame *frame)
{
    int r = pairs_expect(session);
    if (r == 0) {
        standby_enter(session->standby);
        r = take_event(session, event, frame);
        standby_leave(session->standby);
    }
    if (r < 0)
        session_lose(session, r);
}

/* ---- on the helper thread ---- */

bool pair_event_early(void *context, const Tca__Event *event, struct frame *frame)
{
    struct tca *session = context;
    switch (event->kind) {
    case TCA__EVENT__KIND__PAIR:
    case TCA__EVENT__KIND__LANDING:
        return take_event(session, event, frame) == 0;
    case TCA__EVENT__KIND__WITHDRAWN:
        return unland(session, event);
    case TCA__EVENT__KIND__PAIR_GONE: /* its plans are broken by the program's thread */
        if (event->pair)
            end(session, event->pair->id, lost_for(status_from_wire(event->status)));
        return false;
    default:
        return false;
    }
}
