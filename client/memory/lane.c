#include "client/memory/lane.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/segment.h"
#include "client/memory/mapping.h"
#include "proto/list.h"

/* A put that a sender shares, with what copying it needs. */
struct lane_offer {
    struct target target;
    struct lane_in *in;
    struct lane_put put;
    struct copy_program *program;
    struct mapped_region *source;
    struct lane_offer *next, **link; /* in in->offers or in->withdrawn */
};

/* ---- accepting an offer ---- */

/* The checked layout in a message; NULL: invalid. */
static const struct layout *layout_in(const ProtobufCBinaryData *data)
{
    return layout_check(data->data, data->len, NULL) == 0 ? (const struct layout *)data->data
                                                          : NULL;
}

static int map_source(struct tca *session, const Tca__Share *share, struct frame *frame,
                      struct mapped_region **ret_region)
{
    Tca__Mapping mapping =
        BODY_OF(mapping, .region = share->source_region, .region_address = share->source_address,
                .region_bytes = share->source_bytes, .region_fd = share->source_fd,
                .region_offset = share->source_region_offset);
    return mapping_share_region(session, &mapping, frame, ret_region);
}

/* Compiles the copy program from the layouts, which are aligned, because protobuf-c allocates them,
 * and which are not needed afterwards. */
static int compile(struct lane_offer *offer, const Tca__Share *share,
                   const struct mapped_region *target)
{
    const struct layout *from = layout_in(&share->source_layout),
                        *to =
                            share->target_layout.len > 0 ? layout_in(&share->target_layout) : from;
    uint64_t source_bytes = offer->source ? offer->source->bytes : share->source_bytes;
    if (!from || !to || from->size_bytes != to->size_bytes ||
        !layout_fits(from, share->source_offset, source_bytes) ||
        !layout_fits(to, share->target_offset, target->bytes))
        return -EPROTO;
    int r = copy_program_new_unpack(to, from, &offer->program);
    if (r == 0) {
        offer->put.size_bytes = from->size_bytes;
        offer->put.program = offer->program;
        offer->put.target = target->base + share->target_offset;
    }
    if (r == 0 && offer->source) {
        offer->put.source = offer->source->base + share->source_offset;
        r = segment_populate((void *)(uintptr_t)(offer->put.source + from->lower_bytes),
                             (uint64_t)(from->upper_bytes - from->lower_bytes));
    }
    return r;
}

/* ---- refusing an offer ---- */

static void be_strict(struct tca *session)
{
    atomic_store_explicit(&session->notify->strict, 1, memory_order_relaxed);
    atomic_thread_fence(
        memory_order_seq_cst); /* before the lanes are read: pairs with may_notify() in share.c */
}

/* Makes the senders copy alone from now on: they read `strict`. Entries already left to this
 * process fail. */
static void refuse(struct tca *session, struct lane_in *in, int error)
{
    session->engine_takes++; /* never decremented: strict until the session ends */
    be_strict(session);
    in->error = error;
    in->ours_end = lane_published(&in->lane);
}

static void offer_free(struct tca *session, struct lane_offer *offer)
{
    if (offer->source)
        mapping_unuse(session, offer->source);
    copy_program_free(offer->program);
    free(offer);
}

/* Adds the offer even if it cannot be compiled, so that its entries in the lane are recognized. */
static int add(struct tca *session, struct lane_in *in, const Tca__Share *share,
               struct frame *frame, struct lane_offer *offer)
{
    struct mapped_region *target = mapping_own(session, share->target_region);
    if (!target) { /* freed: the daemon informs the sender */
        lane_skip(&in->lane, share->id);
        return -ESTALE;
    }
    *offer = (struct lane_offer){
        .target = {.kind = TARGET_SHARED_PUT, .number = share->target, .region = target},
        .in = in,
        .put = {.id = share->id}};
    int r = share->source_fd ? map_source(session, share, frame, &offer->source) : -EPROTO;
    if (r == 0)
        r = compile(offer, share, target);
    if (r < 0)
        refuse(session, in, r);
    r = target_add(session, &offer->target, &target->targets);
    if (r == 0 && (r = lane_add(&in->lane, &offer->put)) < 0)
        target_remove(session, &offer->target);
    if (r < 0)
        session_lose(session, r);
    return r;
}

static void accept_offer(struct tca *session, struct lane_in *in, const Tca__Share *share,
                         struct frame *frame)
{
    struct lane_offer *offer = calloc(1, sizeof(*offer));
    if (!offer) {
        session_lose(session, -ENOMEM);
    } else if (add(session, in, share, frame, offer) < 0) {
        offer_free(session, offer);
    } else {
        LIST_ADD(&in->offers, offer, next, link);
    }
}

/* ---- lanes ---- */

static int open_lane(struct tca *session, const Tca__Share *share, const struct frame *frame)
{
    void *base;
    if (share->lane_fd == 0 || share->lane_fd > frame->fd_count)
        return -EPROTO;
    if (!session->lanes_in) {
        session->lanes_in = calloc(session->sources, sizeof(struct lane_in *));
        if (!session->lanes_in)
            return -ENOMEM;
    }
    struct lane_in *in = calloc(1, sizeof(*in));
    int r = in ? segment_map(frame->fds[share->lane_fd - 1], 0, sizeof(struct lane_segment),
                             "a lane", &base)
               : -ENOMEM;
    if (r == 0 && (r = segment_populate(base, sizeof(struct lane_segment))) < 0)
        munmap(base, sizeof(struct lane_segment));
    if (r < 0) {
        free(in);
        return r;
    }
    in->rank = share->rank;
    lane_init(&in->lane, base, LANE_RECEIVER);
    session->lanes_in[share->rank] = in;
    in->next = session->lanes;
    session->lanes = in;
    return 0;
}

static void close_lane(struct lane_in *in)
{
    munmap(in->lane.segment, sizeof(struct lane_segment));
    lane_deinit(&in->lane);
    free(in);
}

void lane_share(struct tca *session, const Tca__Share *share, struct frame *frame)
{
    if (share->rank >= session->sources)
        return;
    int r = lane_in_of(session, share->rank) ? 0 : open_lane(session, share, frame);
    if (r < 0)
        session_lose(session, r);
    else
        accept_offer(session, lane_in_of(session, share->rank), share, frame);
}

static struct lane_offer *offer_of(struct target *target)
{
    return (struct lane_offer *)((uint8_t *)target - offsetof(struct lane_offer, target));
}

static void drop_offer(struct tca *session, struct target *target, const void *none)
{
    struct lane_offer *offer = offer_of(target);
    LIST_REMOVE(offer, next, link);
    target_remove(session, target);
    lane_remove(&offer->in->lane, &offer->put);
    offer_free(session, offer);
}

static void drop_all(struct tca *session, struct lane_offer **list)
{
    standby_enter(session->standby);
    while (*list)
        drop_offer(session, &(*list)->target, NULL);
    standby_leave(session->standby);
}

/* As lane_drain(); takes over the entry that a dead sender was copying. */
static int drain(struct tca *session, struct lane_in *in)
{
    int r = lane_drain(&in->lane);
    /* acquire: its daemon writes the state after the sender's last store */
    if (r == -EAGAIN && atomic_load_explicit(&session->notify->source_state[in->rank],
                                             memory_order_acquire) != SOURCE_ALIVE) {
        lane_take_over(&in->lane);
        r = lane_drain(&in->lane);
    }
    if (r == 0 && in->withdrawn)
        drop_all(session, &in->withdrawn);
    return r;
}

void lanes_withdraw(struct tca *session, const uint32_t *targets, size_t count)
{
    standby_enter(session->standby);
    for (size_t i = 0; i < count; i++) {
        struct target *target = target_find(session, targets[i]);
        if (!target || target->kind != TARGET_SHARED_PUT)
            continue;
        struct lane_offer *offer = offer_of(target);
        LIST_REMOVE(offer, next, link);
        LIST_ADD(&offer->in->withdrawn, offer, next, link);
        drain(session, offer->in); /* the sender may have been killed */
    }
    standby_leave(session->standby);
}

void lanes_forget_region(struct tca *session, const struct mapped_region *region)
{
    standby_enter(session->standby);
    targets_end_in(session, region->targets, TARGET_SHARED_PUT, drop_offer);
    standby_leave(session->standby);
}

static void close_lane_in(struct tca *session, struct lane_in *in)
{
    struct lane_in **link = &session->lanes;
    drop_all(session, &in->offers);
    drop_all(session, &in->withdrawn);
    while (*link != in)
        link = &(*link)->next;
    *link = in->next;
    session->lanes_in[in->rank] = NULL;
    close_lane(in);
}

/* What cannot be copied stays in the lane: a wait for its notification reports why. */
void lane_rank_gone(struct tca *session, uint32_t rank)
{
    struct lane_in *in = lane_in_of(session, rank);
    if (in && drain(session, in) == 0)
        close_lane_in(session, in);
}

int lane_in_drain(struct tca *session, struct lane_in *in)
{
    int r = drain(session, in);
    if (r == -ENOENT) { /* its offer is pending: the daemon sends it before the sender uses it */
        const uint32_t rank = in->rank;
        session_drain(session);
        in = lane_in_of(session, rank);
        if (!in) /* its sender has ended, and all is copied */
            return 1;
        r = drain(session, in);
    }
    if (r == -ENXIO && (int64_t)(in->ours_end - in->lane.next) > 0)
        return error_set(in->error, "cannot copy data that rank %u has put: %s", in->rank,
                         tca_strerror(in->error));
    return r == 0;
}

/* What cannot be copied now is left to a wait for its notification. */
void lanes_help(void *context)
{
    const struct tca *session = context;
    for (struct lane_in *in = session->lanes; in; in = in->next)
        if (lane_pending(&in->lane))
            lane_drain_one(&in->lane);
}

void lanes_drain(const struct tca *session)
{
    for (struct lane_in *in = session->lanes; in; in = in->next)
        if (lane_pending(&in->lane))
            lane_drain(&in->lane);
}

int lanes_strict(struct tca *session, uint64_t end_ns)
{
    be_strict(session);
    session_drain(session); /* learns of new lanes */
    for (uint32_t rank = 0; session->lanes_in && rank < session->sources; rank++) {
        struct lane_in *in;
        int r = 0;
        while ((in = session->lanes_in[rank]) && lane_pending(&in->lane) &&
               (r = lane_in_drain(session, in)) == 0) {
            if (clock_left(end_ns) == 0)
                return error_set(
                    -ETIMEDOUT, "rank %u does not complete its put: is its process stopped?", rank);
            sched_yield();
        }
        if (r < 0)
            return r;
    }
    return 0;
}

void lanes_lenient(struct tca *session)
{
    atomic_store_explicit(&session->notify->strict, 0, memory_order_relaxed);
}

void lanes_clear(struct tca *session)
{
    for (uint32_t rank = 0; session->lanes_in && rank < session->sources; rank++)
        if (session->lanes_in[rank])
            close_lane_in(session, session->lanes_in[rank]);
    free(session->lanes_in);
    session->lanes_in = NULL;
}
