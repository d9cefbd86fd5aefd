/*
 * Inside the peach2 driver. What the board does is in registers.h; here is what we make of it.
 *
 * A put becomes a chain of descriptors that ends with a notification for the receiver's driver.
 * What the hardware can do as it is (multiples of 4, phases equal modulo 16) is compiled once, by
 * put_prepare(), and a start is one command to a channel. A chain of one descriptor goes through
 * the channel's registers, one line that is stored with the command; longer ones stay in internal
 * memory, and in host memory when they are very long or that is full; everything else is *staged*:
 * gathered in pieces into memory of ours whose phase fits, and what is left at the edges is stored
 * through the PIO window.
 *
 * The puts of one flow land in order: while some of it is under way, the next goes by the same
 * channel. A flow of which nothing is goes by the one that has the least to do: the board serves
 * its four in turns, so a small put waits behind a huge one only where there are four of those.
 * What goes to one peer by one channel is a *stream*, with a count of its own.
 *
 * Nothing that a cable or a board loses is lost: every put has a number, the last packet of its
 * chain is acknowledged by the receiving board, and done() means that. Whatever stops the
 * acknowledgements (a cable, a board, a route that changed), the answer is a *resync*: the channel
 * is aborted, packets get a new epoch, and the peer is asked which number it expects; what it has
 * is done, what it has not is sent again. From the question on its board discards packets of
 * earlier epochs, so nothing old arrives late.
 *
 * A walk: put.c peach2_put_post() -> channel.c channel_pump() -> command() -> (board) -> progress.c
 * -> channel.c channel_retire() -> done(). At the receiver: (board) -> progress.c -> message.c
 * messages_take() -> notified().
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "drivers/driver.h"
#include "drivers/peach2/registers.h"
#include "drivers/peach2/routing.h"

enum {
    ADDRESS_MAGIC = 0x50324145, /* and the version of what drivers say to each other */
    BLOB_MAGIC = 0x50324c44,
    RING_ENTRIES = 1024,      /* of each notification ring */
    RING_RESERVE = 128,       /* of them for messages that are no puts */
    CREDIT_EVERY = 256,       /* puts taken, until the sender is told */
    HOST_SLOTS = 65536,       /* descriptors in host memory */
    INTERNAL_CHAIN_MAX = 128, /* longer chains are in host memory: 1,024 slots are for many */
    SEGMENTS = 16,            /* pieces being staged */
    SEGMENT_BYTES = 128 << 10,
    SEGMENT_MIN = 16384,
    SEGMENT_MAX = 1 << 20,
    SEGMENT_DESCRIPTORS = 256,
    STAGE_BODY_MIN = 64, /* shorter runs with odd ends go through the window as they are */
    BURST_LINES = 80,    /* room in the window for one step of staging */
    BURST_BYTES = 4096,
    ATTACH_MS = 2000,    /* how long open() waits for its board */
    CUT_OFF_MS = 3000,   /* how long no way may lead to a peer before it is down, */
    PATIENCE_MS = 30000, /* and how long it may not answer where one does: it waits for a processor,
                            or its daemon has gone, as ours will notice */
    STALL_MS = 500,      /* how long nothing may move before we resync */
    ASK_AGAIN_MS = 50,
    REATTACH_MS = 50,
    ABORT_MS = 1000,  /* how long a board may take to obey, */
    ANSWER_MS = 1000, /* or to answer: then it is stuck, and counts as lost */
    TICK_MS = 25,
    FLUSH_MS = 30000,    /* how long a peer that is there may not answer one */
    SOURCE_FLUSHES = 32, /* answers that can wait; a flush that finds no place is asked again */
};
#define PAGE UINT64_C(4096)

struct device { /* the board */
    char *path;
    int control, interrupt_fd, bell_fd; /* -1: it is gone */
    struct peach2_registers *bar0;
    struct peach2_window *bar2;
    uint32_t node;
    uint64_t epoch; /* what its packets carry: only ever grows, over boards and daemons (it begins
                       as the time) */
};

/* A bitmap of slots of some memory. */
struct slots {
    uint64_t *used;
    uint32_t count;
};

/* What is mapped for the board: kept, so that a board that comes back gets it again. */
struct mapping {
    uint64_t bus, length_bytes;
    int fd;      /* ours; -1: an alias */
    uint64_t of; /* alias: bus address of what it is one of */
    struct mapping *next, **link;
};

struct region {
    struct mapping *mapping;
    uint8_t *base;
    uint64_t bus;
    uint64_t length_bytes;
};

struct landing {
    struct mapping *alias; /* NULL: no data */
    uint64_t id;
    bool notify;
    uint64_t token;
};

struct landing_slot {
    struct landing *landing; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
};

struct address {
    uint32_t magic;
    uint16_t version;
    uint16_t node;
    uint64_t cookie;
};
static_assert(sizeof(struct address) <= ADDRESS_MAX_BYTES, "fits");

struct blob {
    uint32_t magic;
    uint32_t flags;
    uint64_t cookie;
    uint64_t bus; /* of the layout's base */
    uint64_t size_bytes;
    uint64_t id;
};
static_assert(sizeof(struct blob) <= LANDING_MAX_BYTES, "fits");
enum { BLOB_NOTIFY = 1 };

/* Descriptors being put together: see compile.c. */
struct builder {
    struct peach2_descriptor *descriptors;
    uint32_t count, max;
    bool open; /* the last one may still grow */
    int64_t source_stride, destination_stride;
    uint32_t blocks;
};

struct piece {        /* a segment at work */
    uint32_t command; /* of the channel: free once that was sent */
    uint32_t channel;
    bool busy;
};

enum put_kind { PUT_CHAIN, PUT_STAGED, PUT_NOTHING };

struct peer;

enum put_state {
    PUT_IDLE,
    PUT_QUEUED, /* waits for its turn, or is being handed over */
    PUT_SENT,   /* waits for its acknowledgement */
    PUT_UNSURE, /* which will not come: only the peer knows */
};

struct put {
    enum put_kind kind;
    enum put_state state;
    struct peer *peer;
    uint64_t flow;
    uint64_t size_bytes;
    uint64_t id; /* of the landing */
    bool notify;
    /* PUT_CHAIN, PUT_NOTHING */
    uint32_t fetch;
    uint32_t first_slot, slot_count;
    struct peach2_descriptor alone; /* PEACH2_FETCH_REGISTERS: stored with each start */
    /* PUT_STAGED */
    bool window; /* some of it goes through the window: earlier puts must have left */
    const struct layout *source_layout, *target_layout;
    const uint8_t *source;
    uint64_t target; /* global address of the layout's base */
    struct layout_cursor source_cursor, target_cursor;
    bool staging; /* the cursors stand somewhere */
    /* while it runs */
    struct driver_op *op;
    unsigned channel;
    uint32_t sequence;
    uint32_t command; /* the last of it: number behind it */
    struct put *next;
};

struct flush {
    struct driver_op *op;
    struct peer *peer;
    uint32_t number;
    bool asked;
    uint64_t again_ns, deadline_ns;
    struct flush *next;
};

enum peer_state {
    PEER_SYNCING, /* asks; nothing is sent */
    PEER_OPEN,
    PEER_FAILED,
};

/* Puts that run to one peer by one channel, in order. */
struct stream {
    struct put *first, **last;
    struct put *turn;       /* the first that was not wholly handed over; NULL: none */
    uint32_t next_sequence; /* of the next put that is sent */
    uint32_t last_command;  /* of the channel, for it */
};

/* Numbers of puts go round: far fewer are under way. Four of them fit into an answer. */
enum { SEQUENCE_BITS = 14, SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1 };
static_assert(2 * RING_ENTRIES < SEQUENCE_MASK / 2, "which is first can be told");

struct peer {
    struct address address;
    bool linked; /* in the driver's list */
    enum peer_state state;
    int error;
    bool told;
    uint32_t sent, credited; /* puts since the last sync: ours; those that the peer has taken */
    struct stream streams[PEACH2_CHANNELS];
    uint64_t ask_epoch;    /* that was new when the sync began */
    uint64_t credit_epoch; /* of the question that was answered */
    uint64_t starved_ns;   /* since when puts wait for credit; 0: they do not */
    uint64_t ask_again_ns, deadline_ns;
    uint64_t cut_ns; /* since when no way leads there; 0: one does */
    bool ask;        /* a question is to be sent (again) */
    bool doomed;     /* its owner has given it up */
    struct peer *next;
};

struct source {                         /* what we know of a node that sends to us */
    uint64_t cookie;                    /* 40 bits; of the instance there */
    uint32_t head;                      /* entries of its ring that we have taken */
    uint32_t expected[PEACH2_CHANNELS]; /* sequence, by stream */
    uint32_t taken;                     /* puts since the last sync */
    uint32_t told;                      /* of them, in the last credit */
    uint64_t epoch;                     /* of its last question: nothing older counts */
    /* messages to be sent there, when there is room */
    bool answer, refuse, gap;
    uint64_t answer_epoch;
    uint32_t flushed[SOURCE_FLUSHES];
    uint32_t flushed_count;
};

struct channel {
    uint32_t start;      /* commands given */
    uint32_t sent, done; /* as last seen */
    uint64_t moved_ns;   /* when anything last moved */
    uint64_t packets;
    uint32_t done_seen;
    uint64_t load_bytes; /* of puts that run, and something for each */
};

struct peach2 {
    struct driver driver;
    pthread_mutex_t lock; /* control socket, mappings, bus addresses */
    struct device device;
    bool gone;            /* the board has died; read by other threads under the lock */
    struct device coming; /* the board that is asked in */
    uint64_t reattach_ns;
    int event_fd, timer_fd;
    bool timer_on;
    uint64_t cookie;
    struct mapping *mappings;
    uint64_t next_bus;
    struct peach2_topology topology;
    struct peach2_links links;
    uint8_t ways[PEACH2_NODES];
    uint64_t rows[PEACH2_NODES]; /* of the scratchpad: see links.c; 0: not heard of yet */
    /* For other threads: links.up and which nodes `ways` lead to. */
    _Atomic uint8_t shown_up[PEACH2_NODES];
    _Atomic uint32_t shown_reach;

    /* our own memory: rings, chains, segments */
    uint8_t *arena;
    uint64_t arena_bus, arena_bytes;
    struct mapping *arena_mapping;
    struct peach2_notification *rings;
    struct peach2_descriptor *host_descriptors;
    struct slots host_slots, internal_slots;
    /* Of internal memory as we want it: a board that comes back has lost its own. */
    struct peach2_descriptor internal_descriptors[PEACH2_INTERNAL_DESCRIPTORS];
    uint8_t *segments;
    struct peach2_descriptor *segment_descriptors;
    uint32_t segment_bytes;
    struct piece pieces[SEGMENTS];

    struct landing_slot *landings;
    uint32_t landing_count, landing_capacity, landing_free;

    struct peer *peers;
    struct flush *flushes;
    uint32_t last_flush;
    struct source sources[PEACH2_NODES];
    struct channel channels[PEACH2_CHANNELS];
    struct peach2_pio_line line; /* being filled */
    uint64_t tick_ns;            /* when time was last looked at */
    unsigned rounds;
};

static inline struct peach2 *peach2_of(struct driver *driver)
{
    return (struct peach2 *)driver;
}

static inline struct stream *stream_of(const struct put *put)
{
    return &put->peer->streams[put->channel];
}

/* ---- device.c: the board itself ---- */
/* Asks it in. 0, or -ENODEV: there is none. */
int device_dial(struct device *device);
/* And hears: 0, -EAGAIN (no answer yet), or, and then it is detached, -ENODEV, -EBUSY (somebody
 * else's), -EPROTO (another version). */
int device_attach(struct device *device, int wait_ms);
void device_detach(struct device *device);
/* It is stuck, not dead: should it go on before it sees that we have gone, it takes nothing in, and
 * reads no source any more. */
void device_forsake(struct device *device);
/* A question on the control socket, fd -1: none; 0 or the board's error. Under the lock. */
int device_ask(struct device *device, const struct peach2_control *message, int fd);
void device_ring(struct device *device);
/* Takes over routes and rings; waits for it. 0 or -ETIMEDOUT. */
int device_commit(struct device *device);
/* Everything that was given to a channel is forgotten. 0 or -ETIMEDOUT. */
int device_abort(struct device *device, unsigned channel);

/* ---- memory.c ---- */
int memory_map(struct peach2 *peach2, uint64_t length_bytes, int fd, uint64_t offset,
               struct mapping **ret_mapping);
/* Another address for part of what is mapped, that can be taken back by itself. */
int memory_alias(struct peach2 *peach2, uint64_t bus, uint64_t length_bytes,
                 struct mapping **ret_mapping);
void memory_unmap(struct peach2 *peach2, struct mapping *mapping);
/* Tells a board that is new all that is mapped. Under the lock. */
int memory_tell_all(struct peach2 *peach2);
int arena_make(struct peach2 *peach2);
void arena_free(struct peach2 *peach2);
/* A run of free slots; -ENOSPC. */
int slots_init(struct slots *slots, uint32_t count);
int slots_take(struct slots *slots, uint32_t count, uint32_t *ret_first);
void slots_give(struct slots *slots, uint32_t first, uint32_t count);
int peach2_region_add(struct driver *driver, const struct driver_memory *memory,
                      struct driver_region **ret_region);
void peach2_region_remove(struct driver *driver, struct driver_region *region);

/* ---- landing.c ---- */
int peach2_landing_new(struct driver *driver, const struct driver_landing_args *args,
                       struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes);
void peach2_landing_free(struct driver *driver, struct driver_landing *landing);
int peach2_scratch_landing(struct driver *driver, struct driver_peer *peer, uint64_t bytes,
                           void *ret_blob);
struct landing *landing_find(const struct peach2 *peach2, uint64_t id);

/* ---- compile.c ---- */
/* Adds a contiguous piece that the hardware can move: false when there is no room for another
 * descriptor. */
bool builder_add(struct builder *builder, uint64_t source, uint64_t destination, uint32_t bytes);
/* 0; -EOPNOTSUPP: not all of it can be done in hardware; -E2BIG: more than max descriptors. */
int compile(const struct layout *source, uint64_t source_bus, const struct layout *target,
            uint64_t target_global, struct peach2_descriptor *ret_descriptors, uint32_t max,
            uint32_t *ret_count);

/* ---- window.c ---- */
/* Lines that can be stored now. */
uint32_t window_room(const struct peach2 *peach2);
/* The caller has made sure of room. What is collected is stored by the next start, message, or
 * window_push(). */
void window_store(struct peach2 *peach2, uint64_t address, const uint8_t *bytes, uint32_t length);
void window_push(struct peach2 *peach2);

/* ---- stage.c ---- */
/* Moves a staged put on. */
enum stage_result { STAGE_BLOCKED, STAGE_MOVED, STAGE_END };
enum stage_result stage_run(struct peach2 *peach2, struct put *put);
void stage_begin(struct put *put);
/* Whether any of it goes through the window; descriptors: about. */
bool stage_uses_window(const struct put *put, uint32_t segment_bytes, uint32_t *ret_descriptors);

/* ---- channel.c ---- */
bool channel_room(const struct channel *channel);
/* Which of the channel's registers the next command may have for a descriptor; false: it is not
 * free yet. */
bool channel_register(const struct peach2 *peach2, const struct channel *channel,
                      uint32_t *ret_slot);
/* By which a put goes. */
unsigned channel_choose(const struct peach2 *peach2, const struct put *put);
/* A command; the caller has made sure of room. */
void channel_command(struct peach2 *peach2, const struct put *put, uint32_t fetch, uint64_t first);
/* Hands over what can be: how many steps. */
unsigned channel_pump(struct peach2 *peach2, struct peer *peer);
/* A put runs from now on, or does not any more. */
void stream_add(struct peach2 *peach2, struct put *put);
void stream_remove(struct peach2 *peach2, struct put *put);
/* Looks what the board has done, completes what has landed: how many. */
unsigned channel_look(struct peach2 *peach2, unsigned channel);
/* Everything on all of them is forgotten by the board; whose puts these were, resyncs. (Of them
 * all: what is lost of one stream, or may be, mostly concerns the others, too.) */
void channels_reset(struct peach2 *peach2);
/* Stopped by an error: the put that it stands at fails, the others are sent again. */
void channel_failed(struct peach2 *peach2, unsigned channel);
/* Something is under way and nothing has moved for a while. */
bool channel_stalled(struct peach2 *peach2, unsigned channel, uint64_t now_ns);
/* The board is gone: nobody knows what became of anything. */
void channels_lost(struct peach2 *peach2);
/* Before its command is given: the descriptor that notifies, the last of its chain, gets the put's
 * number; one that stands alone is stored in the channel's registers. */
void put_number(struct peach2 *peach2, struct put *put);
uint64_t put_first(const struct peach2 *peach2, const struct put *put);

/* ---- message.c ---- */
unsigned messages_take(struct peach2 *peach2);
/* Sends what is waiting: how many. */
unsigned messages_send(struct peach2 *peach2);
uint64_t message_put(const struct put *put);
/* At once, if there is room. */
bool message_to(struct peach2 *peach2, uint64_t address, uint64_t first, uint64_t second);
bool message_ask(struct peach2 *peach2, const struct peer *peer);
bool message_flush(struct peach2 *peach2, const struct peer *peer, uint32_t number);

/* ---- links.c ---- */
/* The board is new: what it says of its ports, and the routes that follow. */
void links_start(struct peach2 *peach2);
/* What has changed, here or elsewhere. */
void links_look(struct peach2 *peach2);
/* The board is gone: nothing leads anywhere. */
void links_none(struct peach2 *peach2);
unsigned peach2_place(const struct driver *driver);
bool peach2_reaches(const struct driver *driver, unsigned place);
unsigned peach2_cables(const struct driver *driver, struct driver_cable *ret_cables, unsigned max);

/* ---- peer.c ---- */
/* That node misses something of what we sent. */
void peer_gap(struct peach2 *peach2, unsigned node, uint64_t epoch);
int peach2_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                        struct driver_peer **ret_peer);
void peach2_peer_disconnect(struct driver *driver, struct driver_peer *peer);
void peach2_peer_fail(struct driver *driver, struct driver_peer *peer, int error);
int peach2_peer_flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op);
void peer_link(struct peach2 *peach2, struct peer *peer);
void peer_sync(struct peach2 *peach2, struct peer *peer);
/* Every put and flush of it fails. */
void peer_down(struct peach2 *peach2, struct peer *peer, int error);
void put_done(struct peach2 *peach2, struct put *put, int status);
/* Its question was answered: which sequence is expected, by stream; NULL: refused. */
void peer_answered(struct peach2 *peach2, unsigned node, uint64_t epoch, const uint32_t *expected);
void peer_credited(struct peach2 *peach2, unsigned node, uint64_t epoch, uint32_t taken);
/* Asks for those that can be asked for. */
unsigned flushes_run(struct peach2 *peach2, uint64_t now_ns);
void flush_answered(struct peach2 *peach2, unsigned node, uint32_t number);
/* What time has brought: questions again, flushes, patience. */
unsigned peers_tick(struct peach2 *peach2, uint64_t now_ns);
bool peers_waiting(const struct peach2 *peach2);

/* ---- put.c ---- */
int peach2_put_prepare(struct driver *driver, const struct driver_put_args *args,
                       struct driver_put **ret_put, struct driver_put_info *ret_info);
void peach2_put_release(struct driver *driver, struct driver_put *put);
int peach2_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);

/* ---- progress.c ---- */
int peach2_progress(struct driver *driver, unsigned budget);
int peach2_event_fd(struct driver *driver);
int peach2_arm(struct driver *driver);
int events_open(struct peach2 *peach2);
/* The board has died, or does not answer. */
void board_lost(struct peach2 *peach2);
int events_watch(struct peach2 *peach2);

/* ---- open.c ---- */
int peach2_open(const struct driver_config *config, const struct driver_events *events,
                struct driver **ret_driver);
void peach2_close(struct driver *driver);
/* A board that is new: memory, routes, rings. Under the lock. */
int peach2_set_up(struct peach2 *peach2);

extern const struct driver_ops peach2_driver_ops;
