/* Packets: sending, receiving, credits. */
#include "client/msg/msg.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/seats.h"

/* Sizes of the puts; a packet takes the first that it fits into. One line crosses most cheaply. */
static const uint32_t class_bytes[MSG_CLASSES] = {64, 256, MSG_PACKET_BYTES};

/* ---- sending */

static_assert(MSG_RING - MSG_CREDIT == 8,
              "tca-msg.h: sends are complete while the receiver is up to 8 messages behind");

/* 1, 0, or the error with which there will be none any more. */
static int has_room(struct msg_peer *peer, struct tca_msg *msg)
{
    int r;

    if (peer->sent - peer->confirmed < MSG_RING)
        return 1;
    while ((r = session_take_all(msg->session, &peer->confirmations, MSG_RING)) > 0)
        peer->confirmed += (uint32_t)r * MSG_CREDIT;
    return peer->sent - peer->confirmed < MSG_RING ? 1 : r;
}

static __attribute__((noinline, cold)) int make_put(struct msg_peer *peer, struct tca_msg *msg,
                                                    uint32_t place, uint32_t size)
{
    uint64_t offset = (uint64_t)place * MSG_PACKET_BYTES;
    struct tca_put put = {
        .source_address = peer->staging + offset,
        .target = peer->area,
        .target_offset_bytes = peer->area_bytes + offsetof(struct msg_area, packets) + offset,
        .bytes = class_bytes[size],
    };
    struct tca_plan *plan = NULL;
    int r = msg_plan_new(msg, peer->rank, &plan);

    if (r >= 0) {
        plan_puts_apart(plan); /* a send that is complete arrives without another call */
        r = tca_plan_put(plan, &put);
    }
    if (r >= 0)
        r = tca_plan_notify(plan, peer->rank, peer->slot + MSG_SLOT_RING);
    if (r >= 0)
        r = msg_commit(peer, plan);
    if (r < 0)
        tca_plan_free(plan);
    else
        peer->puts[place][size] = plan;
    return r;
}

/* Where packets are written: in the other rank's ring, or in a copy of it from which they are
 * put. */
static int begin(struct msg_peer *peer, struct tca_msg *msg)
{
    void *staging = NULL;

    if (peer->copies && (peer->ring = msg_direct_ring(peer, msg)))
        return msg_plan_notify(peer, msg, peer->slot + MSG_SLOT_RING, &peer->bell);
    int r = tca_alloc(msg->session, MSG_RING * MSG_PACKET_BYTES, &staging);
    if (r >= 0)
        peer->ring = peer->staging = staging;
    return r;
}

/* Where the payload of the next packet goes. */
static int reserve(struct msg_peer *peer, struct tca_msg *msg, uint8_t **ret_payload)
{
    int r = peer->staging || peer->bell ? 0 : begin(peer, msg);

    if (r < 0)
        return r;
    *ret_payload =
        peer->ring + (peer->sent + 1) % MSG_RING * MSG_PACKET_BYTES + sizeof(struct msg_head);
    return 0;
}

/* The plan that brings a packet to the other rank, or says that it is there. */
static int plan_of(struct msg_peer *peer, struct tca_msg *msg, uint32_t place, uint64_t bytes,
                   struct tca_plan **ret_plan)
{
    uint32_t size = 0;

    *ret_plan = peer->bell;
    if (peer->bell)
        return 0;
    while (bytes > class_bytes[size])
        size++;
    int r = peer->puts[place][size] ? 0 : make_put(peer, msg, place, size);
    *ret_plan = peer->puts[place][size];
    return r;
}

/* Sends the packet whose payload is in place. */
static int post(struct msg_peer *peer, struct tca_msg *msg, struct msg_head head)
{
    const uint32_t place = (peer->sent + 1) % MSG_RING;
    struct tca_plan *plan;
    int r = plan_of(peer, msg, place, sizeof(head) + head.bytes, &plan);

    if (r >= 0) {
        head.seq = ++peer->sent;
        head.kind |= peer->bell ? MSG_STRAIGHT : 0;
        memcpy(peer->ring + (size_t)place * MSG_PACKET_BYTES, &head, sizeof(head));
        r = msg_plan_start(msg, plan);
    }
    return r < 0 ? r : 0;
}

static int send_note(struct msg_peer *peer, struct tca_msg *msg, struct msg_head head,
                     const void *payload)
{
    uint8_t *to = NULL;
    int r = reserve(peer, msg, &to);

    if (r < 0)
        return r;
    if (head.bytes > 0)
        memcpy(to, payload, head.bytes);
    r = post(peer, msg, head);
    return msg_has_ended(r) ? 0 : r; /* nobody needs it any more */
}

/* The answer of a receive that has taken what it was offered, or does not take it. */
static int tell_taken(struct tca_msg_request *request)
{
    const struct msg_note nothing = {0};
    const struct msg_head head = {.kind = MSG_GRANT,
                                  .index = TCA_MSG_PAIRS,
                                  .bytes = sizeof(nothing),
                                  .request = request->offer};
    const int r = send_note(request->peer, request->msg, head, &nothing);

    msg_done(request, request->status);
    return r;
}

/* The offer of a long message, or a short one to which there must be an answer. */
static int send_offer(struct tca_msg_request *request, struct msg_head head)
{
    struct msg_peer *peer = request->peer;
    const bool whole = msg_is_eager(request);
    struct msg_offer offer = {
        .bytes = request->room, .context = request->context, .planned = request->planned};
    uint8_t *to = NULL;

    if (!whole)
        offer.place = msg_direct_place(request, &offer.stage);
    int r = reserve(peer, request->msg, &to);
    if (r < 0)
        return r;
    memcpy(to, &offer, sizeof(offer));
    if (whole && (r = msg_gather(request, to + sizeof(offer))) < 0)
        return r;
    head.kind = MSG_OFFER;
    head.bytes = (uint16_t)(sizeof(offer) + (whole ? request->room : 0));
    request->state = MSG_OFFERED;
    r = post(peer, request->msg, head);
    if (r >= 0 && request->stage)
        msg_stage_pack(request);
    return msg_has_ended(r) ? 0 : r; /* no answer comes */
}

/* A short message whose data is copied as it is, to a rank whose ring is here. */
static inline bool is_plain(const struct tca_msg_request *request)
{
    return request->peer->bell && request->room <= TCA_MSG_EAGER_BYTES && !request->synchronous &&
           !request->layout;
}

static inline int send_plain(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;
    const struct msg_head head = {.seq = peer->sent + 1,
                                  .kind = MSG_SHORT | MSG_STRAIGHT,
                                  .bytes = (uint16_t)request->room,
                                  .tag = request->tag,
                                  .request = request->context};
    uint8_t *packet = peer->ring + (size_t)(head.seq % MSG_RING) * MSG_PACKET_BYTES;

    if (request->room > 0)
        memcpy(packet + sizeof(head), request->address, request->room);
    memcpy(packet, &head, sizeof(head));
    peer->sent++;
    const int r = msg_plan_start(request->msg, peer->bell);
    if (r >= 0)
        msg_done(request, 0);
    return r;
}

/* A message, or the offer of one. */
static int send_request(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;
    struct msg_head head = {.kind = MSG_SHORT, .tag = request->tag, .request = request->number};
    uint8_t *to = NULL;
    int r;

    if (!request->sends)
        return tell_taken(request);
    if (is_plain(request) && msg_direct_pass(request, peer->sent + 1))
        return send_plain(request);
    r = peer->copies ? msg_direct_send(request, peer->sent + 1, &head) : 0;
    if (r < 0)
        return r;
    if (r > 0) {
        head.bytes = sizeof(request->room);
        r = send_note(peer, request->msg, head, &request->room);
        msg_done(request, 0);
        return r;
    }
    if (request->synchronous || !msg_is_eager(request))
        return send_offer(request, head);
    head.request = request->context;
    head.bytes = (uint16_t)request->room;
    if ((r = reserve(peer, request->msg, &to)) >= 0 && (r = msg_gather(request, to)) >= 0)
        r = post(peer, request->msg, head);
    if (r >= 0)
        msg_done(request, 0);
    return r;
}

static void queue(struct msg_peer *peer, struct msg_out *out)
{
    out->next = NULL;
    if (peer->out)
        *peer->out_last = out;
    else
        peer->out = out;
    peer->out_last = &out->next;
}

int msg_note_send(struct msg_peer *peer, struct tca_msg *msg, struct msg_head head,
                  const void *payload)
{
    if (!peer->out && has_room(peer, msg) > 0)
        return send_note(peer, msg, head, payload);
    struct msg_out *out = malloc(sizeof(*out) + head.bytes);
    if (!out)
        return error_static(-ENOMEM, "message: out of memory");
    *out = (struct msg_out){.head = head, .payload = (uint8_t *)(out + 1)};
    if (head.bytes > 0)
        memcpy(out->payload, payload, head.bytes);
    queue(peer, out);
    return 0;
}

int msg_request_send(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;

    const int room = peer->sent - peer->confirmed < MSG_RING ? 1 : has_room(peer, request->msg);
    if (room < 0)
        return room;
    if (!peer->out && room > 0)
        return send_request(request);
    request->state = MSG_QUEUED;
    request->out.request = request;
    queue(peer, &request->out);
    return 0;
}

static int flush_out(struct msg_peer *peer, struct tca_msg *msg)
{
    int r = 0;

    if ((int32_t)(peer->sent - peer->confirmed) < 0)
        return error_static(-EPROTO, "packets that were never sent have been confirmed");
    while (r >= 0 && peer->out && has_room(peer, msg) > 0) {
        struct msg_out *out = peer->out;
        peer->out = out->next;
        if (out->request) {
            r = send_request(out->request);
        } else {
            r = send_note(peer, msg, out->head, out->payload);
            free(out);
        }
    }
    return r;
}

/* ---- receiving */

static const uint8_t *packet_of(const struct msg_peer *peer, uint32_t seq)
{
    return peer->here->packets[seq % MSG_RING];
}

static bool is_here(const struct msg_peer *peer, uint32_t seq)
{
    return ((const struct msg_head *)packet_of(peer, seq))->seq == seq;
}

static bool is_straight(const struct msg_peer *peer, uint32_t seq)
{
    return ((const struct msg_head *)packet_of(peer, seq))->kind & MSG_STRAIGHT;
}

/* The packets whose heads are here. Read after the notifications were taken. */
static uint32_t visible(const struct msg_peer *peer)
{
    uint32_t count = 0;

    for (uint32_t seq = peer->taken + 1; seq != peer->taken + 1 + MSG_RING; seq++)
        count += is_here(peer, seq);
    return count;
}

/* The other rank has seen the last credit of this turn: without it, it could not have sent what
 * makes this one due. */
static int give_credit(struct msg_peer *peer, struct tca_msg *msg)
{
    struct tca_plan **plan = &peer->credits[peer->given % (MSG_RING / MSG_CREDIT)];
    int r =
        *plan ? tca_test(*plan) : msg_plan_notify(peer, msg, peer->slot + MSG_SLOT_CREDIT, plan);

    if (r >= 0)
        r = msg_plan_start(msg, *plan);
    if (r >= 0) {
        peer->given++;
        peer->owed--;
    }
    return r;
}

/* All of them: this rank may not call again before it waits for what the other one sends then. */
static int give_credits(struct msg_peer *peer, struct tca_msg *msg)
{
    int r = 0;

    while (r >= 0 && peer->owed > 0)
        r = give_credit(peer, msg);
    return r < 0 && !msg_has_ended(r) ? r : 0;
}

static int take_packet(struct msg_peer *peer, struct tca_msg *msg)
{
    const uint8_t *packet = packet_of(peer, peer->taken + 1);
    struct msg_head head;

    memcpy(&head, packet, sizeof(head)); /* once: the other rank can write it at any time */
    head.kind &= (uint8_t)~MSG_STRAIGHT;
    int r = head.bytes > TCA_MSG_EAGER_BYTES
                ? error_set(-EPROTO, "a packet of %u bytes: at most %d are possible", head.bytes,
                            TCA_MSG_EAGER_BYTES)
                : msg_take(peer, msg, &head, packet + sizeof(head));
    peer->taken++;
    peer->pending--;
    peer->owed += peer->taken % MSG_CREDIT == 0;
    return r;
}

/* How many of the packets that come next are complete. A rail may deliver packets, as those of any
 * plans, in another order. The notification of one does not say that an earlier one is complete,
 * even if its head is here: all packets whose heads are here are complete when as many
 * notifications have arrived. */
static int complete(const struct msg_peer *peer)
{
    uint32_t count = peer->pending;

    if (count > MSG_RING || !is_here(peer, peer->taken + 1) || !is_straight(peer, peer->taken + 1))
        count = visible(peer);
    if (peer->pending > count)
        return error_static(-EPROTO, "a notification without its packet");
    return peer->pending < count ? 0 : (int)count;
}

static int take_packets(struct msg_peer *peer, struct tca_msg *msg)
{
    int count = complete(peer), r = count < 0 ? count : 0;

    for (;
         r >= 0 && count > 0 && peer->early_count < MSG_EARLY_MAX && is_here(peer, peer->taken + 1);
         count--)
        r = take_packet(peer, msg);
    return r;
}

/* ---- everything of one rank */

/* The data of pairs and of long messages. ret_end: see progress(). */
static int take_data(struct msg_peer *peer, int *ret_end)
{
    int r = 0;

    for (uint32_t bits = peer->data_taken; r >= 0 && bits; bits &= bits - 1) {
        struct tca_msg_request *request = peer->receives[__builtin_ctz(bits)];
        if (!request || request->state != MSG_MOVING)
            continue;
        bool pair = request->persistent;
        int arrived = pair ? msg_pair_test(request) : msg_large_test(request, &r);
        if (arrived < 0)
            *ret_end = arrived;
        if (pair && request->state == MSG_DONE)
            msg_pair_reap(request);
    }
    return r;
}

/* Makes the cache line where the next packet begins come with the one that tells. */
static void expect_packet(const struct msg_peer *peer)
{
    __builtin_prefetch(packet_of(peer, peer->taken + 1));
}

/* < 0: it has failed. ret_end: the error with which notifications from the rank end; what had
 * arrived before was perhaps not taken yet. */
static int progress(struct msg_peer *peer, struct tca_msg *msg, int *ret_end)
{
    int r;

    r = session_take_all(msg->session, &peer->arrivals, MSG_RING);
    peer->pending += r > 0 ? (uint32_t)r : 0;
    *ret_end = r < 0 ? r : 0;
    r = peer->direct && peer->direct->staging.first ? msg_stage_progress(peer->direct) : 0;
    if (r >= 0 && peer->pending > 0)
        r = take_packets(peer, msg);
    else
        expect_packet(peer);
    if (r >= 0 && peer->owed > 0)
        r = give_credits(peer, msg);
    if (r >= 0 && peer->data_taken)
        r = take_data(peer, ret_end);
    if (r >= 0 && peer->out)
        r = flush_out(peer, msg);
    if (r >= 0 && peer->held.first)
        r = msg_short_progress(peer);
    if (r >= 0 && peer->leaving.first)
        r = msg_pair_progress(peer);
    if (r >= 0 && peer->waiting.first)
        r = msg_pair_introduce(peer, msg);
    if (r >= 0 && (peer->moving.first || peer->granted.first))
        r = msg_large_progress(peer, msg);
    return r;
}

/* Errors that say that the rank has ended, for example of an answer to it, do not keep what it has
 * sent from being taken. Each of them has taken something, so that this ends. */
static int take_all(struct msg_peer *peer, struct tca_msg *msg, int *ret_end)
{
    int ended = 0, r;

    while ((r = progress(peer, msg, ret_end)) < 0 && msg_has_ended(r))
        ended = r;
    if (ended)
        *ret_end = ended;
    return r;
}

int msg_peer_progress(struct msg_peer *peer, struct tca_msg *msg)
{
    int end = 0, end_again = 0;

    if (peer->failed) { /* its plans still show which sends have completed */
        msg_large_progress(peer, msg);
        msg_pair_progress(peer);
        return peer->failed;
    }
    int r = take_all(peer, msg, &end);
    if (r >= 0 && end < 0) { /* nothing arrives any more: take the rest */
        r = take_all(peer, msg, &end_again);
        if (r >= 0)
            r = end;
    }
    return r < 0 ? msg_peer_fail(peer, msg, r) : 0;
}

int msg_peer_lost(struct msg_peer *peer, struct tca_msg *msg, int error)
{
    if (msg_has_ended(error))
        msg_peer_progress(peer, msg);
    return msg_peer_fail(peer, msg, error);
}

static void check_plan(struct msg_peer *peer, struct tca_msg *msg, struct tca_plan *plan)
{
    int r = plan ? tca_test(plan) : 0;

    if (r < 0 && !msg_has_ended(r))
        msg_peer_fail(peer, msg, r);
}

/* What the rail has lost is noticed by its plan only. */
void msg_peer_check(struct msg_peer *peer, struct tca_msg *msg)
{
    check_plan(peer, msg, peer->bell);
    for (uint32_t place = 0; peer->staging && !peer->failed && place < MSG_RING; place++)
        for (uint32_t size = 0; size < MSG_CLASSES; size++)
            check_plan(peer, msg, peer->puts[place][size]);
    for (uint32_t i = 0; !peer->failed && i < TCA_MSG_PAIRS; i++)
        if (peer->receives[i])
            check_plan(peer, msg, peer->receives[i]->plan);
}
