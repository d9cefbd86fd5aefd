/*
 * What two ofi drivers send to each other. Every field is checked on arrival. Secrets ensure that
 * only instances that were given an address or a landing blob by its owner can use it.
 *
 * What is put to an instance is sent over a link to it, as a sequence of operations, each of which
 * the receiver processes once, in order. An operation is a segment in the ring that the receiver
 * keeps for the link, or a piece that was written to its target. Only segments notify, because they
 * carry the ring's secret.
 *
 * All providers support at least 32 bits of remote completion data:
 *
 *   SEGMENT   kind 2 | epoch 8 | index 12 | sequence 10   a segment is in this source's ring
 *   PIECE     kind 2 | epoch 8 | index 12 | sequence 10   a piece was written to its target
 *   CREDIT    kind 2 | epoch 8 | index 12 | 0             the count is in this link's mail
 *
 * If the provider supports 64 bits, the upper half is a secret, of the ring or of the mail:
 * providers also report data that arrives without a write to memory, which needs no key.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire format is little endian");

enum ofi_data_kind {
    OFI_DATA_SEGMENT = 1,
    OFI_DATA_CREDIT = 2,
    OFI_DATA_PIECE = 3,
};

enum {
    OFI_LINKS_MAX = 1 << 12, /* links to peers, and likewise sources: the links of peers */
    OFI_EPOCHS = 1 << 8,
    OFI_SEQUENCES = 1 << 10,
    OFI_NAME_MAX = 128, /* an endpoint's libfabric address */
};

static inline uint32_t ofi_data_link(enum ofi_data_kind kind, uint32_t epoch, uint32_t index,
                                     uint64_t sequence)
{
    return (uint32_t)kind << 30 | (epoch % OFI_EPOCHS) << 22 | index << 10 |
           (uint32_t)(sequence % OFI_SEQUENCES);
}

static inline uint32_t ofi_data_link_index(uint32_t data)
{
    return data >> 10 & (OFI_LINKS_MAX - 1);
}

static inline uint32_t ofi_data_link_epoch(uint32_t data)
{
    return data >> 22 & (OFI_EPOCHS - 1);
}

/* By how much the sequence in the data is ahead of a count. */
static inline uint32_t ofi_data_ahead(uint32_t data, uint64_t count)
{
    return (data - (uint32_t)count) & (OFI_SEQUENCES - 1);
}

struct ofi_secret {
    uint64_t word[2];
};

/* wide: the provider supports 64 bits. */
static inline uint64_t ofi_data_sign(uint32_t data, const struct ofi_secret *secret, bool wide)
{
    return data | (wide ? secret->word[1] << 32 : 0);
}

/* An instance's address. */
enum { OFI_ADDRESS_MAGIC = 0x4641434f };
struct ofi_address {
    uint32_t magic;
    uint16_t version;
    uint16_t name_bytes;
    struct ofi_secret cookie; /* of the instance */
    uint64_t sink_address;    /* for writes whose bytes have no meaning */
    uint64_t sink_key;
    uint8_t name[OFI_NAME_MAX];
};
static_assert(sizeof(struct ofi_address) == 168 && sizeof(struct ofi_address) <= ADDRESS_MAX_BYTES,
              "wire format");

/* A landing blob. */
enum { OFI_BLOB_MAGIC = 0x4c41434f, OFI_BLOB_CONTIGUOUS = 1 << 0 };
struct ofi_blob {
    uint32_t magic;
    uint32_t landing, generation;
    uint32_t flags;
    struct ofi_secret cookie;
    uint64_t landing_key; /* of this landing */
    uint64_t size_bytes;
    uint64_t address; /* CONTIGUOUS: of the target */
    uint64_t key;
};
static_assert(sizeof(struct ofi_blob) == 64 && sizeof(struct ofi_blob) <= LANDING_MAX_BYTES,
              "wire format");

/* The header of a segment, before its payload. Both are one entry of the ring (window_ring_after()
 * in drivers/window.h). */
enum {
    OFI_SEGMENT_LAST = 1 << 0, /* of its put */
    OFI_SEGMENT_ASK = 1 << 1,  /* the sender waits for the count */
};
struct ofi_segment {
    struct ofi_secret secret; /* of the ring */
    uint64_t sequence;
    uint64_t landing_key;
    uint64_t position_bytes; /* of the payload, in the packed layout */
    uint32_t length_bytes;
    uint32_t landing, generation;
    uint32_t flags;
    uint32_t reserved[2];
};
static_assert(sizeof(struct ofi_segment) == 64, "wire format");

/* Written by the receiver of a link, to the address in its HELLO, with each credit. */
struct ofi_mail {
    struct ofi_secret secret; /* of the mail */
    uint64_t count;           /* operations that were processed */
};
static_assert(sizeof(struct ofi_mail) == 24, "wire format");

/* Messages. A sender requests a link with HELLO; the receiver replies with WELCOME, after creating
 * a ring, or with an error in status. BYE ends the link. Any message can be lost with a connection;
 * requests without a reply are repeated. */
enum {
    OFI_MESSAGE_MAGIC = 0x4d41434f,
    OFI_HELLO = 1,
    OFI_WELCOME = 2,
    OFI_BYE = 3,
    OFI_SYNC = 4,    /* requests the count of this link, and which of these keys are unknown */
    OFI_SYNCED = 5,  /* the reply: earlier operations beyond the count are lost */
    OFI_REVOKE = 6,  /* requests to stop writing to these keys */
    OFI_REVOKED = 7, /* the reply: nothing is written to them after this */
    OFI_MESSAGE_KEYS = 8,
};
struct ofi_message {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    struct ofi_secret to; /* cookie of the receiver; messages with another one are ignored */
    uint32_t link;        /* index of the link at its sender */
    uint32_t link_epoch;
    uint32_t source; /* WELCOME, BYE, SYNC: index of the source at the ring's owner */
    uint32_t source_epoch;
    uint32_t ring_bytes;             /* WELCOME */
    uint32_t segment_bytes;          /* WELCOME: the maximum, with header */
    uint32_t status;                 /* WELCOME, SYNCED: wire status */
    uint32_t key_count;              /* SYNC, SYNCED, REVOKE */
    uint64_t number;                 /* SYNC, REVOKE: of the request; SYNCED, REVOKED: the same */
    uint64_t count;                  /* SYNCED */
    uint64_t address;                /* HELLO: of the link's mail; WELCOME: of the ring */
    uint64_t key;                    /* likewise */
    struct ofi_secret secret;        /* HELLO: of the mail; WELCOME, BYE, SYNC: of the ring */
    uint64_t keys[OFI_MESSAGE_KEYS]; /* likewise */
    struct ofi_address from;         /* of the sender of this message */
};
static_assert(sizeof(struct ofi_message) == 336, "wire format");

static inline uint32_t ofi_message_keys(const struct ofi_message *message)
{
    return message->key_count < OFI_MESSAGE_KEYS ? message->key_count : OFI_MESSAGE_KEYS;
}
