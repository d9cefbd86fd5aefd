/*
 * What two instances of the tcp driver send each other. Every field that arrives is checked before
 * it is used.
 *
 * A connection is made by the instance that puts (the sender), to the port of the instance that is
 * put into (the receiver). It opens with a challenge, a hello and a welcome, inside TLS 1.3 if the
 * listening instance demands that. All three are signed with the listener's secret, which is part
 * of its address and so known only to daemons that the listener's daemon has greeted.
 *
 * Then records go from sender to receiver: a head and, after it, the bytes of a piece of a put. A
 * put consists of one piece or more; the pieces of all puts are numbered through the life of a
 * sender, across connections. Back come heads alone, with the number of pieces that have been
 * received. After a new connection the welcome says how many were, and the sender sends the rest
 * again: every piece is written to its target once or, if its connection broke within it, from its
 * beginning.
 *
 * A connection between two processes (adopt.h) has a sender and a receiver at both ends, and opens
 * at both at once: both say a welcome. Heads that come back stand between the pieces of the other
 * direction.
 */
#pragma once

#include <assert.h>
#include <stdint.h>

#include "proto/limits.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire format is little endian");

enum {
    TCP_ADDRESS_MAGIC = 0x41504354,
    TCP_BLOB_MAGIC = 0x42504354,
    TCP_CHALLENGE_MAGIC = 0x43504354,
    TCP_HELLO_MAGIC = 0x48504354,
    TCP_PAIR_MAGIC = 0x50504354, /* no beginning of a TLS record */
    TCP_WELCOME_MAGIC = 0x57504354,
    TCP_WIRE_VERSION = 2,
    TCP_ENDPOINTS_MAX = 8, /* that an instance listens at */
    TCP_SECRET_BYTES = 32, /* also of nonces and signatures: HMAC-SHA256 */
    TCP_PIECE_MAX = 1 << 20,
};

/* Names an instance; random, public. */
struct tcp_id {
    uint64_t word[2];
};

struct tcp_endpoint {
    uint8_t host[16]; /* network byte order */
    uint16_t port;    /* host byte order */
    uint8_t family;   /* 4 or 6 */
    uint8_t zero;
};
static_assert(sizeof(struct tcp_endpoint) == 20, "wire format");

/* An instance's address: told to other daemons over the control connection, and to nobody else. */
struct tcp_address {
    uint32_t magic;
    uint16_t version;
    uint8_t encrypts; /* connections are TLS */
    uint8_t count;    /* of endpoints; the others are zero */
    struct tcp_id id;
    uint8_t secret[TCP_SECRET_BYTES];
    struct tcp_endpoint
        endpoints[TCP_ENDPOINTS_MAX]; /* in the order in which they are to be tried */
};
static_assert(sizeof(struct tcp_address) == 216 && sizeof(struct tcp_address) <= ADDRESS_MAX_BYTES,
              "wire format");

/* A landing's blob. */
struct tcp_blob {
    uint32_t magic;
    uint32_t landing, generation;
    uint32_t zero;
    uint64_t size_bytes; /* of its layout */
    struct tcp_id id;    /* of the instance */
};
static_assert(sizeof(struct tcp_blob) == 40 && sizeof(struct tcp_blob) <= LANDING_MAX_BYTES,
              "wire format");

/* The receiver's first words. */
struct tcp_challenge {
    uint32_t magic;
    uint16_t version, zero;
    uint8_t nonce[TCP_SECRET_BYTES];
};
static_assert(sizeof(struct tcp_challenge) == 40, "wire format");

struct tcp_hello {
    uint32_t magic;
    uint16_t version;
    uint16_t known; /* 1: this sender has been welcomed before */
    struct tcp_id id;
    uint64_t link; /* random: a sender of that instance */
    uint8_t nonce[TCP_SECRET_BYTES];
    uint8_t by_listener[TCP_SECRET_BYTES]; /* signed with the listener's secret, and */
    uint8_t by_sender[TCP_SECRET_BYTES];   /* with the sender's own */
};
static_assert(sizeof(struct tcp_hello) == 128, "wire format");

/* In clear, instead of TLS or of a hello: the connection is for a pair of processes, which do all
 * the rest. */
struct tcp_pair_hello {
    uint32_t magic;
    uint16_t version, zero;
    uint64_t pair;
    uint8_t by_secret[TCP_SECRET_BYTES]; /* signed with the pair's */
};
static_assert(sizeof(struct tcp_pair_hello) == 48, "wire format");

struct tcp_welcome {
    uint32_t magic;
    uint32_t known;    /* 1: the receiver still has what it received from this sender before */
    uint64_t received; /* pieces */
    uint8_t by_listener[TCP_SECRET_BYTES];
};
static_assert(sizeof(struct tcp_welcome) == 48, "wire format");

enum tcp_kind {
    TCP_PIECE = 1,
    TCP_ASK = 5,      /* a piece without data, for no landing; it is counted like the others */
    TCP_BYE = 2,      /* the sender has ended, everything that it has sent was received */
    TCP_RECEIVED = 3, /* back: `number` pieces were received */
    TCP_STALE = 4,    /* back: piece `number` was for a landing that is gone */
};

enum tcp_flags {
    TCP_LAST = 1 << 0, /* piece of its put: if the landing notifies, it does so then */
    TCP_TELL = 1 << 1, /* the sender waits for the count that includes this piece */
};

struct tcp_head {
    uint8_t kind;
    uint8_t flags;
    uint16_t zero;
    uint32_t length_bytes; /* that follow; at most TCP_PIECE_MAX */
    uint32_t landing, generation;
    uint64_t position_bytes; /* in the packed bytes of the landing */
    uint64_t number;
};
static_assert(sizeof(struct tcp_head) == 32, "wire format");
