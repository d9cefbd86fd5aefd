/* Requests, from peers_request() to the call of replied(). Requests to this node take the same
 * path, without a connection. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/message.h"
#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"
#include "proto/status.h"

/* How long to wait for a node that is not connected; or was down the last time. */
enum { PROBE_MS = 2000, PROBE_DOWN_MS = 500 };

/* ---- pending requests ---- */

static struct peer_request *request_find(struct peers *peers, uint32_t node, uint32_t tag)
{
    const struct table_entry *entry = table_first(&peers->requests, tag);
    for (; entry; entry = table_again(entry)) {
        struct peer_request *request = entry->owner;
        if (request->node == node && !request->finished)
            return request;
    }
    return NULL;
}

static uint32_t new_tag(struct peers *peers)
{
    do
        peers->last_tag++;
    while (peers->last_tag == 0);
    return peers->last_tag;
}

void peer_request_list_init(struct peer_request_list *list)
{
    *list = (struct peer_request_list){.last = &list->first};
}

static void list_append(struct peer_request_list *list, struct peer_request *request)
{
    request->list = list;
    request->link = list->last;
    request->next = NULL;
    *list->last = request;
    list->last = &request->next;
}

static void list_remove(struct peer_request *request)
{
    if (!request->list)
        return;
    *request->link = request->next;
    if (request->next)
        request->next->link = request->link;
    else
        request->list->last = request->link;
    request->list = NULL;
}

static void request_free(struct peers *peers, struct peer_request *request)
{
    table_remove(&peers->requests, &request->entry);
    deadline_clear(&peers->deadlines, &request->deadline);
    list_remove(request);
    free(request->bytes);
    free(request->text);
    free(request);
}

/* Removes the request from all lists, then calls replied(), which may do anything. */
static void finish(struct peers *peers, struct peer_request *request, int status,
                   const Tca__Message *reply, const char *text)
{
    peer_replied *replied = request->replied;
    void *context = request->context;

    request_free(peers, request);
    replied(context, status, reply, text);
}

static void finish_with(struct peers *peers, struct peer_request *request,
                        const Tca__Message *reply)
{
    if (reply->body_case != TCA__MESSAGE__BODY_FAILURE) {
        finish(peers, request, 0, reply, "");
        return;
    }
    int status = status_from_wire(reply->failure->status);
    char text[PEER_TEXT_MAX * 4];
    snprintf(text, sizeof(text), "%s", reply->failure->text);
    peer_clean(text);
    finish(peers, request, status < 0 ? status : -EPROTO, NULL, text);
}

/* ---- packing ---- */

static uint8_t *pack(const Tca__Message *message, size_t *ret_count)
{
    size_t count = tca__message__get_packed_size(message);
    uint8_t *bytes = count <= FRAME_PAYLOAD_MAX ? malloc(count + 1) : NULL;
    if (bytes)
        *ret_count = tca__message__pack(message, bytes);
    return bytes;
}

/* ---- deliveries from the loop: requests and replies of this node, and immediate failures ---- */

static void put_local(struct peers *peers, struct peer_request *request)
{
    list_remove(request);
    list_append(&peers->local, request);
    loop_timer_set(peers->local_timer, 0, 0);
}

/* Calls replied() with these arguments, from the loop. */
static void finish_later(struct peers *peers, struct peer_request *request, int status,
                         const char *text)
{
    deadline_clear(&peers->deadlines, &request->deadline);
    request->finished = true;
    request->status = status;
    request->text = strdup(text);
    free(request->bytes);
    request->bytes = NULL;
    put_local(peers, request);
}

/* This node has replied. */
static void reply_later(struct peers *peers, struct peer_request *request,
                        const Tca__Message *reply)
{
    request->bytes = pack(reply, &request->count);
    if (!request->bytes) {
        finish_later(peers, request, -ENOMEM,
                     "out of memory, or a reply beyond the limit of 64 MiB");
        return;
    }
    deadline_clear(&peers->deadlines, &request->deadline);
    request->finished = true;
    put_local(peers, request);
}

static void deliver(struct peers *peers, struct peer_request *request)
{
    uint32_t tag = request->tag, node = request->node;
    Tca__Message *message = NULL;
    bool finished = request->finished;
    char *text = request->text;

    request->text = NULL;
    if (request->bytes) {
        message = tca__message__unpack(NULL, request->count, request->bytes);
        free(request->bytes);
        request->bytes = NULL;
        if (!message) {
            finish(peers, request, -ENOMEM, NULL, "out of memory for a message");
            return;
        }
    }
    if (!finished) /* it stays pending until peers_reply() */
        peers->events.asked(peers->events.context, node, tag, message);
    else if (message)
        finish_with(peers, request, message);
    else
        finish(peers, request, request->status, NULL, text ? text : "out of memory");
    free(text);
    if (message)
        tca__message__free_unpacked(message, NULL);
}

void peer_requests_deliver_local(void *context)
{
    struct peers *peers = context;

    while (peers->local.first) {
        struct peer_request *request = peers->local.first;
        list_remove(request);
        deliver(peers, request);
        if (loop_slice_over(peers->tcad->loop))
            break; /* lets other work of the loop go first */
    }
    if (peers->local.first)
        loop_timer_set(peers->local_timer, 0, 0);
}

/* ---- sending requests ---- */

static void expire(void *context)
{
    struct peer_request *request = context;
    struct peers *peers = request->peers;
    const struct cluster_node *node = cluster_by_id(peers->tcad->cluster, request->node);
    char text[PEER_TEXT_MAX];

    snprintf(text, sizeof(text), "node %s (id %u) has not answered in time",
             node ? node->name : "?", request->node);
    finish_later(peers, request, -ETIMEDOUT, text);
}

static struct peer_request *request_new(struct peers *peers, uint32_t node, uint64_t timeout_ns,
                                        peer_replied *replied, void *context)
{
    struct peer_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    const uint64_t now = clock_now_ns();
    request->peers = peers;
    request->tag = new_tag(peers);
    request->node = node;
    request->replied = replied;
    request->context = context;
    table_add(&peers->requests, &request->entry, request->tag, request);
    deadline_set(&peers->deadlines, &request->deadline,
                 timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns, expire, request);
    return request;
}

static void request_send(struct peer *peer, struct peer_request *request)
{
    link_send_bytes(peer, request->tag, request->bytes, request->count);
    free(request->bytes);
    request->bytes = NULL;
}

void peer_requests_send(struct peer *peer)
{
    for (struct peer_request *request = peer->requests.first; request; request = request->next)
        if (request->bytes)
            request_send(peer, request);
}

static void ask_peer(struct peers *peers, struct peer_request *request)
{
    struct peer *peer;
    char text[PEER_TEXT_MAX + 128];

    int r = peer_get(peers, request->node, &peer);
    if (r < 0) {
        snprintf(text, sizeof(text), "node %u is not in the cluster file", request->node);
        finish_later(peers, request, r, r == -EINVAL ? text : "out of memory");
        return;
    }
    if (peer->state == PEER_IDLE || peer->state == PEER_DOWN) {
        /* Connects before the request is in the peer's list: if connecting fails at once, replied()
         * must still be called from the loop. */
        if (peer_connect(peer) == -EAGAIN || peer->state == PEER_DOWN) {
            snprintf(text, sizeof(text), "node %s (id %u) is down: %s", peer->name, peer->node,
                     peer->last_error);
            finish_later(peers, request, -EHOSTDOWN, text);
            return;
        }
    }
    list_append(&peer->requests, request);
    if (peer_has_link(peer))
        request_send(peer, request);
}

void peers_request(struct peers *peers, uint32_t node, const Tca__Message *message,
                   uint64_t timeout_ns, peer_replied *replied, void *context)
{
    struct peer_request *request = request_new(peers, node, timeout_ns, replied, context);
    if (!request) {
        /* Not even the failure can be stored: the only case in which replied() is called at
         * once. */
        replied(context, -ENOMEM, NULL, "out of memory for a request");
        return;
    }
    request->bytes = pack(message, &request->count);
    if (!request->bytes)
        finish_later(peers, request, -ENOMEM,
                     "out of memory for a request, or one beyond the limit of 64 MiB");
    else if (node == peers->tcad->node)
        put_local(peers, request);
    else
        ask_peer(peers, request);
}

void peers_probe(struct peers *peers, uint32_t node, uint64_t timeout_ns, peer_replied *replied,
                 void *context)
{
    Tca__PeerPing ping = TCA__PEER_PING__INIT;
    const Tca__Message message = MESSAGE_OF(PEER_PING, peer_ping, &ping);
    const struct peer *peer = peer_find(peers, node);
    const uint64_t most_ns = peer && peer->seek_wait_ns > 0 ? PROBE_DOWN_MS * MS : PROBE_MS * MS;
    if (!peers_is_up(peers, node) && timeout_ns > most_ns)
        timeout_ns = most_ns;
    peers_request(peers, node, &message, timeout_ns, replied, context);
}

void peers_tell(struct peers *peers, uint32_t node, const Tca__Message *message)
{
    struct peer *peer = peer_find(peers, node);
    if (peer && peer_has_link(peer))
        link_send(peer, 0, message);
}

/* ---- replies ---- */

/* Releases bindings that arrived after the time-out of their request, and the pairs that they name;
 * otherwise the other node would keep them until the requesting session ends, and wait for
 * connections. */
static void give_back(struct peers *peers, uint32_t node, const Tca__PeerBound *bound)
{
    uint64_t bindings[BIND_PUTS_MAX], pairs[BIND_PUTS_MAX];
    Tca__PeerUnbind unbind = TCA__PEER_UNBIND__INIT;
    for (size_t i = 0; i < bound->n_puts && i < BIND_PUTS_MAX; i++)
        bindings[unbind.n_bindings++] = bound->puts[i]->binding;
    for (size_t i = 0; i < unbind.n_bindings; i++)
        if (bound->puts[i]->pair != 0)
            pairs[unbind.n_untaken_pairs++] = bound->puts[i]->pair;
    unbind.bindings = bindings;
    unbind.untaken_pairs = pairs;
    const Tca__Message message = MESSAGE_OF(PEER_UNBIND, peer_unbind, &unbind);
    if (unbind.n_bindings > 0)
        peers_tell(peers, node, &message);
}

void peer_request_replied(struct peers *peers, uint32_t node, uint32_t tag,
                          const Tca__Message *reply)
{
    struct peer_request *request = request_find(peers, node, tag);
    if (request && !request->bytes) /* else it has not been sent yet, so this cannot be its reply */
        finish_with(peers, request, reply);
    else if (!request && reply->body_case == TCA__MESSAGE__BODY_PEER_BOUND)
        give_back(peers, node, reply->peer_bound);
}

void peers_reply(struct peers *peers, uint32_t node, uint32_t tag, const Tca__Message *reply)
{
    if (tag == 0)
        return; /* a message that needs no reply */
    if (node == peers->tcad->node) {
        struct peer_request *request = request_find(peers, node, tag);
        if (request && !request->bytes)
            reply_later(peers, request, reply);
        return;
    }
    struct peer *peer = peer_find(peers, node);
    if (peer && peer_has_link(peer))
        link_send(peer, tag, reply);
}

void peers_fail(struct peers *peers, uint32_t node, uint32_t tag, int error, const char *format,
                ...)
{
    char text[PEER_TEXT_MAX * 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);

    Tca__Failure failure;
    Tca__Message message;
    message_failure(&message, &failure, error, text);
    peers_reply(peers, node, tag, &message);
}

/* ---- failing requests ---- */

void peer_requests_fail(struct peer *peer, int error, const char *text)
{
    /* Only these: requests that replied() makes are not failed with them. */
    struct peer_request_list failed;
    peer_request_list_init(&failed);
    while (peer->requests.first) {
        struct peer_request *request = peer->requests.first;
        list_remove(request);
        list_append(&failed, request);
    }
    while (failed.first)
        finish(peer->peers, failed.first, error, NULL, text);
}

static void take(void *context, void *request)
{
    list_remove(request);
    list_append(context, request);
}

void peers_cancel(struct peers *peers)
{
    struct peer_request_list all;
    peer_request_list_init(&all);
    if (peers)
        table_each(&peers->requests, take, &all);
    while (all.first)
        finish(peers, all.first, -ECANCELED, NULL, "tcad is ending");
}
