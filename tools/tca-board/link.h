/*
 * A cable between two boards on one machine: a memfd with a ring for each direction, a doorbell for
 * each end, and the connection over which they were exchanged. The cable is plugged in while the
 * connection exists, so the kernel informs a board of its neighbour's end. Each time a cable is
 * plugged in, new rings are created.
 *
 * The end with the other's path (--cable) connects to the neighbour's control socket and sends
 * PEACH2_LINK (port: the neighbour's; length: its own port; node: its own) with the memfd and its
 * doorbell. The reply has the neighbour's node and doorbell. Ring 0 is from the connecting end to
 * the other.
 *
 * Packets are neither lost nor duplicated: `claimed` decides who owns a packet. The receiver claims
 * a packet before it reads it. When the cable is unplugged, the sender sets LINK_CLOSED in
 * `claimed` and takes back all unclaimed packets. If a board is killed, the packets that it has
 * claimed are lost.
 */
#pragma once

#include <assert.h>
#include <stdint.h>

#include "drivers/peach2/registers.h"

enum {
    LINK_SLOTS = 256,
    LINK_VERSION = 1,
};
#define LINK_CLOSED (UINT64_C(1) << 63)

enum { PACKET_ACKNOWLEDGE = 1 << 0, PACKET_QUIET = 1 << 1 };

struct packet_header {
    uint64_t address; /* global */
    uint64_t tag;     /* PACKET_ACKNOWLEDGE: identifies the command to acknowledge */
    uint64_t epoch;
    uint32_t number; /* among the packets from its creator to that node */
    uint16_t length; /* of the payload */
    uint8_t node;    /* its creator */
    uint8_t hops;    /* remaining hops */
    uint8_t flags;
    uint8_t reserved[7];
};
static_assert(sizeof(struct packet_header) == 40, "a link format");

struct packet {
    struct packet_header header;
    uint8_t payload[PEACH2_PAYLOAD_MAX];
};
static_assert(sizeof(struct packet) == 296, "a link format");

struct link_slot {
    _Alignas(64) struct packet packet;
};

/* The indexes wrap around. */
struct link_ring {
    _Alignas(64) _Atomic uint64_t tail;    /* sender: packets put in */
    _Alignas(64) _Atomic uint64_t claimed; /* receiver: packets taken; sender: LINK_CLOSED */
    _Atomic uint64_t head;                 /* receiver: slots that may be reused */
    _Alignas(64) _Atomic uint32_t armed;   /* receiver is asleep: see bell_armed */
    _Atomic uint32_t starved;              /* sender is asleep, and the ring was full */
    _Atomic uint32_t scratch_version;      /* sender: incremented after changes of scratch[] */
    _Atomic uint64_t scratch[PEACH2_NODES];
    struct link_slot slots[LINK_SLOTS];
};

struct link_memory {
    struct link_ring rings[2];
};
