/*
 * What two instances of the hca driver send each other. Every field that arrives is checked before
 * it is used.
 *
 * Each pair of instances has one reliable connection (RC), made by the two peers' addresses and
 * offers. A message is a SEND of a head with a payload, or a write with immediate data, and takes
 * one receive buffer at the other end. Both ends keep HCA_RECEIVES of them: HCA_WINDOW for messages
 * that are counted, the rest for counts.
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
    HCA_DEVICE_MAGIC = 0x44414348,
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

/* One end of a connection between processes. */
struct hca_seat_offer {
    struct hca_address address;
    struct hca_offer offer;
    uint64_t counted; /* messages that this end has received over earlier ones */
};
static_assert(sizeof(struct hca_seat_offer) == 88 &&
                  sizeof(struct hca_seat_offer) <= OFFER_MAX_BYTES,
              "wire format");

/* What a process needs to open the same port with the same address as its daemon. */
struct hca_device {
    uint32_t magic;
    uint8_t port;
    uint8_t zero[3];
    uint8_t gid[16];
    char name[32]; /* with NUL */
};
static_assert(sizeof(struct hca_device) == 56 && sizeof(struct hca_device) <= ADDRESS_MAX_BYTES,
              "wire format");

/* A landing's blob. Between processes, the key, the address and the region are found out by
 * asking. */
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
    HCA_FIND = 5,   /* hca_find: which landings of the other process are to be described */
    HCA_FOUND = 6,  /* hca_found: described, or gone */
    HCA_KINDS
};

/* Between processes: the landing with this number. */
struct hca_find {
    uint32_t landing, generation;
    uint32_t writes; /* 1: the asking process wants to write there, and needs a key */
    uint32_t zero;
};

enum hca_found_state {
    HCA_GONE = 1, /* it has been, or is not for this peer */
    HCA_TAKES_MESSAGES = 2,
    HCA_TAKES_WRITES = 3,
    HCA_DROPPED = 4, /* not an answer: a message has come for it when it was gone */
};

struct hca_found {
    uint32_t landing, generation;
    uint32_t state;   /* enum hca_found_state */
    uint32_t rkey;    /* these three: HCA_TAKES_WRITES */
    uint64_t address; /* of the layout's base */
    uint64_t region;  /* the number by which it will be recalled */
};
static_assert(sizeof(struct hca_find) == 16 && sizeof(struct hca_found) == 32, "wire format");

enum {
    HCA_FINDS_MAX = 256,                 /* questions of a peer that were not answered */
    HCA_FINDS_ASKED = HCA_FINDS_MAX / 2, /* at most; the rest is for what is to be told unasked */
    HCA_FIND_MANY = (HCA_SEGMENT_MIN - 32) / sizeof(struct hca_find), /* in a message */
    HCA_FOUND_MANY = (HCA_SEGMENT_MIN - 32) / sizeof(struct hca_found),
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
