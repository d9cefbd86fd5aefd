/*
 * What two ofi drivers say to each other. Every field that arrives is checked before it is used;
 * the secrets are there so that only who was told an address (or a landing) by its owner can use
 * it.
 *
 * Whatever is put to an instance goes over a link to it: a sequence of units, of which the receiver
 * works on each once and in order. A unit is a segment in the ring that the receiver keeps for the
 * link, or a piece that was written to its target. What notifies is a segment, for it carries the
 * ring's secret.
 *
 * Remote completion data has 32 bits at least, because that is what every provider has:
 *
 *   SEGMENT   kind 2 | epoch 8 | index 12 | sequence 10   a segment lies in this source's ring
 *   PIECE     kind 2 | epoch 8 | index 12 | sequence 10   a piece has been written to its target
 *   CREDIT    kind 2 | epoch 8 | index 12 | 0             the mail of this link says more
 *
 * Where the provider has 64 bits, the upper half is a secret: that of the ring, or of the mail.
 * Providers report data that came without a write to memory, and so without any key; without the
 * secret it is no peer's.
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
    OFI_LINKS_MAX = 1 << 12, /* links to peers, and sources: their links to us */
    OFI_EPOCHS = 1 << 8,
    OFI_SEQUENCES = 1 << 10,
    OFI_NAME_MAX = 128, /* of an endpoint, as libfabric says it */
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

/* How far the sequence in the data is ahead of a count. */
static inline uint32_t ofi_data_ahead(uint32_t data, uint64_t count)
{
    return (data - (uint32_t)count) & (OFI_SEQUENCES - 1);
}

struct ofi_secret {
    uint64_t word[2];
};

/* The data of an instance whose provider has 64 bits of it, or not. */
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
    uint64_t sink_address;    /* where writes go that are only completion data */
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
    uint64_t address; /* CONTIGUOUS: where the bytes go themselves */
    uint64_t key;
};
static_assert(sizeof(struct ofi_blob) == 64 && sizeof(struct ofi_blob) <= LANDING_MAX_BYTES,
              "wire format");

/* The header of a segment, before its payload. Both are one entry of the ring (window_ring_after()
 * in drivers/window.h). */
enum {
    OFI_SEGMENT_LAST = 1 << 0, /* of its put, whose pieces came before it */
    OFI_SEGMENT_ASK = 1 << 1,  /* the sender waits for the count: tell it soon */
};
struct ofi_segment {
    struct ofi_secret secret; /* of the ring */
    uint64_t sequence;
    uint64_t landing_key;
    uint64_t position_bytes; /* of the payload: packed, in the landing's layout */
    uint32_t length_bytes;
    uint32_t landing, generation;
    uint32_t flags;
    uint32_t reserved[2];
};
static_assert(sizeof(struct ofi_segment) == 64, "wire format");

/* How much has been worked on, written by the receiver of a link to where HELLO said. */
struct ofi_mail {
    struct ofi_secret secret; /* of the mail */
    uint64_t count;           /* units */
};
static_assert(sizeof(struct ofi_mail) == 24, "wire format");

/*
 * Messages. Who has something to put says HELLO, the receiver makes a ring and says WELCOME (or why
 * not in status); BYE when the sender needs it no more. Each of these may be lost with a connection
 * and is said again by who waits for an answer.
 */
enum {
    OFI_MESSAGE_MAGIC = 0x4d41434f,
    OFI_HELLO = 1,
    OFI_WELCOME = 2,
    OFI_BYE = 3,
    OFI_SYNC = 4,    /* how many units of this link do you have, and do you know these keys? */
    OFI_SYNCED = 5,  /* so many: what came before the question has been worked on, or is lost; and
                        these keys are not known */
    OFI_REVOKE = 6,  /* nothing more to where these keys lead, please */
    OFI_REVOKED = 7, /* nothing will come behind this */
    OFI_MESSAGE_KEYS = 8,
};
struct ofi_message {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    struct ofi_secret to; /* cookie of the receiver of this message: else it is ignored */
    uint32_t link;        /* index of the link at its sender */
    uint32_t link_epoch;
    uint32_t source; /* WELCOME, BYE, SYNC: index of the source at the ring's owner */
    uint32_t source_epoch;
    uint32_t ring_bytes;             /* WELCOME */
    uint32_t segment_bytes;          /* WELCOME: the largest, header and payload */
    uint32_t status;                 /* WELCOME, SYNCED: wire status */
    uint32_t key_count;              /* SYNC, SYNCED, REVOKE */
    uint64_t number;                 /* SYNC, SYNCED, REVOKE, REVOKED: the asker's */
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
