/* One-shot messages: what arrives finds its receive, and receives find what has arrived. */
#include "client/msg/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"

static struct match_key key_of(const struct msg_peer *peer, const struct msg_head *head)
{
    return (struct match_key){.rank = peer->rank, .tag = head->tag};
}

static void deliver(struct tca_msg_request *request, const void *data, uint64_t bytes)
{
    request->bytes = bytes;
    msg_done(request, bytes > request->room ? -EMSGSIZE : msg_scatter(request, data, bytes));
}

static int accept_offer(struct tca_msg_request *request, uint32_t number, uint64_t bytes,
                        struct near_place place)
{
    request->offer = number;
    request->bytes = bytes;
    const int pulled = bytes <= request->room ? msg_direct_pull(request, place) : 0;
    if (pulled != 0)
        return pulled < 0 ? pulled : 0;
    return msg_grant(request);
}

static void set_source(struct tca_msg_request *request, struct match_key key)
{
    request->peer = &request->msg->peers[key.rank];
    request->tag = key.tag;
}

/* The receive that gets a message. NULL: none was posted. */
static struct tca_msg_request *find_posted(struct tca_msg *msg, struct match_key key)
{
    struct match_receive *receive = match_take_receive(&msg->matching, key);

    if (!receive)
        return NULL;
    struct tca_msg_request *request = msg_request_of(receive);
    set_source(request, key);
    msg_unannounce(request);
    request->state = MSG_QUEUED; /* matched, also if its answer fails, and with it the peer */
    return request;
}

/* ---- messages without a receive */

/* data: of a short message. */
static int keep(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
                const uint8_t *data, struct msg_offer offer)
{
    const uint64_t copied = data ? offer.bytes : 0;
    struct msg_early *early = malloc(sizeof(*early) + copied);

    if (!early)
        return error_static(-ENOMEM, "message: out of memory");
    early->offer = head->request;
    early->offered = !data;
    early->bytes = offer.bytes;
    early->place = offer.place;
    if (copied > 0)
        memcpy(early->data, data, copied);
    match_keep(&msg->matching, &early->message, key_of(peer, head));
    peer->early_count++;
    return 0;
}

/* Gives a receive the first message that it takes. Negative: the receive failed, or its rank. */
static int receive_early(struct tca_msg_request *request, struct match_message *message)
{
    struct msg_early *early = (struct msg_early *)message; /* its first member */
    struct tca_msg *msg = request->msg;
    int r = 0;

    set_source(request, match_key_of(message));
    if (early->offered && request->peer->failed)
        r = msg_peer_failed(request->peer);
    else if (early->offered &&
             (r = accept_offer(request, early->offer, early->bytes, early->place)) < 0)
        msg_peer_lost(request->peer, msg, r);
    else if (!early->offered)
        deliver(request, early->data, early->bytes);
    match_drop(&msg->matching, message);
    request->peer->early_count--;
    free(early);
    return r;
}

void msg_forget_early(struct tca_msg *msg)
{
    struct match_message *message;

    while ((message = match_some_message(&msg->matching))) {
        match_drop(&msg->matching, message);
        free(message);
    }
}

/* ---- packets */

static int take_short(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
                      const uint8_t *payload)
{
    struct tca_msg_request *request = find_posted(msg, key_of(peer, head));

    if (!request)
        return keep(peer, msg, head, payload, (struct msg_offer){.bytes = head->bytes});
    deliver(request, payload, head->bytes);
    return 0;
}

static int take_offer(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
                      const uint8_t *payload)
{
    struct tca_msg_request *request = find_posted(msg, key_of(peer, head));
    struct msg_offer offer;

    memcpy(&offer, payload, sizeof(offer));
    return request ? accept_offer(request, head->request, offer.bytes, offer.place)
                   : keep(peer, msg, head, NULL, offer);
}

static int invalid(const struct msg_head *head)
{
    return error_set(-EPROTO, "an invalid packet: kind %u, index %u, %u bytes", head->kind,
                     head->index, head->bytes);
}

/* A grant or a notice. */
static int take_target(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
                       const uint8_t *payload)
{
    struct msg_target target;
    int r = msg_note_read(head, payload, &target);

    if (r < 0)
        return r;
    r = head->kind == MSG_GRANT ? msg_take_grant(peer, msg, head, &target)
                                : msg_take_notice(peer, msg, head, &target);
    tca_layout_free(target.layout); /* unless it was taken over */
    return r;
}

/* Packets about a pair or a long message: `index` and length are checked here. */
static int take_note(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
                     const uint8_t *payload)
{
    uint64_t value;

    memcpy(&value, payload, sizeof(value)); /* valid if its kind has one */
    bool pair = head->index < TCA_MSG_PAIRS;
    if (head->kind == MSG_GRANT && !pair && head->index < MSG_DATA &&
        head->bytes >= sizeof(struct msg_note))
        return take_target(peer, msg, head, payload);
    if (head->kind == MSG_NOTICE && pair && head->bytes >= sizeof(struct msg_note))
        return take_target(peer, msg, head, payload);
    if (head->kind == MSG_OFFER && head->bytes == sizeof(struct msg_offer))
        return take_offer(peer, msg, head, payload);
    if (head->kind == MSG_PLACED && head->bytes == sizeof(value))
        return msg_take_placed(peer, head, value);
    if (head->kind == MSG_PAIRED && pair && head->bytes == sizeof(value))
        return msg_take_paired(peer, head->index, head->tag, value);
    if (head->kind == MSG_RECV_GONE && pair && head->bytes == sizeof(value))
        return msg_take_recv_gone(peer, msg, head->index, value);
    if (head->kind == MSG_SEND_GONE && pair && head->bytes == sizeof(value))
        return msg_take_send_gone(peer, msg, head->index, value);
    return invalid(head);
}

int msg_take(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
             const uint8_t *payload)
{
    if ((head->kind == MSG_SHORT || head->kind == MSG_OFFER) && head->tag == TCA_MSG_ANY)
        return error_static(-EPROTO, "a message with the tag TCA_MSG_ANY");
    if (head->kind == MSG_SHORT)
        return take_short(peer, msg, head, payload);
    return take_note(peer, msg, head, payload);
}

/* ---- one-shot requests */

int tca_msg_send(struct tca_msg *msg, uint32_t rank, uint32_t tag,
                 const struct tca_msg_buffer *buffer, struct tca_msg_request **ret_request)
{
    struct tca_msg_request *request = NULL;
    int r = msg_request_new(msg, rank, tag, buffer, true, &request);

    if (r < 0)
        return r;
    request->planned = request->peer->copies && msg_direct_is_planned(request);
    r = request->peer->failed ? msg_peer_failed(request->peer) : msg_request_send(request);
    if (r < 0) {
        msg_request_free(request);
        if (!msg->peers[rank].failed)
            msg_peer_lost(&msg->peers[rank], msg, r);
        return msg_error_of(r);
    }
    *ret_request = request;
    return 0;
}

/* Whether no other rank is left. */
static bool is_alone(const struct tca_msg *msg)
{
    uint32_t live = 0;

    for (uint32_t rank = 0; rank < msg->size; rank++)
        live += !msg->peers[rank].failed;
    return live <= 1 && msg->size > 1;
}

int msg_cannot_come(const struct tca_msg *msg, const struct msg_peer *peer)
{
    if (peer)
        return peer->failed ? msg_peer_failed(peer) : 0;
    if (is_alone(msg))
        return error_static(-EOWNERDEAD, "message from any rank: all other ranks have ended");
    return 0;
}

int tca_msg_recv(struct tca_msg *msg, uint32_t rank, uint32_t tag,
                 const struct tca_msg_buffer *buffer, struct tca_msg_request **ret_request)
{
    const struct match_key key = {.rank = rank, .tag = tag};
    struct tca_msg_request *request = NULL;
    int r = msg_request_new(msg, rank, tag, buffer, false, &request);

    if (r < 0)
        return r;
    struct match_message *message = match_find_message(&msg->matching, key);
    if (message)
        r = receive_early(request, message);
    else if ((r = msg_cannot_come(msg, request->peer)) >= 0) {
        request->state = MSG_POSTED;
        match_post(&msg->matching, &request->posted, key);
        if (request->peer && request->peer->copies)
            msg_announce(request);
    }
    if (r < 0)
        msg_request_free(request);
    else
        *ret_request = request;
    return r;
}
