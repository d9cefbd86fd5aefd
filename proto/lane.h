/*
 * A lane lets two sessions of a node share the copying of puts from one to the other. The sender
 * publishes the remaining work as entries, and whichever end is free processes them in order:
 * usually the receiver, while it waits for the notification that follows; otherwise the sender, so
 * that progress never depends on the receiver. An entry is either
 *   STAGED  bytes packed in the entry's slot, to be unpacked into the target, or
 *   DIRECT  bytes to be copied from the source to the target, which both ends have mapped.
 *
 * The lane is a memfd that the daemon creates (all zero) and seals. Both ends can write all of it,
 * so each end copies an entry once and then checks the copy.
 *
 *   - The sender owns an entry and its slot until it stores `sequence` (the entry's number, counted
 *     from 0, plus 1). Then the lane owns them until `head` has passed the entry; the receiver may
 *     write to the slot, too.
 *   - `drainer` is a lock: an end exchanges LANE_NOBODY for its own name before it processes an
 *     entry, and stores LANE_NOBODY afterwards. Only the holder stores `head`. If a sender ends
 *     while it holds the lock, the receiver takes the lock over and processes the entry again.
 *   - The sender raises a notification after it has published the entries of the puts before it. A
 *     receiver drains the lane before it takes a notification: this alone makes data visible before
 *     its notification. A receiver whose daemon takes notifications for it cannot do so and sets
 *     notify_segment.strict; the sender checks it after publishing and then drains the lane itself
 *     before it raises the notification.
 */
#pragma once

#include "proto/segment.h"

enum {
    LANE_ENTRIES = 16,
    LANE_SLOT_BYTES = 8 * 1024, /* all slots together fit in a second-level cache */
    LANE_PUTS_MAX = 4096,       /* concurrent puts of a lane; a put's index is its id modulo this */
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
    /* atomic, so that the compiler reads each once: the writer may be hostile */
    _Atomic uint32_t put; /* id, assigned by the daemon */
    _Atomic uint32_t kind;
    _Atomic uint64_t position_bytes; /* packed position in the put */
    _Atomic uint64_t length_bytes;
};
static_assert(sizeof(struct lane_entry) == LINE_BYTES, "shared format");

struct lane_segment {
    _Alignas(LINE_BYTES) _Atomic uint64_t head;
    _Atomic uint32_t drainer; /* enum lane_drainer */
    _Alignas(LINE_BYTES) struct lane_entry entries[LANE_ENTRIES];
    _Alignas(4096) uint8_t slots[LANE_ENTRIES][LANE_SLOT_BYTES];
};

/* Copy mode of a put in the client seat. */
enum copy_method {
    COPY_NONE = 0,
    COPY_PUSH = 1, /* the sender copies */
    COPY_PULL = 2, /* the receiver copies */
    COPY_HALF = 3, /* each copies one half, concurrently */
    COPY_RING = 4, /* staged through the lane's slots: each end touches its own side only */
    COPY_COUNT,
};

/* Converts to and from "push", "pull", "half", "ring". Unknown: NULL or COPY_NONE. */
const char *copy_method_name(enum copy_method method);
enum copy_method copy_method_from_name(const char *name);
