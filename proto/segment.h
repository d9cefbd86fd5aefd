/*
 * The two shared segments of a session. Both are memfds made and sealed (no shrinking, no growing)
 * by the daemon. Everything in them can be written by the client, the notification segment also by
 * its peers on the node: readers copy a value once, then check it, and take the geometry from the
 * constants below, never from the memory.
 *
 * Their version is PROTO_VERSION.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

enum {
    LINE_BYTES = 64,
    SEGMENT_MAGIC = 0x53414354, /* "TCAS" */
};

/* ---- submission and completion: between one client and its daemon ---- */

struct submit_entry {  /* client -> daemon, 16 bytes: four in a line */
    uint32_t plan;     /* id from the daemon's answer to the commit */
    uint32_t sequence; /* counts the starts of this plan */
    uint64_t start_ns; /* CLOCK_MONOTONIC when the client wrote it */
};
static_assert(sizeof(struct submit_entry) == 16, "shared format");

struct complete_entry { /* daemon -> client, one line */
    uint32_t plan;
    uint32_t sequence; /* of the start that it answers */
    uint32_t status;   /* wire status */
    uint8_t rail;      /* enum rail */
    uint8_t hops;      /* cables that it crossed, at most; 0: its rail has none */
    uint16_t retries;
    uint64_t bytes;
    uint32_t descriptors;
    uint32_t fault;     /* what the rail's device said of an error: driver_op.fault */
    uint64_t start_ns;  /* as submitted */
    uint64_t taken_ns;  /* the engine took it from the ring */
    uint64_t posted_ns; /* the last descriptor was given to the driver */
    uint64_t done_ns;   /* all of them were complete */
};
static_assert(sizeof(struct complete_entry) == LINE_BYTES, "shared format");

/*
 * Memory that the process has attached (tca_region_attach): its daemon has no part in it. There is
 * bounce memory beside it, as long, that both have mapped; a bounce is one layout in both, known to
 * both by its id. The process copies between the two, on a thread of its own (client/memory/bounce.c), as
 * the daemon asks for it in two rings of ids: OUT before a put from there, IN after one has landed
 * there, before its notification. An entry is taken when its copying is done: `head` says so. Id 0
 * is nothing to copy.
 */
enum bounce_way { BOUNCE_OUT = 0, BOUNCE_IN = 1, BOUNCE_WAYS = 2 };
enum { BOUNCE_ENTRIES = 256 };

/* Producer's and consumer's indexes on lines of their own; they count up freely and are masked on
 * use. */
struct ring_indexes {
    _Alignas(LINE_BYTES) _Atomic uint32_t tail; /* written by the producer only */
    _Alignas(LINE_BYTES) _Atomic uint32_t head; /* written by the consumer only */
};

/*
 * Who is asleep. Legal transitions: the engine sets `engine_armed` before it stops looking at this
 * session's rings and looks at them once more; the client, after it has moved a tail, exchanges it
 * for 0 and, if it was 1, writes the engine's eventfd. (tests/model/ring.pml shows that no wake-up
 * is lost.)
 */
struct session_segment {
    uint32_t magic;
    uint32_t version;
    _Alignas(LINE_BYTES) _Atomic uint32_t engine_armed; /* 1: ring the eventfd */
    _Alignas(LINE_BYTES) _Atomic uint32_t
        events; /* bumped by the daemon after it has sent an Event frame */
    _Alignas(LINE_BYTES) struct ring_indexes submit[CHANNELS];
    struct ring_indexes complete;
    /* Starts in the client seat, by plan id: stored by the client, read by the daemon for its
     * displays only. */
    _Alignas(LINE_BYTES) _Atomic uint64_t client_starts[PLANS_PER_SESSION_MAX];
    _Alignas(LINE_BYTES) struct submit_entry submit_entries[CHANNELS][SUBMIT_ENTRIES];
    _Alignas(LINE_BYTES) struct complete_entry complete_entries[COMPLETE_ENTRIES];
    struct ring_indexes bounce[BOUNCE_WAYS];
    _Alignas(LINE_BYTES) uint32_t bounce_entries[BOUNCE_WAYS][BOUNCE_ENTRIES];
    _Alignas(LINE_BYTES) _Atomic uint32_t
        bounce_bell; /* a futex: bumped by whoever has something for the process's bounce thread */
};

/* ---- notifications: written by everybody who may notify this session ---- */

/*
 * One line per (rank that notifies, slot). Two counters, so that each has a single kind of writer:
 * `direct` is stored by the notifying process itself (plain stores: it is the only one), `routed`
 * is added to by this node's daemon. The sum is what has arrived, `taken` what the owner (client,
 * or engine for its plans) has consumed; all count up freely.
 *
 * `landing` is where the last data before the notification went, in the owner's addresses: a waiter
 * prefetches it while it polls, so that data and counter cross between the cores at the same time.
 * It is a hint and never dereferenced.
 */
struct notify_line {
    _Alignas(LINE_BYTES) _Atomic uint64_t direct;
    _Atomic uint64_t landing;
    _Atomic uint64_t routed;
    _Atomic uint64_t arrived_ns; /* when the daemon last added to routed (CLOCK_MONOTONIC) */
    uint64_t reserved[4];
};
static_assert(sizeof(struct notify_line) == LINE_BYTES, "shared format");

enum source_state { /* of each rank, written by the owner's daemon */
                    SOURCE_ALIVE = 0,
                    SOURCE_DEAD = 1,      /* the process ended: -EOWNERDEAD */
                    SOURCE_NODE_DOWN = 2, /* its node cannot be reached: -EHOSTDOWN */
};

/*
 * The owner sleeps on `doorbell` (a futex): it sets `sleeping`, looks at its counters and its
 * completion ring once more, and waits until doorbell changes. Whoever has stored a counter or a
 * completion orders that before a load of `sleeping` (a full fence on both sides); if it is set, it
 * is exchanged for 0 and whoever got the 1 bumps doorbell and wakes. `engine_armed` does the same
 * for the owner's daemon, while a plan of this session runs in the daemon seat.
 */
struct notify_segment {
    uint32_t magic;
    uint32_t version;
    uint32_t sources; /* ranks; lines[sources][SLOTS_PER_SOURCE] follow. Information only: readers
                         know it already. */
    _Alignas(LINE_BYTES) _Atomic uint32_t sleeping;
    _Atomic uint32_t engine_armed;
    _Atomic uint32_t strict; /* by the owner: its daemon takes notifications, so data lands before
                                they are raised (lane.h) */
    _Alignas(LINE_BYTES) _Atomic uint32_t doorbell;
    _Alignas(LINE_BYTES) _Atomic uint8_t source_state[GROUP_SIZE_MAX]; /* enum source_state */
    _Alignas(LINE_BYTES) struct notify_line lines[];
};

static inline size_t notify_segment_bytes(uint32_t sources)
{
    /* `taken` counters live behind the lines: only the owner and its daemon touch them. */
    return sizeof(struct notify_segment) +
           (size_t)sources * SLOTS_PER_SOURCE * (sizeof(struct notify_line) + sizeof(uint64_t));
}

static inline struct notify_line *notify_line_of(struct notify_segment *segment, uint32_t rank,
                                                 uint32_t slot)
{
    return &segment->lines[(size_t)rank * SLOTS_PER_SOURCE + slot];
}

static inline _Atomic uint64_t *notify_taken_of(struct notify_segment *segment, uint32_t sources,
                                                uint32_t rank, uint32_t slot)
{
    _Atomic uint64_t *taken =
        (_Atomic uint64_t *)&segment->lines[(size_t)sources * SLOTS_PER_SOURCE];
    return &taken[(size_t)rank * SLOTS_PER_SOURCE + slot];
}

enum rail {
    RAIL_NONE = 0,
    RAIL_SHM = 1,
    RAIL_OFI = 2,
    RAIL_HCA = 3,
    RAIL_PEACH2 = 4,
    RAIL_MANYCORE = 5,
    RAIL_COUNT,
};

enum seat {
    SEAT_NONE = 0,
    SEAT_CLIENT = 1,
    SEAT_DAEMON = 2,
    SEAT_HARDWARE = 3,
    SEAT_COUNT,
};

/* "shm", "client", ... and back; NULL or RAIL_NONE / SEAT_NONE for what nobody knows. */
const char *rail_name(enum rail rail);
enum rail rail_from_name(const char *name);
const char *seat_name(enum seat seat);
enum seat seat_from_name(const char *name);
