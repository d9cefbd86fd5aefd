/*
 * The two shared segments of a session. Both are memfds that the daemon creates and seals against
 * changes of size. The client can write all of both, and its peers on the node all of the
 * notification segment. So readers copy a value once and then check the copy, and take the geometry
 * from the constants below, never from the memory.
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
    uint32_t plan;     /* id from the daemon's reply to the commit; or with SUBMIT_* */
    uint32_t sequence; /* counts the starts of this plan */
    uint64_t start_ns; /* CLOCK_MONOTONIC when the client wrote it */
};
static_assert(sizeof(struct submit_entry) == 16, "shared format");

#define SUBMIT_STOP   (UINT32_C(1) << 31) /* of a repeating plan: no further round */
#define SUBMIT_CANCEL (UINT32_C(1) << 30) /* cancels the start with this sequence */
#define SUBMIT_PARTS  (UINT32_C(1) << 29) /* a start of a plan with puts in parts */
static_assert(PLANS_PER_SESSION_MAX <= SUBMIT_PARTS, "ids leave room for these");

/* What a start moves of one put: packed bytes from a position in the source layout to one in the
 * target layout. Written by the client before it submits the start. */
struct start_part {
    _Atomic uint64_t source_at_bytes, target_at_bytes, bytes;
    _Atomic uint64_t moved_bytes; /* by all starts of the plan: for status displays */
};

enum { COMPLETE_RETRIES_MAX = (1 << 14) - 1 };

struct complete_entry { /* daemon -> client, one line */
    uint32_t plan;
    uint32_t sequence; /* of the completed start */
    uint32_t status;   /* wire status */
    uint8_t rail;      /* of the first chain: index in Welcome.rails + 1; 0: none */
    uint8_t hops;      /* most cables that one of its puts crossed; 0: the rail has none */
    uint16_t retries : 14;
    uint16_t encryption : 2; /* enum encryption */
    uint64_t bytes;
    uint32_t descriptors;
    uint32_t fault;     /* device-specific cause of an error: driver_op.fault */
    uint64_t start_ns;  /* as submitted */
    uint64_t taken_ns;  /* the engine popped it from the ring */
    uint64_t posted_ns; /* the last descriptor was given to the driver */
    uint64_t done_ns;   /* all descriptors were complete */
};
static_assert(sizeof(struct complete_entry) == LINE_BYTES, "shared format");

/* The producer's and the consumer's index, on separate cache lines. They count up freely and are
 * masked on use. */
struct ring_indexes {
    _Alignas(LINE_BYTES) _Atomic uint32_t tail; /* written by the producer only */
    _Alignas(LINE_BYTES) _Atomic uint32_t head; /* written by the consumer only */
};

/* What the puts or chains of a kind in a plan have tried (client/plan/trial.h,
 * trial_route.h), for tcactl plan explain. Stored by the client once the kind has settled; the
 * daemon only displays it. Plans share lines: the last one stays. */
enum {
    TRIAL_LINES = 64,
    TRIAL_MODES_MAX = 7,
    TRIAL_RAIL = 512, /* in trial_line.modes[].mode: 65536 times the rail, instead of a copy mode */
    TRIAL_CLIENT = 1024, /* and that rail in the client's seat, instead of tcad's */
};
struct trial_line {
    _Alignas(LINE_BYTES) _Atomic uint32_t plan; /* id + 1; 0: nothing */
    /* the first put, of the puts and notifications of the plan; of rails: the chain */
    _Atomic uint32_t transfer;
    _Atomic uint32_t count; /* of modes */
    _Atomic uint32_t choice;
    struct {
        _Atomic uint32_t
            mode; /* enum copy_method, + 256 if streaming, + 65536 times the piece's bytes */
        _Atomic uint32_t blocks; /* of starts with this mode */
        _Atomic uint32_t ns;     /* from start to start, lower quartile of the blocks */
    } modes[TRIAL_MODES_MAX];
};
static_assert(sizeof(struct trial_line) == 2 * LINE_BYTES, "shared format");

static inline uint32_t trial_line_of(uint32_t plan, uint32_t kind)
{
    return (plan + 8 * kind) % TRIAL_LINES;
}

/*
 * Wake-up of the engine: it sets `engine_armed` before it stops polling this session's rings, and
 * then checks them once more. After the client has advanced a tail, it exchanges engine_armed for 0
 * and, if it was 1, writes to the engine's eventfd. tests/model/ring.pml proves that no wake-up is
 * lost.
 */
struct session_segment {
    uint32_t magic;
    uint32_t version;
    _Alignas(LINE_BYTES) _Atomic uint32_t engine_armed; /* 1: write to the eventfd */
    _Alignas(LINE_BYTES) _Atomic uint32_t
        events; /* incremented by the daemon after it has sent an Event frame */
    _Alignas(LINE_BYTES) struct ring_indexes submit[CHANNELS];
    struct ring_indexes complete;
    /* Starts in the client seat, by plan id. Stored by the client; the daemon only displays
     * them. */
    _Alignas(LINE_BYTES) _Atomic uint64_t client_starts[PLANS_PER_SESSION_MAX];
    /* Rounds of repeating plans in the daemon's seat, by plan id. Stored by the daemon, which never
     * reads them. */
    _Alignas(LINE_BYTES) _Atomic uint64_t rounds[PLANS_PER_SESSION_MAX];
    struct trial_line trials[TRIAL_LINES];
    struct start_part parts[START_PARTS_MAX]; /* each plan has its own, consecutive ones */
    _Alignas(LINE_BYTES) struct submit_entry submit_entries[CHANNELS][SUBMIT_ENTRIES];
    _Alignas(LINE_BYTES) struct complete_entry complete_entries[COMPLETE_ENTRIES];
};

/* ---- notifications: written by every process that may notify this session. One sparse mapping:
 * its size is that of the largest number of lines ---- */

/*
 * A line is the counter of one (notifying rank, slot). The owner's daemon allocates it when the
 * first plan that uses it is committed, and knows it by a table of its own. It has two counters,
 * each with one kind of writer: the notifying process stores `direct` (plain stores, because it is
 * the only writer), and this node's daemon adds to `routed`. Their sum is the number of
 * notifications that have arrived; `taken` is the number that the owner (the client, or the engine
 * for its plans) has consumed. All of them wrap around.
 *
 * `landing` is the owner's address of the last data before the notification. A waiter prefetches it
 * while it polls, so that data and counter are transferred between the cores concurrently. It is a
 * hint and never dereferenced.
 */
struct notify_line {
    _Alignas(LINE_BYTES) _Atomic uint64_t direct;
    _Atomic uint64_t landing;
    _Atomic uint64_t routed;
    _Atomic uint64_t arrived_ns; /* when the daemon last added to `routed` (CLOCK_MONOTONIC) */
    _Atomic uint64_t key;        /* notify_key(), by the daemon, which never reads it */
    _Atomic uint32_t watched; /* bit per enum notify_watcher: whoever raises it marks it for them */
    uint32_t reserved[5];
};
static_assert(sizeof(struct notify_line) == LINE_BYTES, "shared format");

enum notify_watcher {
    NOTIFY_OWNER = 0,  /* the client, which sleeps on `doorbell` */
    NOTIFY_ENGINE = 1, /* its daemon's engine, whose `sleeping` is engine_armed */
    NOTIFY_WATCHERS,
};

enum source_state { /* of each rank, written by the owner's daemon */
                    SOURCE_ALIVE = 0,
                    SOURCE_DEAD = 1,      /* the process ended: -EOWNERDEAD */
                    SOURCE_NODE_DOWN = 2, /* its node cannot be reached: -EHOSTDOWN */
};

enum notify_sleep {
    NOTIFY_AWAKE = 0,
    NOTIFY_SLEEPS = 1,         /* wakes for everything */
    NOTIFY_SLEEPS_THROUGH = 2, /* for everything but completions */
};

/*
 * The owner sleeps on `doorbell` (a futex): it sets `sleeping`, checks its counters and its
 * completion ring once more, and waits until doorbell changes. A writer orders its store of a
 * counter or a completion before a load of `sleeping` (a full fence on both sides). If `sleeping`
 * is set, it exchanges it for 0; the writer that got the other value increments doorbell and wakes
 * the owner. A completion does not end the sleep of an owner that waits for notifications only.
 * `engine_armed` does the same for the owner's daemon while a plan of this session runs in the
 * daemon seat.
 */
struct notify_segment {
    uint32_t magic;
    uint32_t version;
    _Atomic uint32_t table_bits; /* the table has 2^table_bits places; 0: there are no lines */
    _Atomic uint32_t line_count; /* lines in use: those below; written by the daemon */
    _Alignas(LINE_BYTES) _Atomic uint32_t sleeping; /* enum notify_sleep */
    _Atomic uint32_t engine_armed;
    _Atomic uint32_t strict; /* set by the owner if its daemon takes notifications: see lane.h */
    _Alignas(LINE_BYTES) _Atomic uint32_t doorbell;
    _Alignas(LINE_BYTES) _Atomic uint8_t
        source_state[GROUP_SIZE_MAX]; /* sparse; enum source_state */
    /* [NOTIFY_LINES_MAX], used from 0 on. The `taken` counters follow, one for each line; only the
     * owner and its daemon use them. Then the marks and the tables. Pages that nobody has used take
     * no memory. */
    _Alignas(LINE_BYTES) struct notify_line lines[];
};

/*
 * Marks tell a watcher that waits for many lines which of them have been raised, so that it need
 * not look at all. It sets its bit in `watched` of each of these lines, and then looks at it once.
 * Whoever raises a watched line sets its bit in the watcher's `lines`, and then that word's bit in
 * `words`; the watcher exchanges them for 0 in the opposite order. All of these are sequentially
 * consistent, and come before the load of `sleeping` or `engine_armed`. The lines of others cost
 * those who raise them no more than a load of what they have just written to. tests/model/marks.pml
 * proves that no mark is lost.
 */
enum { NOTIFY_MARK_BITS = 64, NOTIFY_MARK_WORDS = NOTIFY_LINES_MAX / NOTIFY_MARK_BITS };
struct notify_marks {
    _Alignas(LINE_BYTES) _Atomic uint64_t words[NOTIFY_MARK_WORDS / NOTIFY_MARK_BITS];
    _Atomic uint64_t lines[NOTIFY_MARK_WORDS];
};

/*
 * The table tells the owner which line a (rank, slot) has: open addressing, linear probing from
 * the hash on. Only the daemon writes it, from its own table, and never reads it: it stores a line
 * after its key. A table that has become too small is written anew, twice as large, to its own
 * part of the segment (that of 2^n places begins at place 2^n), before table_bits tells of it.
 */
struct notify_place {
    _Atomic uint64_t key;
    _Atomic uint32_t line; /* + 1; 0: free */
    uint32_t reserved;
};
static_assert(sizeof(struct notify_place) == 16, "shared format");

enum {
    NOTIFY_TABLE_BITS_MIN = 7,
    NOTIFY_TABLE_BITS_MAX = 22, /* a quarter full: no sequence of probes is too long by chance */
    NOTIFY_PROBES_MAX = 64,
};
static_assert(NOTIFY_LINES_MAX <= 1 << (NOTIFY_TABLE_BITS_MAX - 2), "the largest table has room");

#define NOTIFY_TAKEN_AT                                                                            \
    (sizeof(struct notify_segment) + NOTIFY_LINES_MAX * sizeof(struct notify_line))
#define NOTIFY_MARKS_AT  (NOTIFY_TAKEN_AT + NOTIFY_LINES_MAX * sizeof(uint64_t))
#define NOTIFY_PLACES_AT (NOTIFY_MARKS_AT + NOTIFY_WATCHERS * sizeof(struct notify_marks))
/* Of all sessions alike. */
#define NOTIFY_SEGMENT_BYTES                                                                       \
    (NOTIFY_PLACES_AT + (sizeof(struct notify_place) << (NOTIFY_TABLE_BITS_MAX + 1)))

static inline struct notify_line *notify_line_at(struct notify_segment *segment, uint32_t line)
{
    return &segment->lines[line];
}

static inline _Atomic uint64_t *notify_taken_at(struct notify_segment *segment, uint32_t line)
{
    return (_Atomic uint64_t *)((uint8_t *)segment + NOTIFY_TAKEN_AT) + line;
}

static inline struct notify_marks *notify_marks(struct notify_segment *segment,
                                                enum notify_watcher watcher)
{
    return (struct notify_marks *)((uint8_t *)segment + NOTIFY_MARKS_AT) + watcher;
}

/* The table with 2^bits places. */
static inline struct notify_place *notify_table(const struct notify_segment *segment, uint32_t bits)
{
    return (struct notify_place *)((uint8_t *)segment + NOTIFY_PLACES_AT) + (1u << bits);
}

static inline uint64_t notify_key(uint32_t rank, uint32_t slot)
{
    return (uint64_t)rank << 32 | slot;
}

/* Counters in a session's memory (client/include/tca-signal.h) have lines, too, of which only the
 * marks are used. The key of such a line is that of the counter's address, above those of all
 * ranks. */
static_assert(GROUP_SIZE_MAX <= 1u << 31, "keys of counters differ from those of ranks");
static inline uint64_t notify_counter_key(uint64_t address)
{
    return UINT64_C(1) << 63 | address / sizeof(uint64_t);
}

/* A way to move bytes; a rail is an instance of one. */
enum driver_id {
    DRIVER_NONE = 0,
    DRIVER_SHM = 1,
    DRIVER_OFI = 2,
    DRIVER_HCA = 3,
    DRIVER_PEACH2 = 4,
    DRIVER_TCP = 5,
    DRIVER_COUNT,
};

enum seat {
    SEAT_NONE = 0,
    SEAT_CLIENT = 1,
    SEAT_DAEMON = 2,
    SEAT_COUNT,
};

/* How what leaves the node is protected on its way. Of several: the highest. */
enum encryption {
    ENCRYPTION_LOCAL = 0, /* nothing leaves it */
    ENCRYPTION_TLS = 1,
    ENCRYPTION_NONE = 2,
    ENCRYPTION_COUNT,
};

/* NULL: unknown. */
const char *encryption_name(enum encryption encryption);
/* Converts to and from "shm", "client", ... Unknown: NULL, DRIVER_NONE or SEAT_NONE. */
const char *driver_name(enum driver_id driver);
enum driver_id driver_from_name(const char *name);
const char *seat_name(enum seat seat);
enum seat seat_from_name(const char *name);
