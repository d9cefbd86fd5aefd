/* The messages on a connection: the greeting, then requests, replies and pings. */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "daemon/base/log.h"
#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"
#include "proto/status.h"

/* ---- greeting ---- */

static void send_welcome(struct connection *connection)
{
    struct peer_link *link = &connection->peer->link;
    Tca__PeerWelcome welcome = TCA__PEER_WELCOME__INIT;
    const Tca__Message message = MESSAGE_OF(PEER_WELCOME, peer_welcome, &welcome);
    if (connection->resumes) {
        welcome.resume_key = (ProtobufCBinaryData){LINK_KEY_BYTES, link->other_key};
        welcome.received = link_tell(link);
    } else if (connection->adopts) {
        welcome.resume_key =
            (ProtobufCBinaryData){LINK_KEY_BYTES, connection->peer->halves[0].other_key};
    } else {
        link_offer(connection);
    }
    connection_send(connection, 0, &message);
}

void connection_send_hello(struct connection *connection)
{
    Tca__Message *hello = connection->peers->hello;
    char *configured = hello->peer_hello->cluster;
    struct pulses *pulses = connection->peers->pulses;
    struct peer *peer = connection->peer;

    if (pulses && getrandom(connection->heartbeat_key, sizeof(connection->heartbeat_key),
                            GRND_NONBLOCK) == sizeof(connection->heartbeat_key)) {
        hello->peer_hello->heartbeat_port = pulses_port(pulses);
        hello->peer_hello->heartbeat_key = (ProtobufCBinaryData){
            sizeof(connection->heartbeat_key), (uint8_t *)connection->heartbeat_key};
    }
    /* This cannot fail: it already worked for the daemon's incarnation. */
    (void)!getrandom(connection->link_key, sizeof(connection->link_key), 0);
    hello->peer_hello->link_key = (ProtobufCBinaryData){LINK_KEY_BYTES, connection->link_key};
    connection->adopts = peer && !peer_has_link(peer) && peer->halves[0].incarnation != 0;
    if (connection->adopts)
        hello->peer_hello->resume_key =
            (ProtobufCBinaryData){LINK_KEY_BYTES, peer->halves[0].other_key};
    else if (peer && peer_has_link(peer))
        hello->peer_hello->resume_key = (ProtobufCBinaryData){LINK_KEY_BYTES, peer->link.other_key};
    hello->peer_hello->cluster =
        connection->peers->tcad->cluster->name; /* may have changed with a reload */
    hello->peer_hello->cluster_digest = connection->peers->tcad->cluster->digest;
    if (peer && hello->peer_hello->resume_key.len == 0)
        link_note_given(peer, connection->link_key);
    connection_send(connection, 0, hello);
    hello->peer_hello->link_key = (ProtobufCBinaryData){0};
    hello->peer_hello->resume_key = (ProtobufCBinaryData){0};
    hello->peer_hello->cluster = configured;
    hello->peer_hello->heartbeat_port = 0;
    hello->peer_hello->heartbeat_key = (ProtobufCBinaryData){0};
}

/* The connecting side names the link that it has. The other side's welcome shows whether it has
 * this link, too; the connecting side sends its own welcome after that. */
static bool awaits_decision(const struct connection *connection)
{
    return connection->ours && (connection->adopts || connection->resumes);
}

static void note_digest(struct peer *peer, uint64_t digest)
{
    const struct cluster *own = peer->peers->tcad->cluster;
    char fields[48];
    if (digest == peer->cluster_digest)
        return;
    peer->cluster_digest = digest;
    snprintf(fields, sizeof(fields), "TCAD_NODE=%u", peer->node);
    if (digest != own->digest)
        log_warning(fields,
                    "node %s (id %u) has another cluster file than this node: give all nodes the "
                    "same one (tcactl nodes shows which differ)",
                    peer->name, peer->node);
}

/* If it returns true, it has taken over the message. */
static bool handle_hello(struct connection *connection, Tca__Message *message)
{
    struct peers *peers = connection->peers;
    const Tca__PeerHello *hello = message->peer_hello;
    struct peer *peer = NULL;
    char text[PEER_TEXT_MAX * 2];

    if (connection->accepted) {
        connection_fail(connection, -EPROTO, "a second hello");
        return false;
    }
    connection->incarnation = hello->incarnation;
    if (connection->peer)
        connection->peer->protocol = hello->version;
    int r = greeting_check(peers, hello, connection->peer, text, sizeof(text));
    if (r == 0) {
        snprintf(text, sizeof(text), "out of memory");
        r = peer_get(peers, hello->node, &peer);
    }
    if (r == 0)
        r = greeting_choose(connection, peer, hello, text, sizeof(text));
    if (r < 0) {
        connection_refuse(connection, r, text);
        return false;
    }
    connection_unwatch(connection);
    if (!connection->ours)
        link_note_given(peer, connection->link_key);
    connection->peer = peer;
    connection->accepted = true;
    note_digest(peer, hello->cluster_digest);
    connection->hello = message;
    peer->connection = connection;
    stream_set_limit(connection->stream, FRAME_PAYLOAD_MAX);
    const enum peer_state greeting = connection->resumes ? PEER_RESUMING : PEER_GREETING;
    if (peer->state != greeting)
        peer_move(peer, greeting, 0, NULL);
    if (!awaits_decision(connection))
        send_welcome(connection);
    return true;
}

static void handle_welcome(struct connection *connection, const Tca__PeerWelcome *welcome)
{
    char text[PEER_TEXT_MAX];

    if (!connection->accepted) {
        connection_fail(connection, -EPROTO, "a greeting in the wrong order");
        return;
    }
    const bool awaited = awaits_decision(connection);
    int r = greeting_welcomed(connection, welcome, text, sizeof(text));
    if (r < 0) {
        connection_refuse(connection, r, text);
        return;
    }
    if (awaited)
        send_welcome(connection);
    peer_move(connection->peer, PEER_UP, 0, NULL);
}

/* Whether the error can pass: another connection is being made or tested, or memory is short. */
static bool is_passing(int status)
{
    return status == -EALREADY || status == -EBUSY || status == -ENOMEM;
}

static void handle_refusal(struct connection *connection, const Tca__Failure *failure)
{
    struct peer *peer = connection->peer;
    int status = status_from_wire(failure->status);
    char text[PEER_TEXT_MAX];

    snprintf(text, sizeof(text), "it refused: %s", failure->text);
    peer_clean(text);
    if (peer)
        peer->stranger = status == -ENOENT || status == -EINVAL;
    if (peer && peer_has_link(peer) && is_passing(status)) {
        peer_lose(peer, status, text);
    } else if (peer && peer_has_link(peer)) {
        peer_move(peer, PEER_DOWN, status, text);
    } else if (peer && status == -EALREADY) { /* it is connecting to this node */
        peer->connection = connection_free(connection);
    } else {
        connection_fail(connection, status < 0 ? status : -EPROTO, text);
    }
}

bool connection_greeting(struct connection *connection, Tca__Message *message)
{
    switch (message->body_case) {
    case TCA__MESSAGE__BODY_PEER_HELLO:
        return handle_hello(connection, message);
    case TCA__MESSAGE__BODY_PEER_WELCOME:
        handle_welcome(connection, message->peer_welcome);
        return false;
    case TCA__MESSAGE__BODY_FAILURE:
        handle_refusal(connection, message->failure);
        return false;
    default:
        connection_fail(connection, -EPROTO, "something else than a greeting");
        return false;
    }
}

/* ---- up ---- */

static void handle_ping(struct connection *connection, uint32_t tag, const Tca__PeerPing *ping)
{
    struct peer *peer = connection->peer;
    Tca__PeerPong pong = TCA__PEER_PONG__INIT;
    pong.sequence = ping->sequence;
    const Tca__Message message = MESSAGE_OF(PEER_PONG, peer_pong, &pong);
    if (tag != 0) { /* a request */
        link_send(peer, tag, &message);
    } else if (link_acknowledged(connection, ping->received) == 0) {
        note_digest(peer, ping->cluster_digest);
        pong.received = link_tell(&peer->link);
        connection_send(connection, 0, &message);
    }
}

static void handle_pong(struct connection *connection, const Tca__PeerPong *pong)
{
    struct peer *peer = connection->peer;

    if (link_acknowledged(connection, pong->received) == 0 && peer->ping_ns &&
        pong->sequence == peer->ping_sequence) {
        peer->rtt_ns = clock_now_ns() - peer->ping_ns;
        peer->ping_ns = 0;
    }
}

/* All other messages are part of the link. */
static bool is_heartbeat(uint32_t tag, const Tca__Message *message)
{
    return tag == 0 && (message->body_case == TCA__MESSAGE__BODY_PEER_PING ||
                        message->body_case == TCA__MESSAGE__BODY_PEER_PONG);
}

void connection_message(struct connection *connection, uint32_t tag, const Tca__Message *message,
                        size_t bytes)
{
    struct peers *peers = connection->peers;
    struct peer *peer = connection->peer;

    peer->heard_ns = clock_now_ns();
    if (!is_heartbeat(tag, message))
        link_received(peer, bytes);
    switch (message->body_case) {
    case TCA__MESSAGE__BODY_PEER_LEAVE:
        peer_move(peer, PEER_DOWN, -ECONNRESET, "its daemon has ended");
        return;
    case TCA__MESSAGE__BODY_PEER_PING:
        handle_ping(connection, tag, message->peer_ping);
        return;
    case TCA__MESSAGE__BODY_PEER_PONG:
        if (tag == 0)
            handle_pong(connection, message->peer_pong);
        else
            peer_request_replied(peers, peer->node, tag, message);
        return;
    case TCA__MESSAGE__BODY_FAILURE:
    case TCA__MESSAGE__BODY_DONE:
    case TCA__MESSAGE__BODY_PEER_GROUP_MOVED:
    case TCA__MESSAGE__BODY_PEER_GROUP_REFUSED:
    case TCA__MESSAGE__BODY_FOUND:
    case TCA__MESSAGE__BODY_PEER_BOUND:
    case TCA__MESSAGE__BODY_PEER_OFFERED:
        peer_request_replied(peers, peer->node, tag, message);
        return;
    case TCA__MESSAGE__BODY_PEER_BIND:
    case TCA__MESSAGE__BODY_PEER_UNBIND:
    case TCA__MESSAGE__BODY_PEER_SESSION_GONE:
    case TCA__MESSAGE__BODY_PEER_GROUP_ENDS:
    case TCA__MESSAGE__BODY_PEER_REGION_GONE:
    case TCA__MESSAGE__BODY_PEER_GROUP_JOIN:
    case TCA__MESSAGE__BODY_PEER_GROUP_FORMED:
    case TCA__MESSAGE__BODY_PEER_TEAM:
    case TCA__MESSAGE__BODY_PEER_PUBLISH:
    case TCA__MESSAGE__BODY_PEER_LOOKUP:
    case TCA__MESSAGE__BODY_PEER_OFFER:
    case TCA__MESSAGE__BODY_PEER_PAIR_GONE:
    case TCA__MESSAGE__BODY_PEER_PAIR_AGAIN:
    case TCA__MESSAGE__BODY_PEER_PAIR_OFFER:
        peers->events.asked(peers->events.context, peer->node, tag, message);
        return;
    default:
        connection_fail(connection, -EPROTO, "a message that daemons do not send each other");
    }
}
