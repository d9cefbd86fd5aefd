/* Pairs as tcad tells of them: connections, where puts land, ends. The standby thread takes these events
 * while the program computes; what it cannot deal with is left to the program's thread. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/session.h"
#include "client/memory/mapping.h"
#include "client/plan/pair_internal.h"
#include "proto/status.h"

static void adopt(struct tca *session, struct pair *pair, int fd, bool dialled,
                  const uint8_t *secret)
{
    struct driver *driver = session->pairs->driver;
    int r = session->pairs->seat->adopt(driver, pair->peer, fd, dialled, secret);
    if (r < 0) /* the other end finds it closed */
        pair->error = r;
}

/* 0, also if the connection is closed at once, or why the session has to be lost. */
static int begin(struct tca *session, const Tca__Pair *event, struct frame *frame)
{
    struct pair *pair = pair_look_up(session, event->id);
    const bool plain = event->secret.len == 0;
    int r = 0;
    if (frame->fd_count != 1 || event->id == 0 ||
        (!plain && event->secret.len != PAIR_SECRET_BYTES))
        return -EPROTO;
    if (!pair)
        r = pair_make(session, event->id, &pair);
    if (r < 0)
        return r == -ENODEV ? 0
                            : r; /* without the driver: the sender finds the connection closed */
    const int fd = frame->fds[0];
    frame->fds[0] = -1;
    pair->turn = event->turn;
    if (pair->report == PAIR_AGAIN)
        pair->report = PAIR_WELL;
    adopt(session, pair, fd, event->dialled, plain ? NULL : event->secret.data);
    return 0;
}

static bool has_work(struct driver *driver)
{
    struct pollfd events = {.fd = driver->ops->event_fd(driver), .events = POLLIN};
    return driver->ops->arm(driver) < 0 || poll(&events, 1, 0) > 0;
}

/* Takes no more than sockets can hold: a sender could go on for ever. */
void pairs_take_locked(struct pairs *pairs)
{
    struct driver *driver = pairs->driver;
    if (!driver)
        return;
    for (unsigned i = 0; i < PAIR_ROUNDS_MAX; i++)
        if (driver->ops->progress(driver, PAIR_PIECES) <= 0 && !has_work(driver))
            return;
}

void pairs_take(struct tca *session)
{
    standby_enter(session->standby);
    pairs_take_locked(session->pairs);
    standby_leave(session->standby);
}

void pair_free_landing(struct tca *session, struct landing *landing)
{
    struct landing **link = &session->pairs->landings;
    while (*link != landing)
        link = &(*link)->next;
    *link = landing->next;
    if (landing->driver_landing)
        session->pairs->driver->ops->landing_free(session->pairs->driver, landing->driver_landing);
    free(landing->layout);
    free(landing);
}

void pair_remove(struct tca *session, struct pair *pair)
{
    struct pair **link = &session->pairs->pairs;
    while (*link != pair)
        link = &(*link)->next;
    *link = pair->next;
    session->pairs->driver->ops->peer_disconnect(session->pairs->driver, pair->peer);
    free(pair);
}

static void free_landings(struct tca *session, const struct pair *pair)
{
    for (struct landing *landing = session->pairs->landings, *next; landing; landing = next) {
        next = landing->next;
        if (landing->pair == pair->id)
            pair_free_landing(session, landing);
    }
}

static struct pair *end(struct tca *session, uint64_t id, int error)
{
    struct pair *pair = pair_look_up(session, id);
    if (!pair)
        return NULL;
    pairs_take_locked(session->pairs); /* it still counts */
    free_landings(session, pair);
    pair->ended = true;
    pair->error = pair->error ? pair->error : error;
    session->pairs->driver->ops->peer_fail(session->pairs->driver, pair->peer, pair->error);
    return pair;
}

static int fill(struct tca *session, const Tca__PairLanding *event, struct landing *landing,
                struct driver_landing_args *args)
{
    const char *why;
    if (event->notify) {
        if (event->rank >= session->sources || event->slot >= SLOTS_PER_SOURCE)
            return -EPROTO;
        landing->line = notify_line_of(session->notify, event->rank, event->slot);
    }
    if (!event->region)
        return 0;
    landing->region = mapping_own(session, event->region);
    if (!landing->region || landing->region->attached)
        return -ESTALE; /* freed meanwhile */
    landing->layout = malloc(event->layout.len + 1);
    if (!landing->layout)
        return -ENOMEM;
    memcpy(landing->layout, event->layout.data, event->layout.len);
    int r = layout_check(landing->layout, event->layout.len, &why);
    if (r == 0 && !layout_fits(landing->layout, event->offset, landing->region->bytes))
        r = -EPROTO;
    if (r == 0)
        r = pair_region(session, landing->region, &args->region);
    args->offset_bytes = event->offset;
    args->layout = landing->layout;
    landing->address = landing->region->address + event->offset;
    return r;
}

/* Data that still arrives for the landing is late, not early. */
static int skip(struct tca *session, const Tca__PairLanding *event)
{
    const struct driver_landing_args nothing = {.grant = event->pair};
    struct driver_landing *landing;
    int r = session->pairs->seat->landing_new(session->pairs->driver, &nothing, event->index,
                                              event->generation, &landing);
    if (r == 0)
        session->pairs->driver->ops->landing_free(session->pairs->driver, landing);
    return r;
}

/* 0, or why the session has to be lost. */
static int land(struct tca *session, const Tca__PairLanding *event)
{
    struct landing *landing = calloc(1, sizeof *landing);
    int r = landing ? pairs_open(session) : -ENOMEM;
    struct driver_landing_args args = {
        .notify = event->notify, .token = (uint64_t)(uintptr_t)landing, .grant = event->pair};
    if (r == 0)
        r = event->pair ? fill(session, event, landing, &args) : -EPROTO;
    if (r == 0)
        r = session->pairs->seat->landing_new(session->pairs->driver, &args, event->index,
                                              event->generation, &landing->driver_landing);
    if (r < 0) {
        if (landing)
            free(landing->layout);
        free(landing);
        if (r == -ESTALE)
            r = skip(session, event);
        return r == -ENODEV ? 0 : r; /* as in begin() */
    }
    landing->pair = event->pair;
    landing->index = event->index;
    landing->generation = event->generation;
    landing->next = session->pairs->landings;
    session->pairs->landings = landing;
    return 0;
}

static void unland(struct tca *session, uint32_t index, uint32_t generation)
{
    struct landing *landing = session->pairs->landings;
    while (landing && (landing->index != index || landing->generation != generation))
        landing = landing->next;
    if (!landing)
        return;
    /* what has come still counts: the sender has released the plan, not the start */
    pairs_take_locked(session->pairs);
    pair_free_landing(session, landing);
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
        if (pair->ended && !pair_is_used(session, pair))
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
        return event->landing ? land(session, event->landing) : 0;
    case TCA__EVENT__KIND__UNLANDING:
        for (size_t i = 0; i < event->n_ids && i < event->n_of; i++)
            unland(session, event->ids[i], event->of[i]);
        return 0;
    case TCA__EVENT__KIND__PAIR_GONE:
        pair = event->pair
                   ? end(session, event->pair->id, lost_for(status_from_wire(event->status)))
                   : NULL;
        if (pair)
            pair_break_plans(session, pair, false, event->text);
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

/* ---- on the standby thread ---- */

bool pair_event_early(void *context, const Tca__Event *event, struct frame *frame)
{
    struct tca *session = context;
    switch (event->kind) {
    case TCA__EVENT__KIND__PAIR:
    case TCA__EVENT__KIND__LANDING:
    case TCA__EVENT__KIND__UNLANDING:
        return take_event(session, event, frame) == 0;
    case TCA__EVENT__KIND__PAIR_GONE: /* its plans are broken by the program's thread */
        if (event->pair)
            end(session, event->pair->id, lost_for(status_from_wire(event->status)));
        return false;
    default:
        return false;
    }
}
