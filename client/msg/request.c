/* Requests and their lists. Requests are never freed before their messenger: a number that another
 * rank sends always names one. */
#include "client/msg/msg.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"

/* ---- lists */

void msg_list_add(struct msg_list *list, struct tca_msg_request *request)
{
    request->next = NULL;
    if (list->first)
        *list->last = request;
    else
        list->first = request;
    list->last = &request->next;
}

struct tca_msg_request *msg_list_take(struct msg_list *list)
{
    struct tca_msg_request *request = list->first;

    if (request)
        list->first = request->next;
    return request;
}

bool msg_list_remove(struct msg_list *list, struct tca_msg_request *request)
{
    struct tca_msg_request **link = &list->first;

    while (*link && *link != request)
        link = &(*link)->next;
    if (!*link)
        return false;
    *link = request->next;
    if (!*link)
        list->last = link;
    return true;
}

/* ---- the pool */

static int grow(struct tca_msg *msg)
{
    uint32_t count = msg->request_count;
    struct tca_msg_request **table =
        realloc(msg->requests, (count + MSG_CHUNK) * sizeof(struct tca_msg_request *));
    struct tca_msg_request *chunk = table ? calloc(MSG_CHUNK, sizeof(*chunk)) : NULL;

    if (table)
        msg->requests = table;
    if (!chunk)
        return error_static(-ENOMEM, "message: out of memory");
    for (uint32_t i = MSG_CHUNK; i-- > 0;) {
        chunk[i].msg = msg;
        chunk[i].number = count + i;
        chunk[i].next = msg->unused;
        msg->unused = &chunk[i];
        table[count + i] = &chunk[i];
    }
    msg->request_count += MSG_CHUNK;
    return 0;
}

int msg_check_rank(const struct tca_msg *msg, uint32_t rank, bool any)
{
    if (rank < msg->size || (any && rank == TCA_MSG_ANY))
        return 0;
    return error_set(-EINVAL, "message: rank %u: the group has ranks 0 to %u", rank, msg->size - 1);
}

int msg_request_new(struct tca_msg *msg, const struct tca_msg_envelope *envelope,
                    const struct tca_msg_buffer *buffer, bool sends,
                    struct tca_msg_request **ret_request)
{
    const uint32_t rank = envelope->rank, tag = envelope->tag;
    int r = msg_check_rank(msg, rank, !sends);

    if (r < 0)
        return r;
    if (sends && tag == TCA_MSG_ANY)
        return error_static(-EINVAL, "message: the tag TCA_MSG_ANY is for receives only");
    if (envelope->flags & ~(sends ? (uint32_t)TCA_MSG_SYNCHRONOUS : 0))
        return error_set(-EINVAL, "message: flags 0x%x: a send may have TCA_MSG_SYNCHRONOUS",
                         envelope->flags);
    uint64_t room = buffer->layout ? tca_layout_size(buffer->layout) : buffer->bytes;
    if (room > 0 && !buffer->address)
        return error_static(-EINVAL, "message: the buffer's address is NULL");
    r = msg->unused ? 0 : grow(msg);
    if (r < 0)
        return r;
    struct tca_msg_request *request = msg->unused;
    msg->unused = request->next;
    request->peer = rank == TCA_MSG_ANY ? NULL : &msg->peers[rank];
    request->tag = tag;
    request->context = envelope->context;
    request->state = MSG_IDLE;
    request->status = 0;
    request->used = true;
    request->sends = sends;
    request->synchronous = envelope->flags & TCA_MSG_SYNCHRONOUS;
    request->persistent = request->released = request->arrived = request->in_use =
        request->planned = false;
    request->word = -1;
    request->room = room;
    request->bytes = sends ? room : 0;
    request->address = buffer->address;
    request->layout = buffer->layout;
    request->announce_link = NULL;
    *ret_request = request;
    return 0;
}

static __attribute__((noinline)) void release_memory(struct tca_msg_request *request)
{
    struct tca_msg *msg = request->msg;

    if (request->staging)
        msg->staged_bytes -= request->room;
    if (request->staging && !request->in_use &&
        tca_free(msg->session, request->staging) == -EBUSY) {
        tca_msg_forget(msg); /* the plans that still use it */
        tca_free(msg->session, request->staging);
    }
    msg_stage_free(request);
    tca_layout_free(request->own_layout);
    tca_layout_free(request->target.layout);
    request->target.layout = NULL;
    request->staging = NULL;
    request->own_layout = NULL;
}

static void forget_pair(struct tca_msg_request *request)
{
    const size_t begin = offsetof(struct tca_msg_request, plan);

    memset((uint8_t *)request + begin, 0, sizeof(*request) - begin);
}

void msg_request_free(struct tca_msg_request *request)
{
    struct tca_msg *msg = request->msg;

    if (request->staging || request->stage || request->own_layout || request->target.layout)
        release_memory(request);
    if (request->persistent)
        forget_pair(request);
    request->used = false;
    request->next = msg->unused;
    msg->unused = request;
}

void msg_done(struct tca_msg_request *request, int status)
{
    request->state = MSG_DONE;
    request->status = msg_error_of(status);
    if (request->released && !request->persistent)
        msg_request_free(request);
}

/* ---- failures */

int msg_peer_failed(const struct msg_peer *peer)
{
    return error_set(peer->failed, "messages to and from rank %u: %s", peer->rank, peer->why);
}

void msg_peer_drop(struct msg_peer *peer)
{
    while (peer->out) {
        struct msg_out *out = peer->out;
        peer->out = out->next;
        if (!out->request)
            free(out);
    }
}

/* A receive that waits for a message of the rank, or of any: it is not known whether that rank was
 * to send it. */
static void fail_posted(struct tca_msg_request *request, struct msg_peer *peer, int error)
{
    match_withdraw(&request->msg->matching, &request->posted);
    if (!msg_announce_withdraw(request)) {
        if (error != -EOWNERDEAD) /* the kernel has ended the copying of a process that has ended */
            msg_announce_settle(request);
        msg_unannounce(request);
    }
    request->peer = peer;
    msg_done(request, error);
}

int msg_peer_fail(struct msg_peer *peer, struct tca_msg *msg, int error)
{
    if (peer->failed)
        return msg_peer_failed(peer);
    error = msg_error_of(error);
    if (error == -EINVAL) /* of this process, for what the rank has sent */
        error = -EPROTO;
    peer->failed = error;
    snprintf(peer->why, sizeof(peer->why), "%s", tca_error_text());
    msg_peer_drop(peer);
    peer->offered.first = peer->granted.first = NULL;
    msg_stage_forget(peer->direct);
    peer->single.first = peer->held.first = peer->waiting.first = NULL;
    for (uint32_t i = 0; i < msg->request_count; i++) {
        struct tca_msg_request *request = msg->requests[i];
        /* A put that runs completes, or fails; that of a pair may wait for the other rank. */
        bool told = request->sends && request->state == MSG_MOVING &&
                    (msg_has_ended(error) || !request->persistent);
        request->quick &= request->peer != peer;
        if (request->used && !request->persistent && request->state == MSG_POSTED &&
            (!request->peer || request->peer == peer))
            fail_posted(request, peer, error);
        if (request->used && request->peer == peer && request->state != MSG_IDLE &&
            request->state != MSG_DONE && !told)
            msg_done(request, request->arrived && !request->persistent ? 0 : error);
        if (request->used && request->peer == peer && request->persistent && request->released &&
            request->state == MSG_DONE) {
            msg_list_remove(&peer->leaving, request);
            msg_pair_reap(request);
        }
    }
    return error;
}
