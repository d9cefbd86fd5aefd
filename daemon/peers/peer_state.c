#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/remedy.h"
#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"

enum { RETRY_MS = 1000, SEEK_MIN_MS = 1000, SEEK_MAX_MS = 60 * 1000 };

static const bool legal[PEER_STATE_COUNT][PEER_STATE_COUNT] = {
    [PEER_IDLE] = {[PEER_CONNECTING] = true, [PEER_GREETING] = true},
    [PEER_CONNECTING] = {[PEER_CONNECTING] = true, [PEER_GREETING] = true, [PEER_DOWN] = true},
    [PEER_GREETING] = {[PEER_UP] = true, [PEER_CONNECTING] = true, [PEER_DOWN] = true},
    [PEER_UP] = {[PEER_LOST] = true, [PEER_DOWN] = true},
    [PEER_LOST] = {[PEER_RECONNECTING] = true, [PEER_RESUMING] = true, [PEER_DOWN] = true},
    [PEER_RECONNECTING] = {[PEER_LOST] = true, [PEER_RESUMING] = true, [PEER_DOWN] = true},
    [PEER_RESUMING] = {[PEER_LOST] = true, [PEER_UP] = true, [PEER_DOWN] = true},
    [PEER_DOWN] = {[PEER_CONNECTING] = true, [PEER_GREETING] = true},
};

bool peer_may(enum peer_state from, enum peer_state to)
{
    return legal[from][to];
}

const char *peer_state_name(enum peer_state state)
{
    static const char *const names[PEER_STATE_COUNT] = {
        [PEER_IDLE] = "idle",
        [PEER_CONNECTING] = "connecting",
        [PEER_GREETING] = "connecting",
        [PEER_UP] = "up",
        [PEER_LOST] = "reconnecting",
        [PEER_RECONNECTING] = "reconnecting",
        [PEER_RESUMING] = "reconnecting",
        [PEER_DOWN] = "down",
    };
    return names[state];
}

/* Starts heartbeats in datagrams, if both sides support them. */
static void begin_pulse(struct peer *peer, const Tca__PeerHello *hello)
{
    const struct connection *connection = peer->connection;
    struct peers *peers = peer->peers;
    struct pulse_args args = {.node = peer->node,
                              .interval_ns = peers->tcad->conf->control.heartbeat_interval_ns / 2};
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);

    if (!peers->pulses || hello->heartbeat_port == 0 ||
        hello->heartbeat_key.len != sizeof(args.key_out))
        return;
    if (connection->ours && stream_peer_address(connection->stream, &address, &bytes) == 0) {
        if (address.ss_family == AF_INET6)
            ((struct sockaddr_in6 *)&address)->sin6_port = htons((uint16_t)hello->heartbeat_port);
        else
            ((struct sockaddr_in *)&address)->sin_port = htons((uint16_t)hello->heartbeat_port);
        args.address = (struct sockaddr *)&address;
        args.address_bytes = bytes;
    }
    memcpy(args.key_in, connection->heartbeat_key, sizeof(args.key_in));
    memcpy(args.key_out, hello->heartbeat_key.data, sizeof(args.key_out));
    pulse_new(peers->pulses, &args, &peer->pulse); /* on failure, only the connection is watched */
}

/* What a new link and a resumed one have in common. */
static void begin_watching(struct peer *peer)
{
    struct connection *connection = peer->connection;

    peer->step = PEER_STEP_UP;
    peer->protocol = connection->hello->peer_hello->version;
    peer->heard_ns = peer->since_ns;
    peer->heard_bytes = stream_received_bytes(connection->stream);
    peer->ping_ns = 0;
    peer->rtt_ns = 0;
    peer->pulse = pulse_free(peer->pulse);
    begin_pulse(peer, connection->hello->peer_hello);
    /* If the end of the connection is noticed no other way, this leaves time to reconnect. */
    stream_set_send_timeout(connection->stream,
                            peer->peers->tcad->conf->control.heartbeat_timeout_ns / 2);
}

static void go_up(struct peer *peer)
{
    struct connection *connection = peer->connection;
    struct peers *peers = peer->peers;
    const Tca__PeerHello *hello = connection->hello->peer_hello;
    char fields[48];

    peer->incarnation = hello->incarnation;
    snprintf(peer->version, sizeof(peer->version), "%s", hello->daemon_version);
    peer_clean(peer->version);
    peer->last_error[0] = '\0';
    peer_dial_good(peer);
    peer->stranger = false;
    peer->seeking = false;
    peer->seek_ns = peer->seek_wait_ns = 0;
    begin_watching(peer);
    link_begin(peer);
    snprintf(fields, sizeof(fields), "TCAD_NODE=%u", peer->node);
    log_info(fields, "node %s (id %u) is up", peer->name, peer->node);

    /* The event may end the connection, which must not free the hello. */
    Tca__Message *message = connection->hello;
    connection->hello = NULL;
    peers->events.up(peers->events.context, peer->node, peer->incarnation, message->peer_hello);
    tca__message__free_unpacked(message, NULL);
    if (peer_has_link(peer))
        peer_requests_send(peer);
}

static void go_on(struct peer *peer)
{
    peer->last_error[0] = '\0';
    peer_dial_good(peer);
    begin_watching(peer);
    tca__message__free_unpacked(peer->connection->hello, NULL);
    peer->connection->hello = NULL;
    link_resume(peer);
}

static void disconnect(struct peer *peer)
{
    peer->connection = connection_free(peer->connection);
    peer_dial_end(peer);
    peer->ping_ns = 0;
}

/* Its heartbeats continue and show whether it is alive. */
static void go_missing(struct peer *peer, int error, const char *text)
{
    char fields[48];

    disconnect(peer);
    peer->last_status = error;
    if (error != -ETIMEDOUT) /* with a time-out, the silence continues */
        peer->heard_ns = peer->since_ns;
    snprintf(peer->last_loss, sizeof(peer->last_loss), "%s", text);
    snprintf(fields, sizeof(fields), "TCAD_NODE=%u", peer->node);
    log_warning(fields, "node %s (id %u): the connection has ended, reconnecting: %s", peer->name,
                peer->node, peer->last_loss);
}

/* Plans the next look for it: soon if it was up, then at twice the interval each time. */
static void seek_later(struct peer *peer)
{
    const uint64_t wait_ns = peer->seek_wait_ns ? 2 * peer->seek_wait_ns : SEEK_MIN_MS * MS;
    peer->seek_wait_ns = wait_ns < SEEK_MAX_MS * MS ? wait_ns : SEEK_MAX_MS * MS;
    peer->seek_ns = peer->peers->leaving ? 0 : clock_now_ns() + peer->seek_wait_ns;
    peers_tick_soon(peer->peers);
}

static void go_down(struct peer *peer, bool was_up, int error, const char *text)
{
    struct peers *peers = peer->peers;
    char fields[48], failure[PEER_TEXT_MAX + 128];

    disconnect(peer);
    peer->pulse = pulse_free(peer->pulse);
    link_end(peer);
    if (was_up)
        explicit_bzero(peer->halves, sizeof(peer->halves));
    snprintf(peer->last_error, sizeof(peer->last_error), "%s", text);
    peer->last_status = error;
    snprintf(failure, sizeof(failure), "node %s (id %u) is down: %s", peer->name, peer->node,
             peer->last_error);
    snprintf(fields, sizeof(fields), "TCAD_NODE=%u", peer->node);
    if (!peers->leaving && !peer->seeking) /* else this is the expected result of peers_leave() */
        log_warning(fields, "%s", failure);
    if (!peer->seeking)
        peer->down_ns = peer->since_ns;
    peer->seeking = false;
    peer->since_ns = peer->down_ns;
    seek_later(peer);

    peer_requests_fail(peer, -EHOSTDOWN, failure);
    if (was_up)
        peers->events.down(peers->events.context, peer->node, error, failure);
}

/* How long an attempt to connect may take. With a link, or other addresses, leaves time for another
 * attempt. */
static uint64_t attempt_ns(const struct peer *peer)
{
    const struct tcad_conf *conf = peer->peers->tcad->conf;
    if (peer_has_link(peer))
        return conf->control.heartbeat_timeout_ns / 2;
    return peer_dial_has_others(peer) ? conf->control.request_timeout_ns / 4
                                      : conf->control.request_timeout_ns;
}

void peer_move(struct peer *peer, enum peer_state to, int error, const char *text)
{
    enum peer_state from = peer->state;
    bool had_link = peer_has_link(peer);

    assert(peer_may(from, to));
    peer->state = to;
    peer->since_ns = clock_now_ns();
    if (to == PEER_CONNECTING || to == PEER_GREETING || to == PEER_RECONNECTING ||
        to == PEER_RESUMING) {
        peer->deadline_ns = peer->since_ns + attempt_ns(peer);
        peers_tick_soon(peer->peers);
    } else if (to == PEER_UP && had_link) {
        go_on(peer);
    } else if (to == PEER_UP) {
        go_up(peer);
    } else if (to == PEER_LOST && from == PEER_UP) {
        go_missing(peer, error, text);
    } else if (to == PEER_LOST) {
        disconnect(peer);
    } else if (to == PEER_DOWN) {
        go_down(peer, had_link, error, text);
    }
}

/* ---- connecting ---- */

static void try_once(struct peer *peer)
{
    peer->cuts = 0;
    peer_move(peer, PEER_CONNECTING, 0, NULL);
    peer_dial(peer);
}

int peer_connect(struct peer *peer)
{
    uint64_t now = clock_now_ns();

    if ((peer->attempt_ns && now - peer->attempt_ns < RETRY_MS * MS) || now < peer->name_next_ns)
        return -EAGAIN;
    peer->attempt_ns = now;
    try_once(peer);
    return 0;
}

/* Leaves attempt_ns alone: a request may come right after it. */
void peer_seek(struct peer *peer)
{
    peer->seek_ns = 0;
    peer->seeking = true;
    try_once(peer);
}
