/*
 * Internal to the peach2 driver. registers.h describes the board.
 *
 * A put becomes a chain of descriptors that ends with a notification for the receiver's driver. If
 * the hardware supports the layouts (multiples of 4, equal phases modulo 16), put_prepare()
 * compiles the chain once, and a start is one command to a channel. A chain of one descriptor is
 * stored in the channel's registers, one cache line, with each command. Longer chains stay in
 * internal memory, or in host memory if they are very long or internal memory is full. Other puts
 * are *staged*: gathered in pieces into driver memory of matching phase, with the remaining bytes
 * at the edges stored through the PIO window.
 *
 * The puts of one flow complete in order: while one is in flight, the next uses the same channel.
 * An idle flow uses the channel with the least load. The board serves its four channels in turn, so
 * a small put waits behind a huge one only if four of those are in flight. The puts to one peer on
 * one channel are a *stream*, which numbers them.
 *
 * Puts survive the loss of packets: each has a number, the receiving board acknowledges the last
 * packet of its chain, and only then is done() called. Whatever stops the acknowledgements (a
 * cable, a board, a changed route), the driver *resyncs*: it aborts the channel, starts a new
 * epoch, and asks the peer which number it expects next. Puts below that number are done; the
 * others are sent again. From that request on, the peer's board discards packets of earlier epochs,
 * so that no old packet arrives late.
 *
 * The path of a put: put.c peach2_put_post() -> channel.c peach2_channel_pump() ->
 * peach2_channel_command() -> (board) -> progress.c -> channel.c peach2_channel_look() -> done().
 * At the receiver: (board) -> progress.c -> message.c peach2_messages_take() -> notified().
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "drivers/credits.h"
#include "drivers/driver.h"
#include "drivers/flushes.h"
#include "drivers/peach2/config.h"
#include "drivers/peach2/device.h"
#include "drivers/peach2/memory.h"
#include "drivers/peach2/put.h"
#include "drivers/peach2/recall.h"
#include "drivers/peach2/registers.h"
#include "drivers/peach2/routing.h"

enum {
    ADDRESS_MAGIC = 0x50324146, /* includes the version of the drivers' messages */
    RING_ENTRIES = 1024,        /* of each notification ring */
    RING_RESERVE = 128,         /* entries reserved for messages other than puts */
    CREDIT_EVERY = 256,         /* puts per credit message */
    HOST_SLOTS = 65536,         /* descriptors in host memory */
    INTERNAL_CHAIN_MAX = 128,   /* longer chains do not use the 1,024 internal slots */
    SEGMENTS = 16,              /* staging segments */
    SEGMENT_BYTES = 128 << 10,
    SEGMENT_MIN = 16384,
    SEGMENT_MAX = 1 << 20,
    SEGMENT_DESCRIPTORS = 256,
    STAGE_BODY_MIN = 64, /* shorter unaligned runs are stored through the window */
    BURST_LINES = 80,    /* window lines that one step of staging needs */
    BURST_BYTES = 4096,
    ATTACH_MS = 2000,  /* how long open() waits for its board */
    CUT_OFF_MS = 3000, /* a peer without a route for this long is down */
    /* and so is one with a route that does not reply for this long: it is overloaded, or its daemon
     * has ended, which ours will notice by itself */
    SYNC_TIMEOUT_MS = 30000,
    STALL_MS = 500, /* resync after this long without progress */
    REQUEST_AGAIN_MS = 50,
    REATTACH_MS = 50,
    TICK_MS = 25,
    FLUSH_MS = 30000, /* timeout of a flush */
};
#define PAGE      UINT64_C(4096)
#define BUS_FIRST (UINT64_C(1) << 20) /* the first bus address in use */

struct address {
    uint32_t magic;
    uint16_t version;
    uint16_t node;
    uint64_t cookie;
};
static_assert(sizeof(struct address) <= ADDRESS_MAX_BYTES, "fits");

enum peer_state {
    PEER_SYNCING, /* sends sync requests, but no puts */
    PEER_OPEN,
    PEER_FAILED,
};

/* The numbers of puts wrap around; far fewer puts are in flight. Four numbers fit into a reply. */
enum { SEQUENCE_BITS = 14, SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1 };
static_assert(2 * RING_ENTRIES < SEQUENCE_MASK / 2, "sequence numbers are comparable");

struct peer {
    struct address address;
    bool linked; /* in peach2->peers */
    enum peer_state state;
    int error;
    bool told;               /* peer_down() was called or is not wanted */
    uint32_t sent, credited; /* puts since the last sync: sent; taken by the peer */
    struct stream streams[PEACH2_CHANNELS];
    uint64_t sync_epoch;   /* new epoch at the start of the sync */
    uint64_t credit_epoch; /* of the sync request that was replied to */
    uint64_t starved_ns;   /* since when puts wait for credit; 0: not waiting */
    uint64_t request_again_ns, deadline_ns;
    uint64_t cut_ns;   /* since when there is no route; 0: there is one */
    bool request;      /* a sync request is to be sent (again) */
    bool fail_pending; /* peach2_peer_fail() was called */
    struct flushes flushes;
    uint64_t flush_requested; /* number of the last flush request to the peer */
    uint64_t flush_again_ns;  /* when to repeat it */
    uint64_t flush_deadline_ns;
    struct peer *next;
};

struct source {                         /* the state of a sending node */
    uint64_t cookie;                    /* of the driver instance there */
    uint32_t head;                      /* entries taken from its ring */
    uint32_t expected[PEACH2_CHANNELS]; /* next sequence, by stream */
    struct credits credits;             /* of puts, since the last sync */
    uint64_t epoch;                     /* of its last sync request; older messages are ignored */
    /* messages to be sent there when the window has room */
    bool reply, refuse, gap, flushed;
    uint64_t reply_epoch;
    uint64_t flush_number; /* of its last flush request */
};

struct channel {
    uint32_t start;      /* commands issued */
    uint32_t sent, done; /* as last read */
    uint64_t moved_ns;   /* time of the last progress */
    uint64_t packets;
    uint32_t done_seen;
    uint64_t load_bytes; /* of the puts in flight, plus a fixed cost for each */
};

struct peach2 {
    struct driver driver;
    pthread_mutex_t lock; /* control socket, mappings, bus addresses */
    struct device device;
    bool gone;            /* the board is lost; other threads read it under the lock */
    struct device coming; /* a board that is being attached */
    uint64_t reattach_ns;
    int event_fd, timer_fd;
    bool timer_on;
    uint64_t cookie;
    struct mapping *mappings;
    struct spans spans;
    struct recall recall;
    struct reuse reuse;
    struct recalled recalled[PEACH2_NODES];
    struct peach2_topology topology;
    struct peach2_links links;
    uint8_t exits[PEACH2_NODES];
    bool whole;                  /* all cables are plugged in */
    uint64_t rows[PEACH2_NODES]; /* of the scratchpad: see links.c; 0: unknown yet */
    /* for other threads: links.up, the reachable nodes, and the cables on the path to each */
    _Atomic uint8_t shown_up[PEACH2_NODES];
    _Atomic uint32_t shown_reach;
    _Atomic uint8_t shown_hops[PEACH2_NODES];
    /* Counts of errors reported by the board: see fault.c. */
    _Atomic uint64_t shown_stops[PEACH2_CHANNELS][PEACH2_ERRORS];
    _Atomic uint64_t shown_discards[32]; /* by cause bit */

    /* the driver's own memory: rings, chains, segments */
    uint8_t *arena;
    uint64_t arena_bus, arena_bytes;
    struct mapping *arena_mapping;
    struct peach2_notification *rings;
    struct peach2_descriptor *host_descriptors;
    struct slots host_slots, internal_slots;
    /* A copy of internal memory, to restore it in a board that was restarted. */
    struct peach2_descriptor internal_descriptors[PEACH2_INTERNAL_DESCRIPTORS];
    uint8_t *segments;
    struct peach2_descriptor *segment_descriptors;
    uint32_t segment_bytes;
    struct piece pieces[SEGMENTS];

    struct landings landings;

    struct peer *peers;
    uint64_t last_flush; /* number; starts at a random one, so that late replies to an earlier
                            instance are recognised */
    struct source sources[PEACH2_NODES];
    struct channel channels[PEACH2_CHANNELS];
    struct peach2_pio_line line; /* the line being filled */
    uint64_t tick_ns;            /* time of the last tick */
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
/* The descriptor register for the next command; false: not free yet. */
bool peach2_channel_register(const struct peach2 *peach2, const struct channel *channel,
                             uint32_t *ret_slot);
/* Chooses the channel of a put. */
unsigned peach2_channel_choose(const struct peach2 *peach2, const struct put *put);
/* Issues a command. The caller has checked peach2_channel_room(). */
void peach2_channel_command(struct peach2 *peach2, const struct put *put, uint32_t fetch,
                            uint64_t first);
/* Hands puts to the board. Returns the number of steps. */
unsigned peach2_channel_pump(struct peach2 *peach2, struct peer *peer);
/* Adds a put to its stream, or removes it. */
void peach2_stream_add(struct peach2 *peach2, struct put *put);
void peach2_stream_remove(struct peach2 *peach2, struct put *put);
/* Reads the board's progress and completes acknowledged puts. Returns the number of steps. */
unsigned peach2_channel_look(struct peach2 *peach2, unsigned channel);
/* Aborts all channels, and resyncs the peers with puts on them. (All, because a loss in one stream
 * mostly affects the others, too.) */
void peach2_channels_reset(struct peach2 *peach2);
/* Handles a channel that was stopped by an error: fails the put that caused it, sends the others
 * again, and restores the descriptors in internal memory. */
void peach2_channel_failed(struct peach2 *peach2, unsigned channel);
/* Whether the channel has commands but has made no progress for STALL_MS. */
bool peach2_channel_stalled(struct peach2 *peach2, unsigned channel, uint64_t now_ns);
/* The board is lost, and the state of all puts with it. */
void peach2_channels_lost(struct peach2 *peach2);
/* Call before the command of a put: stores the put's number in the last descriptor of its chain,
 * which notifies, and a single descriptor in the channel's registers. */
void peach2_put_number(struct peach2 *peach2, struct put *put);
uint64_t peach2_put_first(const struct peach2 *peach2, const struct put *put);

/* ---- message.c ---- */
unsigned peach2_messages_take(struct peach2 *peach2);
/* Sends pending messages. Returns their number. */
unsigned peach2_messages_send(struct peach2 *peach2);
uint64_t peach2_message_put(const struct put *put);
/* Sends immediately; false: no room. */
bool peach2_message_flush(struct peach2 *peach2, const struct peer *peer, uint64_t number);
bool peach2_message_recall(struct peach2 *peach2, unsigned node, uint64_t number,
                           const struct span *span);
bool peach2_message_revoke(struct peach2 *peach2, unsigned node, uint64_t number);
/* restart: makes the node's board discard all earlier packets. */
bool peach2_message_recalled(struct peach2 *peach2, unsigned node, uint64_t number, bool restart);

/* ---- fault.c ---- */
/* Count that the board has stopped a channel, or discarded packets for these causes. */
void peach2_fault_stopped(struct peach2 *peach2, unsigned channel, uint32_t error);
void peach2_fault_discarded(struct peach2 *peach2, uint32_t causes);
unsigned peach2_faults(const struct driver *driver, struct driver_fault *ret_faults, unsigned max);

/* ---- links.c ---- */
/* Reads the ports of a new board and computes the routes. */
void peach2_links_start(struct peach2 *peach2);
/* Processes changes of ports on this and other boards. */
void peach2_links_look(struct peach2 *peach2);
/* The board is lost: no node is reachable. */
void peach2_links_none(struct peach2 *peach2);
unsigned peach2_place(const struct driver *driver);
bool peach2_reaches(const struct driver *driver, unsigned place);
unsigned peach2_hops_to(const struct driver *driver, unsigned place);
unsigned peach2_cables(const struct driver *driver, struct driver_cable *ret_cables, unsigned max);

/* ---- peer.c ---- */
/* That node misses packets from this one. */
void peach2_peer_gap(struct peach2 *peach2, unsigned node, uint64_t epoch);
int peach2_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                        struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes);
void peach2_peer_disconnect(struct driver *driver, struct driver_peer *peer);
void peach2_peer_fail(struct driver *driver, struct driver_peer *peer, int error);
int peach2_peer_flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op);
void peach2_peer_link(struct peach2 *peach2, struct peer *peer);
void peach2_peer_sync(struct peach2 *peach2, struct peer *peer);
/* Gives the packets from now on a new epoch. */
uint64_t peach2_peer_epoch(struct peach2 *peach2);
/* Fails all puts and flushes of a peer. */
void peach2_peer_down(struct peach2 *peach2, struct peer *peer, int error);
void peach2_put_done(struct peach2 *peach2, struct put *put, int status);
/* Processes a reply to a sync request. expected: the next sequence, by stream; NULL: refused. */
void peach2_peer_synced(struct peach2 *peach2, unsigned node, uint64_t epoch,
                        const uint32_t *expected);
void peach2_peer_credited(struct peach2 *peach2, unsigned node, uint64_t epoch, uint32_t taken);
/* Sends pending flush requests. Returns their number. */
unsigned peach2_flushes_run(struct peach2 *peach2, uint64_t now_ns);
void peach2_peer_flushed(struct peach2 *peach2, unsigned node, uint64_t number);
/* Processes timers: repeated requests, flushes, timeouts. */
unsigned peach2_peers_tick(struct peach2 *peach2, uint64_t now_ns);
bool peach2_peers_waiting(const struct peach2 *peach2);

/* ---- progress.c ---- */
int peach2_progress(struct driver *driver, unsigned budget);
int peach2_event_fd(struct driver *driver);
int peach2_arm(struct driver *driver);
int peach2_events_open(struct peach2 *peach2);
/* The board has died or does not reply. */
void peach2_board_lost(struct peach2 *peach2);
int peach2_events_watch(struct peach2 *peach2);

/* ---- open.c ---- */
static inline const struct peach2_config *peach2_config_of(const struct driver_config *config)
{
    static const struct peach2_config defaults;
    return config->own ? config->own : &defaults;
}
int peach2_open(const struct driver_config *config, const struct driver_events *events,
                struct driver **ret_driver);
void peach2_close(struct driver *driver);
/* Sets up a new board: memory, routes, rings. Call with the lock held. */
int peach2_set_up(struct peach2 *peach2);

extern const struct driver_ops peach2_driver_ops;
