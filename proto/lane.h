/*
 * A lane: how two sessions of a node share the copying of puts from one to the other. The sender describes what is still to be done
 * in entries; whoever is free does it, in order: usually the receiver, while it waits for the notification that follows; else the
 * sender itself, so that nothing depends on the receiver's help. An entry is either
 *   STAGED  bytes that lie packed in the entry's slot, to be unpacked into the target, or
 *   DIRECT  bytes to be copied from the source to the target, which both have mapped.
 *
 * A memfd made and sealed by the daemon, all zero at first; both ends write all of it, so each copies an entry once and checks it.
 *
 *   - An entry and its slot belong to the sender until it stores `sequence` (its number from 0 on, plus 1), then to the lane until `head`
 *     has passed it: a receiver may write to the slot, too.
 *   - Who does an entry's work holds `drainer` meanwhile: exchanged from LANE_NOBODY to its own name, stored back afterwards. `head`
 *     is stored by the holder only. A sender that has ended cannot give it back: the receiver takes it over, and does the entry again.
 *   - A notification is raised after the entries of the puts before it were published. Whoever takes one drains the lane first:
 *     that is all that makes data visible before its notification. Who cannot (its daemon takes notifications for it) says so
 *     in notify_segment.strict; the sender looks there after publishing, and drains the lane itself before it raises.
 */
#pragma once

#include "proto/segment.h"

enum {
    LANE_ENTRIES = 16,
    LANE_SLOT_BYTES = 8 * 1024, /* so that all slots stay in a second-level cache */
    LANE_PUTS_MAX = 4096,       /* puts that may use a lane at a time; the low bits of their ids */
};

enum lane_kind {
    LANE_STAGED = 1,
    LANE_DIRECT = 2,
};

enum lane_drainer {
    LANE_NOBODY = 0,
    LANE_RECEIVER = 1,
    LANE_SENDER = 2,
};

struct lane_entry {
    _Alignas(LINE_BYTES) _Atomic uint64_t sequence;
    /* atomic, for a compiler must not read them twice: who writes here may be hostile */
    _Atomic uint32_t put; /* id that the daemon gave it: low bits a place below LANE_PUTS_MAX */
    _Atomic uint32_t kind;
    _Atomic uint64_t position_bytes; /* in packed bytes of the put */
    _Atomic uint64_t length_bytes;
};
static_assert(sizeof(struct lane_entry) == LINE_BYTES, "shared format");

struct lane_segment {
    _Alignas(LINE_BYTES) _Atomic uint64_t head;
    _Atomic uint32_t drainer; /* enum lane_drainer */
    _Alignas(LINE_BYTES) struct lane_entry entries[LANE_ENTRIES];
    _Alignas(4096) uint8_t slots[LANE_ENTRIES][LANE_SLOT_BYTES];
};

/* The ways to copy a put, where the client itself does it. */
enum way {
    WAY_NONE = 0,
    WAY_PUSH = 1, /* the sender copies */
    WAY_PULL = 2, /* the receiver copies */
    WAY_HALF = 3, /* each copies a half, at the same time */
    WAY_RING =
        4, /* through the slots of the lane, piece by piece: each touches its own side only */
    WAY_COUNT,
};

/* "push" ... and back; NULL or WAY_NONE for what nobody knows. */
const char *way_name(enum way way);
enum way way_from_name(const char *name);
