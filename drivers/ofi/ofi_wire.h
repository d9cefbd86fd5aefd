/*
 * What two ofi drivers say to each other. Every field that arrives is checked before it is used;
 * the secrets are there so that only who was told an address (or a landing) by its owner can use
 * it.
 *
 * Remote completion data is 32 bits, because that is what every provider has:
 *
 *   ARRIVED   kind 2 | generation 10 | index 20           all data of a put to this landing is there
 *   SEGMENT   kind 2 | epoch 8 | index 12 | sequence 10   a slot of this source's ring was filled
 *   CREDIT    kind 2 | epoch 8 | index 12 | sequence 10   slots before this one are free again
 *                                                         (index: of the sender's peer)
 */
#pragma once

#include <assert.h>
#include <stdint.h>

#include "proto/limits.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire format is little endian");

enum ofi_data_kind {
    OFI_DATA_ARRIVED = 0,
    OFI_DATA_SEGMENT = 1,
    OFI_DATA_CREDIT = 2,
};

enum {
    OFI_INDEX_BITS = 20,
    OFI_LANDINGS_MAX = 1 << OFI_INDEX_BITS,
    OFI_GENERATIONS = 1 << 10,
    OFI_LINKS_MAX = 1 << 12, /* peers with a ring, and sources */
    OFI_EPOCHS = 1 << 8,
    OFI_SEQUENCES = 1 << 10,
    OFI_NAME_MAX = 128, /* of an endpoint, as libfabric says it */
};

static inline uint32_t ofi_data_landing(uint32_t index, uint32_t generation)
{
    return (uint32_t)OFI_DATA_ARRIVED << 30 | (generation % OFI_GENERATIONS) << OFI_INDEX_BITS |
           index;
}

static inline uint32_t ofi_data_link(enum ofi_data_kind kind, uint32_t epoch, uint32_t index,
                                     uint32_t sequence)
{
    return (uint32_t)kind << 30 | (epoch % OFI_EPOCHS) << 22 | index << 10 |
           sequence % OFI_SEQUENCES;
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
static inline uint32_t ofi_data_ahead(uint32_t data, uint32_t count)
{
    return (data - count) & (OFI_SEQUENCES - 1);
}

struct ofi_secret {
    uint64_t word[2];
};

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
enum { OFI_BLOB_MAGIC = 0x4c41434f, OFI_BLOB_NOTIFY = 1 << 0, OFI_BLOB_CONTIGUOUS = 1 << 1 };
struct ofi_blob {
    uint32_t magic;
    uint32_t data; /* as ofi_data_landing() */
    struct ofi_secret cookie;
    uint64_t landing_key; /* of this landing, for segments */
    uint64_t size_bytes;
    uint64_t address; /* CONTIGUOUS: where the bytes go themselves */
    uint64_t key;
    uint32_t flags;
    uint32_t reserved;
};
static_assert(sizeof(struct ofi_blob) == 64 && sizeof(struct ofi_blob) <= LANDING_MAX_BYTES,
              "wire format");

/* Before the payload in a slot of a ring. */
enum { OFI_SEGMENT_LAST = 1 << 0 };
struct ofi_segment {
    struct ofi_secret secret; /* of the ring */
    uint64_t landing_key;
    uint64_t position_bytes; /* packed, in the landing's layout */
    uint32_t length_bytes;
    uint32_t landing; /* as ofi_data_landing() */
    uint32_t sequence;
    uint32_t flags;
    uint64_t reserved;
};
static_assert(sizeof(struct ofi_segment) == 56, "wire format");

/*
 * Messages. A sender that has something to scatter says HELLO, the receiver makes a ring and says
 * WELCOME (or why not in status); BYE when the sender needs it no more.
 */
enum {
    OFI_MESSAGE_MAGIC = 0x4d41434f,
    OFI_HELLO = 1,
    OFI_WELCOME = 2,
    OFI_BYE = 3,
    OFI_FLUSH = 4, /* has everything before this landed? */
    OFI_FLUSHED =
        5, /* yes: messages and completion data are worked on in the order of their arrival */
};
struct ofi_message {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    struct ofi_secret to; /* cookie of the receiver of this message: else it is ignored */
    uint32_t link;        /* index of the ring's sender's peer */
    uint32_t link_epoch;
    uint32_t source; /* WELCOME, BYE: index of the source at the ring's owner */
    uint32_t source_epoch;
    uint32_t slots;           /* WELCOME */
    uint32_t slot_bytes;      /* WELCOME: header and payload */
    uint32_t status;          /* WELCOME: wire status */
    uint32_t flush;           /* FLUSH, FLUSHED: the asker's number */
    uint64_t ring_address;    /* WELCOME */
    uint64_t ring_key;        /* WELCOME */
    struct ofi_secret secret; /* WELCOME, BYE: of the ring */
    struct ofi_address from;  /* of the sender of this message */
};
static_assert(sizeof(struct ofi_message) == 256, "wire format");
