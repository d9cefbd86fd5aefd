/* One-shot messages: what arrives finds its receive, and receives find what has arrived. */
#include "client/msg/msg.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"

static struct match_key key_of(const struct tca_msg_envelope *envelope)
{
    return (struct match_key){
        .context = envelope->context, .rank = envelope->rank, .tag = envelope->tag};
}

static void deliver(struct tca_msg_request *request, const void *data, uint64_t bytes)
{
    request->bytes = bytes;
    if (bytes <= request->room)
        msg_scatter(request, data, bytes);
    msg_done(request, bytes <= request->room ? 0 : -EMSGSIZE);
}

/* data: the whole message; NULL: it has not come. */
static int accept_offer(struct tca_msg_request *request, uint32_t number,
                        const struct msg_offer *offer, const void *data)
{
    request->offer = number;
    request->bytes = offer->bytes;
    if (offer->bytes > request->room)
        return msg_tell_taken(request, -EMSGSIZE);
    if (data) {
        msg_scatter(request, data, offer->bytes);
        return msg_tell_taken(request, 0);
    }
    const int pulled = msg_direct_pull(request, offer);
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

/* offer: of its bytes, if it was not offered. data: the whole message, or NULL. */
static int keep(struct tca_msg *msg, const struct msg_head *head, struct match_key key,
                const struct msg_offer *offer, const uint8_t *data)
{
    const uint64_t copied = data ? offer->bytes : 0;
    struct tca_msg_message *message = malloc(sizeof(*message) + copied);

    if (!message)
        return error_static(-ENOMEM, "message: out of memory");
    message->msg = msg;
    message->link = NULL;
    message->request = head->request;
    message->offered = head->kind == MSG_OFFER;
    message->whole = data || offer->bytes == 0;
    message->offer = *offer;
    if (copied > 0)
        memcpy(message->data, data, copied);
    match_keep(&msg->matching, &message->matched, key);
    msg->peers[key.rank].early_count++;
    return 0;
}

struct tca_msg_message *msg_find(const struct tca_msg *msg, const struct tca_msg_envelope *envelope)
{
    return (struct tca_msg_message *)match_find_message(&msg->matching, key_of(envelope));
}

static_assert(offsetof(struct tca_msg_message, matched) == 0, "NULL stays NULL");

void msg_take_out(struct tca_msg_message *message)
{
    struct tca_msg *msg = message->msg;

    match_drop(&msg->matching, &message->matched);
    message->next = msg->taken;
    message->link = &msg->taken;
    if (msg->taken)
        msg->taken->link = &message->next;
    msg->taken = message;
}

/* Frees a message, which waits for a receive or was taken out. */
static void forget(struct tca_msg_message *message)
{
    struct tca_msg *msg = message->msg;

    if (!message->link) {
        match_drop(&msg->matching, &message->matched);
    } else {
        *message->link = message->next;
        if (message->next)
            message->next->link = message->link;
    }
    msg->peers[match_key_of(&message->matched).rank].early_count--;
    free(message);
}

void msg_forget_messages(struct tca_msg *msg)
{
    struct match_message *matched;

    while ((matched = match_some_message(&msg->matching)))
        forget((struct tca_msg_message *)matched);
    while (msg->taken)
        forget(msg->taken);
}

/* Gives a receive a message that came before it. Negative: its rank has failed. */
static int receive_early(struct tca_msg_request *request, struct tca_msg_message *message)
{
    const void *data = message->whole ? message->data : NULL;
    int r = 0;

    set_source(request, match_key_of(&message->matched));
    struct msg_peer *peer = request->peer;
    if (message->whole && (peer->failed || !message->offered)) {
        deliver(request, data, message->offer.bytes);
    } else if (peer->failed) {
        r = msg_peer_failed(peer);
    } else {
        request->state = MSG_QUEUED; /* matched, as in find_posted() */
        r = accept_offer(request, message->request, &message->offer, data);
    }
    forget(message);
    return r < 0 && !peer->failed ? msg_peer_lost(peer, request->msg, r) : r;
}

/* ---- packets */

static int take_short(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
                      const uint8_t *payload)
{
    const struct match_key key = {.context = head->request, .rank = peer->rank, .tag = head->tag};
    struct tca_msg_request *request = find_posted(msg, key);

    if (!request)
        return keep(msg, head, key, &(struct msg_offer){.bytes = head->bytes}, payload);
    deliver(request, payload, head->bytes);
    return 0;
}

static int take_offer(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
                      const uint8_t *payload)
{
    struct msg_offer offer;

    memcpy(&offer, payload, sizeof(offer));
    const uint64_t bytes = head->bytes - sizeof(offer);
    if (bytes > 0 && bytes != offer.bytes)
        return error_set(-EPROTO, "an offer of %llu bytes with %llu of them",
                         (unsigned long long)offer.bytes, (unsigned long long)bytes);
    const uint8_t *data = bytes > 0 ? payload + sizeof(offer) : NULL;
    const struct match_key key = {.context = offer.context, .rank = peer->rank, .tag = head->tag};
    struct tca_msg_request *request = find_posted(msg, key);
    return request ? accept_offer(request, head->request, &offer, data)
                   : keep(msg, head, key, &offer, data);
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
    if (head->kind == MSG_OFFER && head->bytes >= sizeof(struct msg_offer))
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

int tca_msg_send_to(struct tca_msg *msg, const struct tca_msg_envelope *envelope,
                    const struct tca_msg_buffer *buffer, struct tca_msg_request **ret_request)
{
    struct tca_msg_request *request = NULL;
    int r = msg_request_new(msg, envelope, buffer, true, &request);

    if (r < 0)
        return r;
    struct msg_peer *peer = request->peer;
    request->planned = peer->copies && msg_direct_is_planned(request);
    r = peer->failed ? msg_peer_failed(peer) : msg_request_send(request);
    if (r < 0) {
        msg_request_free(request);
        if (!peer->failed)
            msg_peer_lost(peer, msg, r);
        return msg_error_of(r);
    }
    *ret_request = request;
    return 0;
}

int tca_msg_send(struct tca_msg *msg, uint32_t rank, uint32_t tag,
                 const struct tca_msg_buffer *buffer, struct tca_msg_request **ret_request)
{
    const struct tca_msg_envelope envelope = {.rank = rank, .tag = tag};

    return tca_msg_send_to(msg, &envelope, buffer, ret_request);
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

/* A receive has been made. It may have got its message although the rank has failed since. */
static int finish(struct tca_msg_request *request, int error, struct tca_msg_request **ret_request)
{
    if (error < 0 && !(request->state == MSG_DONE && request->status == 0)) {
        msg_request_free(request);
        return error;
    }
    *ret_request = request;
    return 0;
}

int tca_msg_recv_from(struct tca_msg *msg, const struct tca_msg_envelope *envelope,
                      const struct tca_msg_buffer *buffer, struct tca_msg_request **ret_request)
{
    struct tca_msg_request *request = NULL;
    int r = msg_request_new(msg, envelope, buffer, false, &request);

    if (r < 0)
        return r;
    struct tca_msg_message *message = msg_find(msg, envelope);
    if (message)
        r = receive_early(request, message);
    else if ((r = msg_cannot_come(msg, request->peer)) >= 0) {
        request->state = MSG_POSTED;
        match_post(&msg->matching, &request->posted, key_of(envelope));
        if (request->peer && request->peer->copies)
            msg_announce(request);
    }
    return finish(request, r, ret_request);
}

int tca_msg_recv(struct tca_msg *msg, uint32_t rank, uint32_t tag,
                 const struct tca_msg_buffer *buffer, struct tca_msg_request **ret_request)
{
    const struct tca_msg_envelope envelope = {.rank = rank, .tag = tag};

    return tca_msg_recv_from(msg, &envelope, buffer, ret_request);
}

int tca_msg_recv_message(struct tca_msg_message *message, const struct tca_msg_buffer *buffer,
                         struct tca_msg_request **ret_request)
{
    const struct match_key key = match_key_of(&message->matched);
    const struct tca_msg_envelope envelope = {
        .rank = key.rank, .tag = key.tag, .context = key.context};
    struct tca_msg_request *request = NULL;
    int r = msg_request_new(message->msg, &envelope, buffer, false, &request);

    if (r < 0) /* -EINVAL, -ENOMEM: the message stays */
        return r;
    return finish(request, receive_early(request, message), ret_request);
}
