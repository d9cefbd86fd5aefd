/*
 * Connections. Both sides send a hello, check the other's, and reply with PeerWelcome, or with
 * Failure and the reason. A side that has received hello and welcome is up. From then on the
 * connection carries the messages of the link, and heartbeats. A connecting side that names a link
 * in its hello sends its welcome after the other's, which shows whether the other side has the
 * link.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/message.h"
#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"
#include "proto/frame.h"

enum { LINGER_MS = 1000 };

/* ---- connections without a peer ---- */

void connection_complain(struct peers *peers, const char *from, const char *text)
{
    log_limited(&peers->complaints, LOG_LEVEL_WARNING, NULL, "connection from %s dropped: %s", from,
                text);
}

/* ---- connections that have not greeted ---- */

/* All nodes may connect at once, also from one address. */
static unsigned most_of_address(const struct peers *peers)
{
    return UNGREETED_MIN + (unsigned)peers->tcad->cluster->count;
}

/* Silent ones of a few addresses leave places for others; those of many addresses keep them until
 * their deadline. */
static bool is_full(const struct peers *peers)
{
    const uint64_t of_descriptors = peers->tcad->descriptors_limit / 8; /* 0: not known yet */
    return peers->ungreeted_count >= UNGREETED_ADDRESSES * most_of_address(peers) ||
           (of_descriptors && peers->ungreeted_count >= of_descriptors);
}

/* Whether both are from the same host: "10.0.0.7:40332" and "10.0.0.7:1234". */
static bool is_of_host(const struct connection *connection, const char *from)
{
    const char *port = strrchr(from, ':');
    const size_t bytes = port ? (size_t)(port - from) + 1 : strlen(from);
    return !connection->refused && strncmp(connection->from, from, bytes) == 0;
}

/* Makes room for a connection from an address that has as many as it may have: its oldest goes. */
static void make_room(struct peers *peers, const char *from)
{
    struct connection *oldest = NULL;
    unsigned count = 0;
    for (struct connection *at = peers->ungreeted; at; at = at->next) {
        if (!is_of_host(at, from))
            continue;
        oldest = oldest ? oldest : at;
        count++;
    }
    if (count < most_of_address(peers))
        return;
    connection_complain(peers, oldest->from,
                        "its address has too many connections that have not greeted");
    connection_free(oldest);
}

static void hold_listeners(const struct peers *peers)
{
    for (unsigned i = 0; i < peers->listener_count; i++)
        listener_hold(peers->listeners[i], is_full(peers));
}

void connection_unwatch(struct connection *connection)
{
    struct peers *peers = connection->peers;

    if (!connection->link)
        return;
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    else
        peers->ungreeted_last = connection->link;
    connection->link = NULL;
    peers->ungreeted_count--;
    hold_listeners(peers);
}

/* Lets the tick watch a connection that is inbound, or that stays only until its last message is
 * sent. */
static void connection_watch(struct connection *connection, uint64_t timeout_ns)
{
    struct peers *peers = connection->peers;

    connection_unwatch(connection);
    connection->deadline_ns = clock_now_ns() + timeout_ns;
    connection->next = NULL;
    connection->link = peers->ungreeted_last;
    *peers->ungreeted_last = connection;
    peers->ungreeted_last = &connection->next;
    peers->ungreeted_count++;
    hold_listeners(peers);
    peers_tick_soon(peers);
}

struct connection *connection_free(struct connection *connection)
{
    if (!connection)
        return NULL;
    connection_unwatch(connection);
    stream_free(connection->stream);
    if (connection->hello)
        tca__message__free_unpacked(connection->hello, NULL);
    free(connection);
    return NULL;
}

struct peer *connection_detach(struct connection *connection)
{
    struct peer *peer = connection->peer;

    if (peer)
        peer->connection = NULL;
    connection->peer = NULL;
    connection->refused = true;
    connection_watch(connection, LINGER_MS * MS);
    return peer;
}

void connection_fail(struct connection *connection, int error, const char *text)
{
    struct peers *peers = connection->peers;
    struct peer *peer = connection->peer;
    char where[PEER_TEXT_MAX];

    if (connection->refused) {
        connection_free(connection);
        return;
    }
    snprintf(where, sizeof(where), "%s: %s", connection->from, text);
    if (!peer)
        connection_complain(peers, connection->from, text);
    if (peer && connection->ours)
        peer_dial_failed(peer, connection->which, error);
    if (error == -EPROTONOSUPPORT)
        connection_detach(connection); /* the peer must still get our version */
    else if (!peer)
        connection_free(connection);
    if (peer)
        peer_disconnected(peer, error, where);
}

/* ---- sending ---- */

int connection_send_bytes(struct connection *connection, uint32_t tag, const void *bytes,
                          size_t count)
{
    /* No message may follow one that is missing. */
    int r = connection->broken ? -ENOTCONN : stream_send(connection->stream, tag, bytes, count);
    if (r < 0) {
        connection->broken = true;
        peers_tick_soon(connection->peers);
    } else if (connection->peer) {
        connection->peer->sent_bytes += count + sizeof(struct frame_header);
    }
    return r;
}

int connection_send(struct connection *connection, uint32_t tag, const Tca__Message *message)
{
    uint8_t small[512];
    size_t count = tca__message__get_packed_size(message);
    if (count > FRAME_PAYLOAD_MAX)
        return -EMSGSIZE;
    uint8_t *bytes = count <= sizeof(small) ? small : malloc(count);
    if (!bytes) {
        connection->broken = true; /* the other side waits for the message */
        peers_tick_soon(connection->peers);
        return -ENOMEM;
    }
    tca__message__pack(message, bytes);
    int r = connection_send_bytes(connection, tag, bytes, count);
    if (bytes != small)
        free(bytes);
    return r;
}

void connection_refuse(struct connection *connection, int error, char *text)
{
    struct peers *peers = connection->peers;

    peer_clean(text);
    Tca__Failure failure;
    Tca__Message message;
    message_failure(&message, &failure, error, text);
    connection_send(connection, 0, &message);

    if (!connection->ours && error != -EALREADY)
        connection_complain(peers, connection->from, text);
    const unsigned which = connection->which;
    const bool ours = connection->ours;
    struct peer *peer = connection_detach(connection);
    if (peer && ours)
        peer_dial_failed(peer, which, error);
    if (peer)
        peer_disconnected(peer, error, text);
}

/* ---- events of the stream ---- */

static void on_ready(void *context)
{
    struct connection *connection = context;
    struct peer *peer = connection->peer;

    if (connection->ours) {
        peer->step = PEER_STEP_GREET;
        peer_move(peer, peer_has_link(peer) ? PEER_RESUMING : PEER_GREETING, 0, NULL);
    }
    connection_send_hello(connection);
}

static void on_frame(void *context, uint32_t tag, const void *payload, size_t bytes)
{
    struct connection *connection = context;
    struct peer *peer = connection->peer;

    if (connection->refused)
        return;
    Tca__Message *message = message_unpack(payload, bytes, NULL);
    if (!message) {
        connection_fail(connection, -EPROTO, "a message that cannot be read");
        return;
    }
    if (peer) {
        peer->received_bytes += bytes + sizeof(struct frame_header);
    }
    bool taken = false;
    if (peer && peer->state == PEER_UP)
        connection_message(connection, tag, message, bytes);
    else
        taken = connection_greeting(connection, message);
    if (!taken)
        tca__message__free_unpacked(message, NULL);
}

static void on_closed(void *context, int error, const char *text)
{
    connection_fail(context, error, text);
}

/* ---- creating ---- */

static struct connection *connection_new(struct peers *peers, struct peer *peer, const char *from)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection)
        return NULL;
    connection->peers = peers;
    connection->peer = peer;
    connection->ours = peer != NULL;
    snprintf(connection->from, sizeof(connection->from), "%s", from);
    return connection;
}

static struct stream_events events_of(struct connection *connection)
{
    return (struct stream_events){
        .ready = on_ready, .frame = on_frame, .closed = on_closed, .context = connection};
}

int connection_connect(struct peer *peer, int fd, unsigned which)
{
    struct peers *peers = peer->peers;
    char to[96];

    snprintf(to, sizeof(to), "%.80s:%u", peer->address, peer->port);
    struct connection *connection = connection_new(peers, peer, to);
    if (!connection) {
        close(fd);
        return -ENOMEM;
    }
    struct stream_events events = events_of(connection);
    int r = stream_connect(peers->tcad->loop, peers->tls, fd, &events, &connection->stream);
    if (r < 0) {
        connection_free(connection);
        return r;
    }
    connection->which = which;
    peer->connection = connection;
    return 0;
}

void connection_accepted(void *context, int fd, const char *from)
{
    struct peers *peers = context;
    make_room(peers, from);
    struct connection *connection = connection_new(peers, NULL, from);
    if (!connection) {
        close(fd);
        return;
    }
    struct stream_events events = events_of(connection);
    int r = stream_accept(peers->tcad->loop, peers->tls, fd, &events, &connection->stream);
    if (r < 0) {
        connection_complain(peers, from, strerrordesc_np(-r));
        connection_free(connection);
        return;
    }
    connection_watch(connection, peers->tcad->conf->control.request_timeout_ns);
}
