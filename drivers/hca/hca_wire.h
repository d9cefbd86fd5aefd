/*
 * What two instances of the hca driver send each other. Every field that arrives is checked before it
 * is used.
 *
 * Each pair of instances has one reliable connection (RC), made by the two peers' addresses and
 * offers. A message is a SEND of a head with a payload, or a write with immediate data, and takes one
 * receive buffer at the other end. Both ends keep HCA_RECEIVES of them: HCA_WINDOW for messages that
 * are counted, the rest for counts.
 */
#pragma once

#include <assert.h>
#include <stdint.h>

#include "proto/limits.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire format is little endian");

enum {
    HCA_ADDRESS_MAGIC = 0x41414348,
    HCA_OFFER_MAGIC = 0x4f414348,
    HCA_BLOB_MAGIC = 0x42414348,
    HCA_WIRE_VERSION = 1,
    HCA_WINDOW = 64, /* counted messages in flight; a power of 2 */
    HCA_COUNTS = 16, /* counts in flight */
    HCA_RECEIVES = HCA_WINDOW + HCA_COUNTS,
    HCA_SEGMENT_MIN = 512, /* bytes of a message: head and payload */
    HCA_SEGMENT_MAX = 1 << 20,
};

/* Names an instance; random. */
struct hca_id {
    uint64_t word[2];
};

struct hca_address {
    uint32_t magic;
    uint16_t version;
    uint16_t lid;     /* InfiniBand only */
    uint8_t ethernet; /* RoCE: the GID alone is the address */
    uint8_t mtu;      /* enum ibv_mtu */
    uint8_t zero[2];
    uint32_t segment_bytes; /* of its receive buffers */
    uint8_t gid[16];
    struct hca_id id;
};
static_assert(sizeof(struct hca_address) == 48 && sizeof(struct hca_address) <= ADDRESS_MAX_BYTES,
              "wire format");

/* One end of a connection. */
struct hca_offer {
    uint32_t magic;
    uint32_t qpn, psn;
    uint32_t zero;
    struct hca_id id;
};
static_assert(sizeof(struct hca_offer) == 32 && sizeof(struct hca_offer) <= OFFER_MAX_BYTES,
              "wire format");

/* A landing's blob. */
struct hca_blob {
    uint32_t magic;
    uint32_t landing, generation;
    uint32_t rkey;       /* of the region */
    uint64_t address;    /* of the layout's base in the region */
    uint64_t size_bytes; /* of the layout */
    struct hca_id id;    /* of the instance */
    uint64_t region;     /* its number; 0: none */
};
static_assert(sizeof(struct hca_blob) == 56 && sizeof(struct hca_blob) <= LANDING_MAX_BYTES,
              "wire format");

enum hca_kind {
    HCA_PIECE = 1,  /* of a put: its payload goes into the landing */
    HCA_ASK = 2,    /* nothing but the question for the count */
    HCA_COUNT = 3,  /* nothing but the count; not counted itself */
    HCA_RECALL = 4, /* numbers (uint64_t) of freed regions: writes to them must stop */
};

enum hca_flags {
    HCA_LAST = 1 << 0, /* piece of its put: if the landing notifies, it does so now */
    HCA_TELL = 1 << 1, /* the sender waits for the count that includes this message */
};

struct hca_head {
    uint8_t kind;
    uint8_t flags;
    uint16_t zero;
    uint32_t length_bytes; /* of the payload */
    uint32_t landing, generation;
    uint64_t position_bytes; /* of the payload in the packed bytes of the landing */
    uint64_t counted;        /* messages that the sender of this one has received */
};
static_assert(sizeof(struct hca_head) == 32, "wire format");

/* Immediate data: the last write of a put names its landing, if its numbers are small enough. */
enum { HCA_IMM_LANDINGS = 1 << 20, HCA_IMM_GENERATIONS = 1 << 12 };
static inline uint32_t hca_imm(uint32_t landing, uint32_t generation)
{
    return landing << 12 | (generation & (HCA_IMM_GENERATIONS - 1));
}
