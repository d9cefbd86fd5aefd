/* A peer whose messages the test writes: node 0, in plain, to node 1. */
#pragma once

#include "peers.h"

#include "proto/frame.h"
#include "proto/status.h"

static const uint8_t raw_key[LINK_KEY_BYTES] = "the key of raw 0";

struct raw {
    int fd;
    uint8_t bytes[1 << 20]; /* that have come */
    size_t count;
    uint8_t their_key[LINK_KEY_BYTES]; /* of the link, once it is up */
    uint32_t tag;                      /* of the last message */
};

static struct raw raw = {.fd = -1};
static int raw_listener = -1; /* stands for a running daemon */

static inline struct node *raw_node(void)
{
    return &test.nodes[1];
}

static inline struct peer *raw_seen(void)
{
    return peer_find(raw_node()->tcad.peers, 0);
}

static inline void raw_listen(void)
{
    struct sockaddr_in address = own_address(test.ports[0]);
    const int one = 1;
    raw_listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(raw_listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    cr_assert_eq(bind(raw_listener, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(raw_listener, 64), 0);
}

static inline void raw_say(uint32_t tag, const Tca__Message *message)
{
    uint8_t bytes[4096];
    struct frame_header header;
    cr_assert_leq(tca__message__get_packed_size(message), sizeof(bytes));
    const size_t count = tca__message__pack(message, bytes);
    frame_header_fill(&header, tag, (uint32_t)count);
    cr_assert_eq(send(raw.fd, &header, sizeof(header), MSG_NOSIGNAL), (ssize_t)sizeof(header));
    cr_assert_eq(send(raw.fd, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
}

static inline bool raw_has_frame(void)
{
    const struct frame_header *header = (const struct frame_header *)raw.bytes;
    ssize_t n;
    while ((n = recv(raw.fd, raw.bytes + raw.count, sizeof(raw.bytes) - raw.count, MSG_DONTWAIT)) >
           0)
        raw.count += (size_t)n;
    return raw.count >= sizeof(*header) && raw.count >= sizeof(*header) + header->length_bytes;
}

/* The next message. Free it. */
static inline Tca__Message *raw_hear(void)
{
    struct frame_header header;
    run_until(raw_has_frame);
    memcpy(&header, raw.bytes, sizeof(header));
    Tca__Message *message =
        tca__message__unpack(NULL, header.length_bytes, raw.bytes + sizeof(header));
    cr_assert_not_null(message);
    raw.tag = header.tag;
    raw.count -= sizeof(header) + header.length_bytes;
    memmove(raw.bytes, raw.bytes + sizeof(header) + header.length_bytes, raw.count);
    return message;
}

static inline Tca__Message *raw_expect(Tca__Message__BodyCase body)
{
    Tca__Message *message = raw_hear();
    cr_assert_eq(message->body_case, body, "%d instead of %d", message->body_case, body);
    return message;
}

static inline void raw_expect_question(const char *name)
{
    Tca__Message *message = raw_expect(TCA__MESSAGE__BODY_PEER_LOOKUP);
    cr_assert_str_eq(message->peer_lookup->name, name);
    tca__message__free_unpacked(message, NULL);
}

static inline void raw_expect_failure(int status, const char *text)
{
    Tca__Message *message = raw_expect(TCA__MESSAGE__BODY_FAILURE);
    cr_assert_eq(status_from_wire(message->failure->status), status, "%s", message->failure->text);
    contains(message->failure->text, text);
    tca__message__free_unpacked(message, NULL);
}

static inline void raw_answer(uint32_t tag)
{
    Tca__Found found = TCA__FOUND__INIT;
    const Tca__Message message = MESSAGE_OF(FOUND, found, &found);
    raw_say(tag, &message);
}

static inline void raw_ping(uint64_t received)
{
    Tca__PeerPing ping = TCA__PEER_PING__INIT;
    ping.received = received;
    const Tca__Message message = MESSAGE_OF(PEER_PING, peer_ping, &ping);
    raw_say(0, &message);
}

/* ---- greeting ---- */

static inline void raw_end(void)
{
    close(raw.fd);
    raw.fd = -1;
    raw.count = 0;
}

/* Connects and sends hello; resume_key NULL: for a new link. Receives their hello. */
static inline void raw_hello(uint64_t incarnation, const uint8_t *resume_key)
{
    struct sockaddr_in address = own_address(test.ports[1]);

    raw.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(raw.fd, (struct sockaddr *)&address, sizeof(address)), 0);
    Tca__PeerHello hello = BODY_OF(
        peer_hello, .version = PROTO_VERSION, .node = 0, .node_name = (char *)"n0",
        .incarnation = incarnation, .cluster = (char *)"test", .daemon_version = (char *)"raw",
        .link_key = (ProtobufCBinaryData){LINK_KEY_BYTES, (uint8_t *)raw_key});
    if (resume_key)
        hello.resume_key = (ProtobufCBinaryData){LINK_KEY_BYTES, (uint8_t *)resume_key};
    const Tca__Message message = MESSAGE_OF(PEER_HELLO, peer_hello, &hello);
    raw_say(0, &message);

    Tca__Message *theirs = raw_expect(TCA__MESSAGE__BODY_PEER_HELLO);
    cr_assert_eq(theirs->peer_hello->link_key.len, LINK_KEY_BYTES);
    if (!resume_key)
        memcpy(raw.their_key, theirs->peer_hello->link_key.data, LINK_KEY_BYTES);
    tca__message__free_unpacked(theirs, NULL);
}

static inline void raw_welcome(const uint8_t *resume_key, uint64_t received)
{
    Tca__PeerWelcome welcome = TCA__PEER_WELCOME__INIT;
    if (resume_key)
        welcome.resume_key = (ProtobufCBinaryData){LINK_KEY_BYTES, (uint8_t *)resume_key};
    welcome.received = received;
    const Tca__Message message = MESSAGE_OF(PEER_WELCOME, peer_welcome, &welcome);
    raw_say(0, &message);
}

/* Receives their welcome: how many messages they have received; -1: they do not resume. */
static inline int64_t raw_welcomed(void)
{
    Tca__Message *message = raw_expect(TCA__MESSAGE__BODY_PEER_WELCOME);
    const Tca__PeerWelcome *welcome = message->peer_welcome;
    const int64_t received = welcome->resume_key.len ? (int64_t)welcome->received : -1;
    if (welcome->resume_key.len)
        cr_assert_arr_eq(welcome->resume_key.data, raw_key, LINK_KEY_BYTES);
    tca__message__free_unpacked(message, NULL);
    return received;
}

static inline bool raw_is_up(void)
{
    return raw_seen() && raw_seen()->state == PEER_UP;
}

static inline bool raw_is_lost(void)
{
    return raw_seen()->state != PEER_UP;
}

static inline bool raw_is_down(void)
{
    return raw_node()->downs == 1;
}

enum { RAW_INCARNATION = 4242 };

/* A node that has sent its welcome, and waits for one. */
static inline struct node *raw_begin_half(void)
{
    struct node *node = node_init(1);
    node->conf.control.security = CONF_SECURITY_PLAIN;
    node_open(node);
    raw_listen();
    raw_hello(RAW_INCARNATION, NULL);
    cr_assert_eq(raw_welcomed(), -1);
    return node;
}

/* A node that is up. */
static inline struct node *raw_begin(void)
{
    struct node *node = raw_begin_half();
    raw_welcome(NULL, 0);
    run_until(raw_is_up);
    return node;
}

static inline void raw_cut(void)
{
    raw_end();
    run_until(raw_is_lost);
}

/* Resumes over a new connection, after so many of their messages. Returns theirs. */
static inline int64_t raw_resume(uint64_t received)
{
    raw_hello(RAW_INCARNATION, raw.their_key);
    int64_t theirs = raw_welcomed();
    raw_welcome(raw.their_key, received);
    run_until(raw_is_up);
    return theirs;
}
