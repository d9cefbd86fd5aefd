/* One-shot messages: what arrives finds its receive, and receives find what has arrived. */
#include "client/msg/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"

static void deliver(struct tca_msg_request *request, const void *data, uint64_t bytes)
{
    request->bytes = bytes;
    msg_done(request, bytes > request->room ? -EMSGSIZE : msg_scatter(request, data, bytes));
}

static int accept_offer(struct tca_msg_request *request, uint32_t offer, uint64_t bytes)
{
    request->offer = offer;
    request->bytes = bytes;
    return msg_grant(request);
}

static struct tca_msg_request *find_posted(struct msg_peer *peer, uint32_t tag)
{
    struct tca_msg_request *request = peer->posted.first;

    while (request && request->tag != tag)
        request = request->next;
    if (request)
        msg_list_remove(&peer->posted, request);
    return request;
}

/* ---- messages without a receive */

static int keep(struct msg_peer *peer, const struct msg_head *head, bool offered, uint64_t bytes,
                const uint8_t *data)
{
    struct msg_early *early = malloc(sizeof(*early) + (offered ? 0 : bytes));

    if (!early)
        return error_static(-ENOMEM, "message: out of memory");
    *early = (struct msg_early){
        .tag = head->tag, .offer = head->request, .offered = offered, .bytes = bytes};
    if (!offered)
        memcpy(early->data, data, bytes);
    if (peer->early)
        *peer->early_last = early;
    else
        peer->early = early;
    peer->early_last = &early->next;
    peer->early_count++;
    return 0;
}

static struct msg_early *find_early(struct msg_peer *peer, uint32_t tag)
{
    struct msg_early **link = &peer->early;

    while (*link && (*link)->tag != tag)
        link = &(*link)->next;
    struct msg_early *early = *link;
    if (early) {
        *link = early->next;
        if (!*link)
            peer->early_last = link;
        peer->early_count--;
    }
    return early;
}

/* ---- packets */

static int take_short(struct msg_peer *peer, const struct msg_head *head, const uint8_t *payload)
{
    struct tca_msg_request *request = find_posted(peer, head->tag);

    if (!request)
        return keep(peer, head, false, head->bytes, payload);
    deliver(request, payload, head->bytes);
    return 0;
}

static int take_offer(struct msg_peer *peer, const struct msg_head *head, uint64_t bytes)
{
    struct tca_msg_request *request = find_posted(peer, head->tag);

    return request ? accept_offer(request, head->request, bytes)
                   : keep(peer, head, true, bytes, NULL);
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
    if (head->kind == MSG_OFFER && head->bytes == sizeof(value))
        return take_offer(peer, head, value);
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
    if (head->kind == MSG_SHORT)
        return take_short(peer, head, payload);
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

int tca_msg_recv(struct tca_msg *msg, uint32_t rank, uint32_t tag,
                 const struct tca_msg_buffer *buffer, struct tca_msg_request **ret_request)
{
    struct tca_msg_request *request = NULL;
    int r = msg_request_new(msg, rank, tag, buffer, false, &request);

    if (r < 0)
        return r;
    struct msg_peer *peer = request->peer;
    struct msg_early *early = find_early(peer, tag);
    if (early && !early->offered) {
        deliver(request, early->data, early->bytes);
    } else if (peer->failed) {
        r = msg_peer_failed(peer);
    } else if (early) {
        r = accept_offer(request, early->offer, early->bytes);
        if (r < 0)
            msg_peer_lost(peer, msg, r);
    } else {
        request->state = MSG_POSTED;
        msg_list_add(&peer->posted, request);
    }
    free(early);
    if (r < 0)
        msg_request_free(request);
    else
        *ret_request = request;
    return r;
}
