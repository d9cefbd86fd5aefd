/* Pairs as tcad tells of them: connections, where puts land, ends. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/session.h"
#include "client/memory/mapping.h"
#include "client/plan/pair_internal.h"

static void adopt(struct tca *session, struct pair *pair, int fd, bool dialled,
                  const uint8_t *secret)
{
    struct driver *driver = session->pairs->driver;
    int r = session->pairs->seat->adopt(driver, pair->peer, fd, dialled, secret);
    if (r < 0) /* the other end finds it closed */
        pair->error = r;
}

void pair_begin(struct tca *session, const Tca__Pair *event, struct frame *frame)
{
    struct pair *pair = pair_look_up(session, event->id);
    const bool plain = event->secret.len == 0;
    int r = 0;
    if (frame->fd_count != 1 || event->id == 0 ||
        (!plain && event->secret.len != PAIR_SECRET_BYTES)) {
        session_lose(session, -EPROTO);
        return;
    }
    if (!pair)
        r = pair_make(session, event->id, &pair);
    if (r == -ENODEV) /* without the driver: the sender finds the connection closed */
        return;
    if (r < 0) {
        session_lose(session, r);
        return;
    }
    const int fd = frame->fds[0];
    frame->fds[0] = -1;
    adopt(session, pair, fd, event->dialled, plain ? NULL : event->secret.data);
}

static bool has_work(struct driver *driver)
{
    struct pollfd events = {.fd = driver->ops->event_fd(driver), .events = POLLIN};
    return driver->ops->arm(driver) < 0 || poll(&events, 1, 0) > 0;
}

/* Takes no more than sockets can hold: a sender could go on for ever. */
void pairs_take(struct tca *session)
{
    struct driver *driver = session->pairs->driver;
    for (unsigned i = 0; i < PAIR_ROUNDS_MAX; i++)
        if (driver->ops->progress(driver, PAIR_PIECES) <= 0 && !has_work(driver))
            return;
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

void pair_end(struct tca *session, uint64_t id, int error, const char *text)
{
    struct pair *pair = pair_look_up(session, id);
    if (!pair)
        return;
    pairs_take(session); /* it still counts */
    free_landings(session, pair);
    pair->ended = true;
    pair->error = pair->error ? pair->error : error;
    session->pairs->driver->ops->peer_fail(session->pairs->driver, pair->peer, pair->error);
    pair_break_plans(session, pair, false, text);
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

/* What comes for it is late, not early. */
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

void pair_land(struct tca *session, const Tca__PairLanding *event)
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
        if (r < 0 && r != -ENODEV) /* as in pair_begin() */
            session_lose(session, r);
        return;
    }
    landing->pair = event->pair;
    landing->index = event->index;
    landing->generation = event->generation;
    landing->next = session->pairs->landings;
    session->pairs->landings = landing;
}

void pair_unland(struct tca *session, uint32_t index, uint32_t generation)
{
    struct landing *landing = session->pairs ? session->pairs->landings : NULL;
    while (landing && (landing->index != index || landing->generation != generation))
        landing = landing->next;
    if (!landing)
        return;
    pairs_take(session); /* it still counts: the sender has released the plan, not the start */
    pair_free_landing(session, landing);
}
