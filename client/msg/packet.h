/* Messages: what ranks write into each other's memory, and the slots that they notify. */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "client/include/tca-msg.h"
#include "client/memory/near.h"
#include "client/msg/announce.h"

enum {
    MSG_RING = 16,   /* packets to one rank that it has not consumed */
    MSG_CREDIT = 8,  /* packets that one notification back confirms */
    MSG_CLASSES = 3, /* sizes of puts into the ring */
    MSG_PACKET_BYTES = 2048,
    MSG_LARGE = 2, /* long messages from one rank at a time */
    MSG_DATA = TCA_MSG_PAIRS + MSG_LARGE,
    MSG_PLACES = 16,  /* messages of a short pair that were not received yet */
    MSG_CONFIRM = 12, /* its messages that one put back confirms */
};

/* A messenger's slots, from its first one on. A rank is notified there by each other rank. */
enum {
    MSG_SLOT_RING = 0,   /* a packet has arrived */
    MSG_SLOT_CREDIT = 1, /* MSG_CREDIT packets have been consumed */
    MSG_SLOT_DATA = 2,   /* MSG_DATA slots: the data of a pair or of a long message has arrived */
    MSG_SLOT_READY = MSG_SLOT_DATA + MSG_DATA,      /* TCA_MSG_PAIRS slots: a receive was started */
    MSG_SLOT_WAKE = MSG_SLOT_READY + TCA_MSG_PAIRS, /* places are free: never taken, only wakes */
    MSG_SLOTS,
};

enum msg_kind {
    MSG_SHORT = 1,  /* tag; request: context; the message */
    MSG_OFFER = 2,  /* tag, request of the sender; offer; perhaps the message */
    MSG_GRANT = 3,  /* request of the sender, index of the slot; address (note) */
    MSG_NOTICE = 4, /* a receive of a pair: tag, index; request: 1, may be short; address (note) */
    MSG_PAIRED = 5, /* its send: index; tag: 1, is short; length */
    MSG_RECV_GONE = 6, /* index; starts */
    MSG_SEND_GONE = 7, /* index; completed starts, or UINT64_MAX: one is left incomplete */
    /* The sender has stored it where it is, and notified then: packets are complete in order. */
    MSG_STRAIGHT = 128,
    MSG_PLACED = 8, /* tag; index: the word of an announced receive, request: the announcement;
                     * length: of its data, which is there */
};

struct msg_head {
    uint32_t seq; /* of packets between two ranks, from 1 on */
    uint8_t kind; /* perhaps with MSG_STRAIGHT */
    uint8_t index;
    uint16_t bytes; /* of the payload */
    uint32_t tag;
    uint32_t request;
};
static_assert(sizeof(struct msg_head) + TCA_MSG_EAGER_BYTES == MSG_PACKET_BYTES, "wire format");

/* A number in a cache line of its own. */
struct msg_count {
    _Alignas(64) _Atomic uint64_t value;
};

/* What a rank keeps for each other rank, which writes the packets, places and confirmed counts, and
 * its receives. */
struct msg_area {
    uint8_t packets[MSG_RING][MSG_PACKET_BYTES];
    _Alignas(64) uint8_t places[TCA_MSG_PAIRS][MSG_PLACES][TCA_MSG_SHORT_BYTES]; /* by data slot */
    /* messages that the other rank has received from each send, by its data slot */
    struct msg_count confirmed[TCA_MSG_PAIRS];
    struct msg_count received[TCA_MSG_PAIRS]; /* from it: the sources of its confirmed counts */
    struct announce_page announced;           /* receives of the other rank */
};

/* The region of a rank's messenger. */
struct msg_areas {
    struct near_directory directory;   /* of the rank's other regions */
    _Alignas(64) struct msg_area of[]; /* by rank */
};

/* Payload of an offer. The message follows, all of it, or nothing. */
struct msg_offer {
    uint64_t bytes;
    struct near_place place; /* of the data; region 0: nobody may read it there */
    struct near_place stage; /* region 0: none. Without both, the receiver has to grant memory */
    uint32_t context;
    uint32_t planned; /* not 0: rather by a plan, if both have their memory in regions */
};

enum { MSG_STAGE_BYTES = 262144 };

/* Packed data on its way: byte n is at n % MSG_STAGE_BYTES. */
struct msg_stage {
    _Alignas(64) _Atomic uint64_t packed;   /* bytes, by the sender */
    _Alignas(64) _Atomic uint64_t unpacked; /* by the receiver */
    _Alignas(64) uint8_t data[MSG_STAGE_BYTES];
};

/* Payload of a grant and of a notice. A layout may follow, as plain data: that of the receiver's
 * memory. */
struct msg_note {
    uint64_t bytes; /* room, or what to put; 0: nothing, and the handle is not valid */
    struct tca_handle handle;
    uint64_t base_bytes; /* of the layout, in the handle's range */
};
