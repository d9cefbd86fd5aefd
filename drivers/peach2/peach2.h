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
 * A walk: put.c peach2_put_post() -> channel.c peach2_channel_pump() -> command() -> (board) -> progress.c
 * -> channel.c channel_retire() -> done(). At the receiver: (board) -> progress.c -> message.c
 * peach2_messages_take() -> notified().
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "drivers/driver.h"
#include "drivers/peach2/device.h"
#include "drivers/peach2/memory.h"
#include "drivers/peach2/put.h"
#include "drivers/peach2/registers.h"
#include "drivers/peach2/routing.h"

enum {
    ADDRESS_MAGIC = 0x50324145, /* and the version of what drivers say to each other */
    RING_ENTRIES = 1024,        /* of each notification ring */
    RING_RESERVE = 128,         /* of them for messages that are no puts */
    CREDIT_EVERY = 256,         /* puts taken, until the sender is told */
    HOST_SLOTS = 65536,         /* descriptors in host memory */
    INTERNAL_CHAIN_MAX = 128,   /* longer chains are in host memory: 1,024 slots are for many */
    SEGMENTS = 16,              /* pieces being staged */
    SEGMENT_BYTES = 128 << 10,
    SEGMENT_MIN = 16384,
    SEGMENT_MAX = 1 << 20,
    SEGMENT_DESCRIPTORS = 256,
    STAGE_BODY_MIN = 64, /* shorter runs with odd ends go through the window as they are */
    BURST_LINES = 80,    /* room in the window for one step of staging */
    BURST_BYTES = 4096,
    ATTACH_MS = 2000,  /* how long open() waits for its board */
    CUT_OFF_MS = 3000, /* how long no way may lead to a peer before it is down, */
    SYNC_TIMEOUT_MS =
        30000,      /* and how long it may not answer where one does: it waits for a processor,
                            or its daemon has gone, as ours will notice */
    STALL_MS = 500, /* how long nothing may move before we resync */
    REQUEST_AGAIN_MS = 50,
    REATTACH_MS = 50,
    TICK_MS = 25,
    FLUSH_MS = 30000,    /* how long a peer that is there may not answer one */
    SOURCE_FLUSHES = 32, /* answers that can wait; a flush that finds no place is asked again */
};
#define PAGE UINT64_C(4096)

struct address {
    uint32_t magic;
    uint16_t version;
    uint16_t node;
    uint64_t cookie;
};
static_assert(sizeof(struct address) <= ADDRESS_MAX_BYTES, "fits");

struct flush {
    struct driver_op *op;
    struct peer *peer;
    uint32_t number;
    bool requested;
    uint64_t again_ns, deadline_ns;
    struct flush *next;
};

enum peer_state {
    PEER_SYNCING, /* asks; nothing is sent */
    PEER_OPEN,
    PEER_FAILED,
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
    uint64_t sync_epoch;   /* that was new when the sync began */
    uint64_t credit_epoch; /* of the question that was answered */
    uint64_t starved_ns;   /* since when puts wait for credit; 0: they do not */
    uint64_t request_again_ns, deadline_ns;
    uint64_t cut_ns;   /* since when no way leads there; 0: one does */
    bool request;          /* a question is to be sent (again) */
    bool fail_pending; /* its owner has given it up */
    struct peer *next;
};

struct source {                         /* what we know of a node that sends to us */
    uint64_t cookie;                    /* of the instance there */
    uint32_t head;                      /* entries of its ring that we have taken */
    uint32_t expected[PEACH2_CHANNELS]; /* sequence, by stream */
    uint32_t taken;                     /* puts since the last sync */
    uint32_t told;                      /* of them, in the last credit */
    uint64_t epoch;                     /* of its last question: nothing older counts */
    /* messages to be sent there, when there is room */
    bool reply, refuse, gap;
    uint64_t reply_epoch;
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
    uint8_t exits[PEACH2_NODES];
    bool whole;                  /* all cables are in */
    uint64_t rows[PEACH2_NODES]; /* of the scratchpad: see links.c; 0: not heard of yet */
    /* For other threads: links.up, which nodes `ways` lead to, and over how many cables. */
    _Atomic uint8_t shown_up[PEACH2_NODES];
    _Atomic uint32_t shown_reach;
    _Atomic uint8_t shown_hops[PEACH2_NODES];
    /* What the board has complained of, and how often: see fault.c. */
    _Atomic uint64_t shown_stops[PEACH2_CHANNELS][PEACH2_ERRORS];
    _Atomic uint64_t shown_discards[32]; /* by cause bit */

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

/* ---- channel.c ---- */
bool peach2_channel_room(const struct channel *channel);
/* Which of the channel's registers the next command may have for a descriptor; false: it is not
 * free yet. */
bool peach2_channel_register(const struct peach2 *peach2, const struct channel *channel,
                             uint32_t *ret_slot);
/* By which a put goes. */
unsigned peach2_channel_choose(const struct peach2 *peach2, const struct put *put);
/* A command; the caller has made sure of room. */
void peach2_channel_command(struct peach2 *peach2, const struct put *put, uint32_t fetch,
                            uint64_t first);
/* Hands over what can be: how many steps. */
unsigned peach2_channel_pump(struct peach2 *peach2, struct peer *peer);
/* A put runs from now on, or does not any more. */
void peach2_stream_add(struct peach2 *peach2, struct put *put);
void peach2_stream_remove(struct peach2 *peach2, struct put *put);
/* Looks what the board has done, completes what has landed: how many. */
unsigned peach2_channel_look(struct peach2 *peach2, unsigned channel);
/* Everything on all of them is forgotten by the board; whose puts these were, resyncs. (Of them
 * all: what is lost of one stream, or may be, mostly concerns the others, too.) */
void peach2_channels_reset(struct peach2 *peach2);
/* Stopped by an error: the put that it stands at fails, the others are sent again. Descriptors in
 * internal memory are stored anew. */
void peach2_channel_failed(struct peach2 *peach2, unsigned channel);
/* Something is under way and nothing has moved for a while. */
bool peach2_channel_stalled(struct peach2 *peach2, unsigned channel, uint64_t now_ns);
/* The board is gone: nobody knows what became of anything. */
void peach2_channels_lost(struct peach2 *peach2);
/* Before its command is given: the descriptor that notifies, the last of its chain, gets the put's
 * number; one that stands alone is stored in the channel's registers. */
void peach2_put_number(struct peach2 *peach2, struct put *put);
uint64_t peach2_put_first(const struct peach2 *peach2, const struct put *put);

/* ---- message.c ---- */
unsigned peach2_messages_take(struct peach2 *peach2);
/* Sends what is waiting: how many. */
unsigned peach2_messages_send(struct peach2 *peach2);
uint64_t peach2_message_put(const struct put *put);
/* At once, if there is room. */
bool peach2_message_flush(struct peach2 *peach2, const struct peer *peer, uint32_t number);

/* ---- fault.c ---- */
/* The board has stopped a channel, or discarded packets for these causes. */
void peach2_fault_stopped(struct peach2 *peach2, unsigned channel, uint32_t error);
void peach2_fault_discarded(struct peach2 *peach2, uint32_t causes);
unsigned peach2_faults(const struct driver *driver, struct driver_fault *ret_faults, unsigned max);

/* ---- links.c ---- */
/* The board is new: what it says of its ports, and the routes that follow. */
void peach2_links_start(struct peach2 *peach2);
/* What has changed, here or elsewhere. */
void peach2_links_look(struct peach2 *peach2);
/* The board is gone: nothing leads anywhere. */
void peach2_links_none(struct peach2 *peach2);
unsigned peach2_place(const struct driver *driver);
bool peach2_reaches(const struct driver *driver, unsigned place);
unsigned peach2_hops_to(const struct driver *driver, unsigned place);
unsigned peach2_cables(const struct driver *driver, struct driver_cable *ret_cables, unsigned max);

/* ---- peer.c ---- */
/* That node misses something of what we sent. */
void peach2_peer_gap(struct peach2 *peach2, unsigned node, uint64_t epoch);
int peach2_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                        struct driver_peer **ret_peer);
void peach2_peer_disconnect(struct driver *driver, struct driver_peer *peer);
void peach2_peer_fail(struct driver *driver, struct driver_peer *peer, int error);
int peach2_peer_flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op);
void peach2_peer_link(struct peach2 *peach2, struct peer *peer);
void peach2_peer_sync(struct peach2 *peach2, struct peer *peer);
void peach2_put_done(struct peach2 *peach2, struct put *put, int status);
/* Its question was answered: which sequence is expected, by stream; NULL: refused. */
void peach2_peer_synced(struct peach2 *peach2, unsigned node, uint64_t epoch,
                        const uint32_t *expected);
void peach2_peer_credited(struct peach2 *peach2, unsigned node, uint64_t epoch, uint32_t taken);
/* Asks for those that can be asked for. */
unsigned peach2_flushes_run(struct peach2 *peach2, uint64_t now_ns);
void peach2_flush_completed(struct peach2 *peach2, unsigned node, uint32_t number);
/* What time has brought: questions again, flushes, patience. */
unsigned peach2_peers_tick(struct peach2 *peach2, uint64_t now_ns);
bool peach2_peers_waiting(const struct peach2 *peach2);

/* ---- progress.c ---- */
int peach2_progress(struct driver *driver, unsigned budget);
int peach2_event_fd(struct driver *driver);
int peach2_arm(struct driver *driver);
int peach2_events_open(struct peach2 *peach2);
/* The board has died, or does not answer. */
void peach2_board_lost(struct peach2 *peach2);
int peach2_events_watch(struct peach2 *peach2);

/* ---- open.c ---- */
int peach2_open(const struct driver_config *config, const struct driver_events *events,
                struct driver **ret_driver);
void peach2_close(struct driver *driver);
/* A board that is new: memory, routes, rings. Under the lock. */
int peach2_set_up(struct peach2 *peach2);

extern const struct driver_ops peach2_driver_ops;
