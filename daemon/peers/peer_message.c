/* What a daemon says on its connection: its greeting, then questions, answers and pings. */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"
#include "proto/frame.h"
#include "proto/status.h"

/* ---- greeting ---- */

static void send_done(struct connection *connection)
{
    Tca__Done done = TCA__DONE__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    message.body_case = TCA__MESSAGE__BODY_DONE;
    message.done = &done;
    connection_send(connection, 0, &message);
}

void connection_send_hello(struct connection *connection)
{
    Tca__Message *hello = connection->peers->hello;
    char *configured = hello->peer_hello->cluster;
    struct pulses *pulses = connection->peers->pulses;

    if (pulses && getrandom(connection->heartbeat_key, sizeof connection->heartbeat_key,
                            GRND_NONBLOCK) == sizeof connection->heartbeat_key) {
        hello->peer_hello->heartbeat_port = pulses_port(pulses);
        hello->peer_hello->heartbeat_key = (ProtobufCBinaryData){
            sizeof connection->heartbeat_key, (uint8_t *)connection->heartbeat_key};
    }
    hello->peer_hello->cluster =
        connection->peers->tcad->cluster->name; /* a reload may have changed it */
    connection_send(connection, 0, hello);
    hello->peer_hello->cluster = configured;
    hello->peer_hello->heartbeat_port = 0;
    hello->peer_hello->heartbeat_key = (ProtobufCBinaryData){0};
}

/* Takes the message over when it returns true. */
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
    int r = greeting_check(peers, hello, connection->peer, text, sizeof text);
    if (r == 0) {
        snprintf(text, sizeof text, "out of memory");
        r = peer_get(peers, hello->node, &peer);
    }
    if (r == 0)
        r = greeting_choose(connection, peer, text, sizeof text);
    if (r < 0) {
        connection_refuse(connection, r, text);
        return false;
    }
    connection_unwatch(connection);
    connection->peer = peer;
    connection->accepted = true;
    connection->hello = message;
    peer->connection = connection;
    stream_set_limit(connection->stream, FRAME_PAYLOAD_MAX);
    if (peer->state != PEER_GREETING)
        peer_move(peer, PEER_GREETING, 0, NULL);
    send_done(connection);
    return true;
}

static void handle_refusal(struct connection *connection, const Tca__Failure *failure)
{
    struct peer *peer = connection->peer;
    int status = status_from_wire(failure->status);
    char text[PEER_TEXT_MAX];

    if (peer && status == -EALREADY) { /* its own connection to us is on the way: wait for that */
        peer->connection = connection_free(connection);
        return;
    }
    snprintf(text, sizeof text, "it refuses: %s", failure->text);
    peer_clean(text);
    connection_fail(connection, status < 0 ? status : -EPROTO, text);
}

bool connection_greeting(struct connection *connection, Tca__Message *message)
{
    switch (message->body_case) {
    case TCA__MESSAGE__BODY_PEER_HELLO:
        return handle_hello(connection, message);
    case TCA__MESSAGE__BODY_DONE:
        if (connection->accepted)
            peer_move(connection->peer, PEER_UP, 0, NULL);
        else
            connection_fail(connection, -EPROTO, "a greeting in the wrong order");
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
    Tca__PeerPong pong = TCA__PEER_PONG__INIT;
    pong.sequence = ping->sequence;
    Tca__Message message = TCA__MESSAGE__INIT;
    message.body_case = TCA__MESSAGE__BODY_PEER_PONG;
    message.peer_pong = &pong;
    connection_send(connection, tag, &message);
}

static void handle_pong(struct peer *peer, const Tca__PeerPong *pong)
{
    if (peer->ping_ns && pong->sequence == peer->ping_sequence) {
        peer->rtt_ns = peer_now_ns() - peer->ping_ns;
        peer->ping_ns = 0;
    }
}

void connection_message(struct connection *connection, uint32_t tag, const Tca__Message *message)
{
    struct peers *peers = connection->peers;
    struct peer *peer = connection->peer;

    switch (message->body_case) {
    case TCA__MESSAGE__BODY_PEER_PING:
        handle_ping(connection, tag, message->peer_ping);
        return;
    case TCA__MESSAGE__BODY_PEER_PONG:
        if (tag == 0)
            handle_pong(peer, message->peer_pong);
        else
            question_answered(peers, peer->node, tag, message);
        return;
    case TCA__MESSAGE__BODY_FAILURE:
    case TCA__MESSAGE__BODY_DONE:
    case TCA__MESSAGE__BODY_GROUP_MEMBERS:
    case TCA__MESSAGE__BODY_GATHERED:
    case TCA__MESSAGE__BODY_FOUND:
    case TCA__MESSAGE__BODY_PEER_BOUND:
        question_answered(peers, peer->node, tag, message);
        return;
    case TCA__MESSAGE__BODY_PEER_BIND:
    case TCA__MESSAGE__BODY_PEER_UNBIND:
    case TCA__MESSAGE__BODY_PEER_SETTLE:
    case TCA__MESSAGE__BODY_PEER_SESSION_GONE:
    case TCA__MESSAGE__BODY_PEER_REGION_GONE:
    case TCA__MESSAGE__BODY_PEER_GROUP_JOIN:
    case TCA__MESSAGE__BODY_PEER_GATHER:
    case TCA__MESSAGE__BODY_PEER_PUBLISH:
    case TCA__MESSAGE__BODY_PEER_LOOKUP:
        peers->events.asked(peers->events.context, peer->node, tag, message);
        return;
    default:
        connection_fail(connection, -EPROTO, "a message that daemons do not send each other");
    }
}
