/*
 * The memory of an offload processor (client/include/tca-dcfa.h): a memfd that the daemon creates
 * and seals, and both map. It begins with struct dcfa_head; then come the queues, placed by the
 * daemon; then the memory that the processor's program uses as it likes and registers for
 * transfers.
 *
 * A send or receive queue is a ring (proto/ring.h) from the processor to the daemon, a completion
 * queue a ring back. The producer's index of a ring is its doorbell record. The processor can write
 * all of it: the daemon copies an entry once and checks the copy.
 */
#pragma once

#include "proto/segment.h"

enum {
    DCFA_MAGIC = 0x41464344,
    DCFA_PAGE_BYTES = 4096,
    DCFA_QUEUE_PAGES = 4096, /* of all queues of a processor, with the head */
    DCFA_DOMAINS_MAX = 64,   /* of a processor, as are the next three */
    DCFA_CQS_MAX = 64,
    DCFA_QPS_MAX = 256,
    DCFA_MEMORIES_MAX = 1024,
    DCFA_ENTRIES_MAX = 16384, /* of one queue; a power of two */
    DCFA_PIECES_MAX = 6,      /* of one entry */
    DCFA_INLINE_MAX_BYTES = 96,
    DCFA_MESSAGE_MAX_BYTES = 1 << 30,
    DCFA_ADDRESS_BYTES = 64, /* of a queue pair: opaque to the processor */
    DCFA_DEVICE_NAME_BYTES = 64,
};

enum dcfa_kind { DCFA_PROCESSOR, DCFA_DOMAIN, DCFA_CQ, DCFA_QP, DCFA_MEMORY, DCFA_KINDS };

/* The values of the next four are also in tca-dcfa.h. */
enum { DCFA_ACCESS_LOCAL = 1, DCFA_ACCESS_WRITE = 2, DCFA_ACCESS_READ = 4, DCFA_ACCESS_ALL = 7 };

enum dcfa_opcode {
    DCFA_OP_SEND,
    DCFA_OP_SEND_IMMEDIATE,
    DCFA_OP_WRITE,
    DCFA_OP_WRITE_IMMEDIATE,
    DCFA_OP_READ,
    DCFA_OP_RECEIVE,           /* in completions: a send was received */
    DCFA_OP_RECEIVE_IMMEDIATE, /* a write with immediate data has arrived */
    DCFA_OPS,
};

enum dcfa_flag {
    DCFA_FLAG_SIGNALLED = 1 << 0, /* a successful entry has a completion, too */
    DCFA_FLAG_INLINE = 1 << 1,    /* the data is in the entry */
    DCFA_FLAG_FENCE = 1 << 2,     /* starts when earlier reads are complete */
    DCFA_FLAG_IMMEDIATE = 1 << 3, /* in completions: `immediate` is valid */
    DCFA_FLAGS_SEND = DCFA_FLAG_SIGNALLED | DCFA_FLAG_INLINE | DCFA_FLAG_FENCE,
};

enum dcfa_status {
    DCFA_ST_OK,
    DCFA_ST_ENTRY,         /* the entry is malformed */
    DCFA_ST_LOCAL_LENGTH,  /* a received message is longer than its buffer */
    DCFA_ST_LOCAL_ACCESS,  /* a piece is not in registered memory of the domain */
    DCFA_ST_FLUSHED,       /* the queue pair had failed before */
    DCFA_ST_REMOTE_ACCESS, /* the remote range is not registered for this access */
    DCFA_ST_REMOTE,        /* the peer has refused or could not complete it */
    DCFA_ST_UNREACHABLE,   /* the peer does not respond */
    DCFA_ST_DEVICE,        /* any other error of the device */
    DCFA_STATUSES,
};

struct dcfa_piece_entry {
    uint64_t address; /* in the processor's process */
    uint32_t bytes;
    uint32_t key;
};

struct dcfa_entry { /* of a send or receive queue */
    uint64_t id;
    uint64_t remote_address;
    uint32_t remote_key;
    uint32_t immediate;
    uint8_t opcode; /* send queues only */
    uint8_t flags;
    uint16_t count; /* of pieces; DCFA_FLAG_INLINE: of bytes */
    uint32_t reserved;
    union {
        struct dcfa_piece_entry pieces[DCFA_PIECES_MAX];
        uint8_t data[DCFA_INLINE_MAX_BYTES];
    };
};
static_assert(sizeof(struct dcfa_entry) == 2 * LINE_BYTES, "shared format");

struct dcfa_completion_entry {
    uint64_t id;
    uint32_t qp;
    uint32_t bytes; /* received */
    uint32_t immediate;
    uint8_t status, opcode, flags, reserved;
    uint64_t unused;
};
static_assert(sizeof(struct dcfa_completion_entry) == 32, "shared format");

struct dcfa_head {
    uint32_t magic;
    uint32_t version; /* PROTO_VERSION */
    /* As engine_armed in proto/segment.h: 1: the daemon sleeps; exchange it for 0 and write the
     * eventfd. */
    _Alignas(LINE_BYTES) _Atomic uint32_t armed;
};

static inline uint32_t dcfa_queue_pages(uint32_t entries, uint32_t entry_bytes)
{
    const uint64_t bytes = sizeof(struct ring_indexes) + (uint64_t)entries * entry_bytes;
    return (uint32_t)((bytes + DCFA_PAGE_BYTES - 1) / DCFA_PAGE_BYTES);
}

/* The ring of a queue at this address. */
#define dcfa_ring_init(ring, base, entry_bytes, entries)                                           \
    ring_init(ring, (struct ring_indexes *)(base),                                                 \
              (uint8_t *)(base) + sizeof(struct ring_indexes), entry_bytes, entries)
