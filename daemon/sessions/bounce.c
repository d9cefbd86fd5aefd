#include "daemon/sessions/bounce.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/engine/engine.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

enum {
    /* keeps the queue of a process that computes for a long time below that at which clients are
     * dropped (client.c) */
    BACKLOG_MAX = 250,
    TELL_MAX = 4096, /* ended bounces in a message */
};

bool bounce_refused(const struct region *region, char *text, size_t text_bytes)
{
    const struct session *session = region->session;
    if (!session || session_backlog(session) < BACKLOG_MAX || !session_stuck(session))
        return false;
    snprintf(text, text_bytes,
             "the process that attached region %" PRIu64 " of node %" PRIu32
             " has not read %d messages of its tcad: it must call the library (tca_test, "
             "tca_notified) before more puts can be prepared there",
             region->id, region->tcad->node, BACKLOG_MAX);
    return true;
}

int bounce_admit(struct region *region, enum bounce_way way, char *text, size_t text_bytes)
{
    const struct tcad *tcad = region->tcad;
    struct session *session = region->session;
    if (!region->attached)
        return 0;
    /* BOUNCE_OUT: its own commit, for whose reply it waits */
    if (way == BOUNCE_IN && bounce_refused(region, text, text_bytes))
        return -EBUSY;
    if (region->memory_bytes > 0)
        return 0;
    const uint64_t bytes = region_round(tcad, region->bytes);
    char why[300];
    if (!region_may_have(session, bytes, why, sizeof why)) {
        snprintf(text, text_bytes,
                 "region %" PRIu64 " of node %" PRIu32
                 " was attached and needs staging memory of %" PRIu64
                 " bytes: %s; or attach less, or use tca_region_alloc()",
                 region->id, tcad->node, bytes, why);
        return -EDQUOT;
    }
    if (!session->bounces && engine_bounces_new(session->engine) < 0) {
        snprintf(text, text_bytes, "out of memory for the staging of session %" PRIu64,
                 session->id);
        return -ENOMEM;
    }
    session->bounces = true;
    region_charge(region, bytes);
    return 0;
}

int bounce_new(struct region *region, enum bounce_way way, uint64_t offset_bytes,
               const struct layout *layout, uint32_t *ret_id)
{
    struct session *session = region->session;
    Tca__Bounce bounce = TCA__BOUNCE__INIT;
    Tca__Event event = TCA__EVENT__INIT;
    if (!session || !session->client)
        return -ESTALE;
    if (++session->last_bounce == 0)
        session->last_bounce = 1; /* 0 is not a valid id */
    bounce.id = session->last_bounce;
    bounce.region = region->id;
    bounce.offset = offset_bytes;
    bounce.layout = (ProtobufCBinaryData){layout_bytes(layout), (uint8_t *)layout};
    bounce.in = way == BOUNCE_IN;
    bounce.fd = region->bounce_told ? 0 : 1;
    bounce.pages = region->pages;
    event.kind = TCA__EVENT__KIND__BOUNCE;
    event.bounce = &bounce;
    session_event_fds(session, &event, &region->fd, bounce.fd);
    region->bounce_told = true;
    *ret_id = bounce.id;
    return 0;
}

bool bounce_must_wait(struct session *session, struct client_wait *wait)
{
    return session_backlog(session) >= BACKLOG_MAX && session_await_reader(session, wait);
}

/* ---- the end of bounces ---- */

static void tell(struct session *session, uint32_t *ids, size_t count)
{
    Tca__Event event = TCA__EVENT__INIT;
    event.kind = TCA__EVENT__KIND__UNBOUNCE;
    event.bounces = ids;
    event.n_bounces = count;
    session_event(session, &event);
}

static bool tell_some(void *context);

/* The process has read what was queued for it, or has ended. */
static void tell_again(void *context)
{
    struct session *session = context;
    loop_job_begin(session->tcad->loop, &session->bounce_ends.job, tell_some, session);
}

static bool tell_some(void *context)
{
    struct session *session = context;
    struct bounce_ends *ends = &session->bounce_ends;
    while (ends->told < ends->count) {
        const uint32_t left = ends->count - ends->told, some = left < TELL_MAX ? left : TELL_MAX;
        ends->wait = (struct client_wait){.drained = tell_again, .context = session};
        if (session_await_reader(session, &ends->wait))
            return false;
        tell(session, ends->ids + ends->told, some);
        ends->told += some;
        if (loop_slice_over(session->tcad->loop))
            return true;
    }
    ends->count = ends->told = 0;
    ends->telling = false;
    session_unnotified(session);
    return false;
}

static bool add(struct bounce_ends *ends, uint32_t id)
{
    if (ends->count == ends->room) {
        const uint32_t room = 2 * ends->room + 16;
        uint32_t *ids = reallocarray(ends->ids, room, sizeof *ids);
        if (!ids)
            return false;
        ends->ids = ids;
        ends->room = room;
    }
    ends->ids[ends->count++] = id;
    return true;
}

void bounce_end(struct session *session, uint32_t id)
{
    struct bounce_ends *ends = &session->bounce_ends;
    if (!session->client)
        return;
    if (!add(ends, id)) {
        tell(session, &id, 1); /* out of memory */
    } else if (!ends->telling) {
        ends->telling = true;
        session->notified_by++; /* dropped by tell_some() */
        tell_again(session);
    }
}

void bounce_ends_deinit(struct bounce_ends *ends)
{
    free(ends->ids);
}
