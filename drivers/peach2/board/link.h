/*
 * A cable between two boards on one machine: a memfd with a ring for each direction, a doorbell for
 * each end, and the connection over which they were exchanged. The cable is in as long as the
 * connection stands, so the kernel tells a board of its neighbour's death. Every plugging makes new
 * rings.
 *
 * Who plugs: the end that was given the other's path (--cable). It connects to the neighbour's
 * control socket and sends PEACH2_LINK (port: at the neighbour; length: its own port; node: itself)
 * with the memfd and its doorbell; the answer carries the neighbour's node and doorbell. Ring 0
 * runs from the one who plugs to the other.
 *
 * Nothing is lost or doubled on the way: a packet belongs to whoever has it in `claimed`. The
 * receiver claims a packet before it looks at it; the sender, when the cable comes out, sets
 * LINK_CLOSED in `claimed`, and everything that was not claimed by then is its own again. What a
 * board had claimed when it was killed is lost with it.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
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
    uint64_t tag;     /* of whoever wants to hear that it has landed */
    uint64_t epoch;
    uint32_t number; /* among the packets of its maker to that node */
    uint16_t length; /* of the payload */
    uint8_t node;    /* that made it */
    uint8_t hops;    /* links that it may still cross */
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

/* The indexes count up freely. */
struct link_ring {
    _Alignas(64) _Atomic uint64_t tail;    /* sender: packets put in */
    _Alignas(64) _Atomic uint64_t claimed; /* receiver: packets taken; sender: LINK_CLOSED */
    _Atomic uint64_t head;                 /* receiver: slots that may be used again */
    _Alignas(64) _Atomic uint32_t armed;   /* receiver is asleep: see bell_armed */
    _Atomic uint32_t starved;              /* sender is asleep and has found the ring full */
    _Atomic uint32_t scratch_version;      /* sender: of what follows */
    _Atomic uint64_t scratch[PEACH2_NODES];
    struct link_slot slots[LINK_SLOTS];
};

struct link_memory {
    struct link_ring rings[2];
};
