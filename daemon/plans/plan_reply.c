/* The reply to a commit: seats, rails, and what the client must map for the chains that it runs. It
 * is collected in slices; the worker serialises a long one. A plan that can move up to its client's
 * seat gets the same in an event (plan_watch.c). */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/base/worker.h"
#include "daemon/plans/lane.h"
#include "daemon/plans/order.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/sessions/client.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "drivers/shm/copy_modes.h"
#include "proto/frame.h"

enum {
    SLICE_STEPS = 64,                  /* mapped between two checks of the clock */
    PACK_MAX = 256,                    /* mappings; longer replies are serialised by the worker */
    REPLY_FDS_MAX = FRAME_FDS_MAX - 1, /* one is left for a long payload's memfd */
    MAPPING_FDS_MAX = 3,               /* a region, a notification segment, a lane */
};

struct plan_reply {
    struct plan *plan;
    struct session *session;
    Tca__ChainCommitted *chains, **chain_list;
    uint32_t chain, step;           /* the next to be mapped */
    Tca__Mapping *room, **mappings; /* of all transfers up to now */
    uint32_t count;
    uint32_t first; /* the first whose descriptors are in `fds` */
    /* borrowed from regions and sessions, which may be freed before the next slice */
    int fds[REPLY_FDS_MAX];
    uint32_t fd_count;
    int own[REPLY_FDS_MAX]; /* to be closed afterwards */
    uint32_t own_count;
    struct client_wait wait;
    Tca__PlanCommitted committed;
    Tca__Event event; /* PLAN_PAIRED */
    Tca__Message message;
    int memfd; /* -1, or the packed message: */
    size_t packed_bytes;
};

/* Adds a descriptor, for which make_room() has made room. Returns its index in the frame + 1, or 0
 * if an earlier mapping of the frame has it. */
static uint32_t attach(struct plan_reply *reply, int fd)
{
    for (uint32_t i = 0; i < reply->fd_count; i++)
        if (reply->fds[i] == fd)
            return 0;
    reply->fds[reply->fd_count++] = fd;
    return reply->fd_count;
}

static void forget_fds(struct plan_reply *reply)
{
    for (uint32_t i = 0; i < reply->own_count; i++)
        close(reply->own[i]);
    reply->own_count = reply->fd_count = 0;
    reply->first = reply->count;
}

/* Sends the descriptors collected so far, ahead of the reply, which refers to them. */
static void send_early(struct plan_reply *reply)
{
    Tca__Event event = TCA__EVENT__INIT;
    Tca__Mapping *carriers[REPLY_FDS_MAX];
    if (reply->fd_count == 0)
        return;
    for (uint32_t i = reply->first; i < reply->count; i++) {
        Tca__Mapping *mapping = reply->mappings[i];
        if (mapping->region_fd || mapping->session_fd || mapping->lane_fd)
            carriers[event.n_mappings++] = mapping;
    }
    event.kind = TCA__EVENT__KIND__MAPPINGS;
    event.mappings = carriers;
    session_event_fds(reply->session, &event, reply->fds, reply->fd_count);
    for (size_t i = 0; i < event.n_mappings; i++)
        carriers[i]->region_fd = carriers[i]->session_fd = carriers[i]->lane_fd = 0;
    forget_fds(reply);
}

/* Makes room for the descriptors of one more mapping. */
static void make_room(struct plan_reply *reply)
{
    if (reply->fd_count + MAPPING_FDS_MAX > REPLY_FDS_MAX)
        send_early(reply);
}

static void map_segment(const struct session *session, Tca__Mapping *mapping,
                        struct plan_reply *reply)
{
    mapping->session = session->id;
    mapping->segment_bytes = NOTIFY_SEGMENT_BYTES;
    mapping->session_fd = attach(reply, session->notify_fd);
}

/* ---- copy modes: by the sender alone, or shared with the receiver (proto/lane.h) ---- */

/* The receivers that a chain notifies from some step on. */
struct notified {
    enum { NOTIFIED_NOBODY, NOTIFIED_ONE, NOTIFIED_SEVERAL } who;
    uint64_t session; /* that session */
};

static struct notified add_notified(struct notified notified, const struct plan_transfer *transfer)
{
    if (!transfer->notify || notified.who == NOTIFIED_SEVERAL)
        return notified;
    if (notified.who == NOTIFIED_ONE && notified.session != transfer->notify_session)
        return (struct notified){.who = NOTIFIED_SEVERAL};
    return (struct notified){NOTIFIED_ONE, transfer->notify_session};
}

/* A notified process may rely on the data, and only the receiver itself can take part in the
 * copying before it does. */
static void mark_notified(const struct plan_chain *chain)
{
    struct notified notified = {.who = NOTIFIED_NOBODY};
    for (uint32_t i = chain->transfer_count; i-- > 0;) {
        struct plan_transfer *transfer = &chain->transfers[i];
        notified = add_notified(notified, transfer);
        transfer->only_owner_notified =
            notified.who == NOTIFIED_ONE && notified.session == transfer->owner;
    }
}

static enum copy_method copy_mode_of_transfer(const struct plan *plan,
                                              const struct plan_transfer *transfer)
{
    if (transfer->combine || transfer->parts)
        return COPY_PUSH;
    if (transfer->region->dmabuf ||
        transfer->source->dmabuf) /* only the sender minds its ordering */
        return COPY_PUSH;
    if (plan->chains[transfer->chain].unshared || transfer->owner == plan->session->id)
        return COPY_PUSH;
    if (plan->wanted_copy_mode)
        return plan->wanted_copy_mode;
    return copy_share_pays(transfer->target_layout, transfer->source_layout) ? COPY_NONE
                                                                             : COPY_PUSH;
}

/* ---- mappings ---- */

/* Adds the copy mode and the lane, which needs the owner's segment even if the put does not
 * notify. */
static void share_transfer(struct plan *plan, struct plan_transfer *transfer, Tca__Mapping *mapping,
                           struct plan_reply *reply)
{
    int lane_fd = -1;
    transfer->copy_mode = copy_mode_of_transfer(plan, transfer);
    if (transfer->copy_mode != COPY_PUSH && !lane_offer(plan, transfer, &lane_fd))
        transfer->copy_mode = COPY_PUSH;
    if (lane_fd >= 0) {
        reply->own[reply->own_count++] = lane_fd;
        mapping->lane_fd = attach(reply, lane_fd);
    }
    if (transfer->copy_mode != COPY_PUSH && !mapping->session)
        map_segment(session_find(plan->tcad, transfer->owner), mapping, reply);
    mapping->copy_method = transfer->copy_mode;
    mapping->share = transfer->copy_mode == COPY_PUSH ? 0 : transfer->share;
}

static void map_region(const struct plan *plan, struct region *region, Tca__Mapping *mapping,
                       struct plan_reply *reply)
{
    mapping->region_fd = attach(reply, region->fd);
    mapping->region_offset = region->offset_bytes;
    region_view_note(plan->session, region);
}

static void map_transfer(struct plan *plan, struct plan_transfer *transfer, Tca__Mapping *mapping,
                         struct plan_reply *reply)
{
    tca__mapping__init(mapping);
    if (transfer->pair) {
        mapping->pair = transfer->pair;
        mapping->landing = transfer->landing;
        mapping->generation = transfer->generation;
        return;
    }
    if (transfer->region) {
        mapping->region = transfer->region->id;
        mapping->region_address = transfer->region->address;
        mapping->region_bytes = transfer->region->bytes;
        map_region(plan, transfer->region, mapping, reply);
        mapping->offset = transfer->handle.offset_bytes + transfer->target_offset;
        mapping->owner = transfer->owner;
    }
    if (transfer->notify || transfer->signal) {
        struct session *session =
            session_find(plan->tcad, transfer->signal ? transfer->owner : transfer->notify_session);
        if (!session)
            return; /* it has just ended, so the plan is about to break */
        map_segment(session, mapping, reply);
        mapping->line = transfer->line;
    }
}

static void map_step(struct plan_reply *reply, const struct plan_step *step)
{
    struct plan *plan = reply->plan;
    if (step->is_wait)
        return;
    struct plan_transfer *transfer = &plan->transfers[step->transfer];
    Tca__Mapping *mapping = &reply->room[reply->count];
    make_room(reply);
    map_transfer(plan, transfer, mapping, reply);
    mapping->waits = transfer->order.waits;
    mapping->landed =
        transfer->order.landed[0] != ORDER_NOTHING || transfer->order.landed[1] != ORDER_NOTHING;
    if (transfer->region && !transfer->signal && transfer->only_owner_notified)
        share_transfer(plan, transfer, mapping, reply);
    reply->mappings[reply->count++] = mapping;
}

static bool is_mapped(const struct plan *plan, const struct plan_chain *chain)
{
    return plan_joins(plan, SEAT_CLIENT) || chain->bound.seat == SEAT_CLIENT;
}

static void begin_chain(struct plan_reply *reply)
{
    struct plan *plan = reply->plan;
    const struct plan_chain *chain = &plan->chains[reply->chain];
    Tca__ChainCommitted *committed = &reply->chains[reply->chain];
    mark_notified(chain);
    tca__chain_committed__init(committed);
    reply->chain_list[reply->chain] = committed;
    const bool rises = plan_joins(plan, SEAT_CLIENT);
    committed->rail = rises ? chain->pair_rail : chain->bound.rail;
    committed->seat = rises ? SEAT_CLIENT : chain->bound.seat;
    committed->predicted_ns = chain->predicted_ns;
    committed->rails = chain->rails;
    committed->mappings = &reply->mappings[reply->count];
}

/* Returns true when the chain is complete; false: the slice is over, or the client has to read
 * first. */
static bool map_chain(struct plan_reply *reply)
{
    const struct plan *plan = reply->plan;
    const struct plan_chain *chain = &plan->chains[reply->chain];
    if (reply->step == 0)
        begin_chain(reply);
    for (; is_mapped(plan, chain) && reply->step < chain->step_count; reply->step++) {
        if (session_backlog(reply->session) > 0 ||
            (reply->step % SLICE_STEPS == SLICE_STEPS - 1 && loop_slice_over(plan->tcad->loop)))
            return false;
        map_step(reply, &chain->steps[reply->step]);
    }
    Tca__ChainCommitted *committed = &reply->chains[reply->chain];
    committed->n_mappings = (size_t)(&reply->mappings[reply->count] - committed->mappings);
    reply->step = 0;
    reply->chain++;
    return true;
}

/* ---- MAPPING ---- */

/* Runs in the worker. */
static void pack(void *context)
{
    struct plan *plan = context;
    struct plan_reply *reply = plan->reply;
    reply->memfd = frame_pack(&reply->message.base, &reply->packed_bytes);
}

static void packed(void *context)
{
    struct plan *plan = context;
    if (plan->reply->memfd < 0)
        plan_fail(plan, plan->reply->memfd, "the reply to a commit could not be packed");
    plan_done(plan);
}

static void not_packed(void *context)
{
    plan_fail(context, -ECANCELED, "tcad is ending");
    plan_done(context);
}

/* Returns true if packed() will be called. */
static bool pack_later(struct plan_reply *reply)
{
    struct plan *plan = reply->plan;
    if (reply->count <= PACK_MAX || !plan_goes_on(plan))
        return false;
    send_early(reply);
    return worker_submit(plan->tcad->worker, plan->session->uid, pack, packed, not_packed, plan) ==
           0;
}

static void map_again(void *context);

static bool map_some(void *context)
{
    struct plan *plan = context;
    struct plan_reply *reply = plan->reply;
    while (reply->chain < plan->chain_count && plan_goes_on(plan)) {
        if (map_chain(reply) && !loop_slice_over(plan->tcad->loop))
            continue;
        send_early(reply);
        reply->wait = (struct client_wait){.drained = map_again, .context = plan};
        return !session_await_reader(plan->session, &reply->wait);
    }
    if (!pack_later(reply))
        plan_done(plan);
    return false;
}

/* The client has read what was queued for it. */
static void map_again(void *context)
{
    struct plan *plan = context;
    loop_job_begin(plan->tcad->loop, &plan->job, map_some, plan);
}

static uint32_t count_mappings(const struct plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        count += is_mapped(plan, &plan->chains[i]) ? plan->chains[i].step_count : 0;
    return count;
}

static struct plan_reply *reply_new(struct plan *plan)
{
    const uint32_t count = count_mappings(plan);
    struct plan_reply *reply = calloc(1, sizeof(*reply));
    plan->reply = reply;
    if (!reply)
        return NULL;
    *reply = (struct plan_reply){.plan = plan,
                                 .session = plan->session,
                                 .committed = TCA__PLAN_COMMITTED__INIT,
                                 .event = TCA__EVENT__INIT,
                                 .message = TCA__MESSAGE__INIT,
                                 .memfd = -1};
    reply->chains = calloc(plan->chain_count + 1, sizeof(*reply->chains));
    reply->chain_list = calloc(plan->chain_count + 1, sizeof(*reply->chain_list));
    reply->room = malloc((count + 1) * sizeof(*reply->room)); /* + 1: never of 0 bytes */
    reply->mappings = malloc((count + 1) * sizeof(*reply->mappings));
    reply->committed.plan = plan->id;
    reply->committed.n_chains = plan->chain_count;
    reply->committed.chains = reply->chain_list;
    reply->event.kind = TCA__EVENT__KIND__PLAN_PAIRED;
    reply->event.plan = plan->id;
    reply->event.committed = &reply->committed;
    if (plan_joins(plan, SEAT_CLIENT))
        reply->message = (Tca__Message)MESSAGE_OF(EVENT, event, &reply->event);
    else
        reply->message =
            (Tca__Message)MESSAGE_OF(PLAN_COMMITTED, plan_committed, &reply->committed);
    return reply->chains && reply->chain_list && reply->room && reply->mappings ? reply : NULL;
}

void plan_do_map(struct plan *plan)
{
    if (!reply_new(plan)) {
        plan_fail(plan, -ENOMEM, "out of memory for the reply to a commit");
        return;
    }
    plan_note_rails(plan);
    plan->reply->committed.seats = plan_offers_seats(plan);
    plan->reply->committed.rises = plan->state < PLAN_READY && plan_is_below(plan);
    plan->pending++;
    loop_job_begin(plan->tcad->loop, &plan->job, map_some, plan);
}

void plan_reply_free(struct plan *plan)
{
    struct plan_reply *reply = plan->reply;
    if (!reply)
        return;
    forget_fds(reply);
    if (reply->memfd >= 0)
        close(reply->memfd);
    free(reply->chains);
    free(reply->chain_list);
    free(reply->room);
    free(reply->mappings);
    free(reply);
    plan->reply = NULL;
}

void plan_reply(struct plan *plan)
{
    const struct plan_reply *reply = plan->reply;
    if (plan_joins(plan, SEAT_CLIENT))
        session_event_packed(plan->session, &reply->event, reply->memfd, reply->packed_bytes);
    else if (reply->memfd < 0)
        session_answer(plan->session, plan->tag, &reply->message, reply->fds, reply->fd_count);
    else if (plan->session->client)
        client_send_memfd(plan->session->client, plan->tag, reply->memfd, reply->packed_bytes, NULL,
                          0);
    plan->tag = 0;
    plan_reply_free(plan);
}
