/*
 * The model of a PEACH2 board: one thread that goes round its doors - commands of the channels,
 * lines of BAR 2, packets at the ports, acknowledgements - and sleeps when there is nothing at any
 * of them. What it must do is in registers.h.
 *
 * A walk: loop.c round() -> dma.c takes a command, descriptor.c fetches and checks, dma.c cuts
 * packets -> route.c board_send() -> link.c puts it into a ring, or land.c writes it to memory. At
 * the next board: link.c takes it -> board_send() again.
 *
 * Packets wait in rings: whoever finds no room leaves what it has where it is and comes back. Three
 * things make that free of deadlocks: what ends at a board can always land (a full notification ring
 * is an error, not a wait); what enters the ring of E and W (from the host, or from S) leaves one
 * slot free that only those inside may take (bubble flow control); and what makes a turn that today's
 * routes do not make waits here, in memory, with what a cable gave back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/peach2/board/link.h"
#include "drivers/peach2/registers.h"
#include "proto/wait.h"

enum {
    BOARD_BURST = 32,   /* packets from one door before the next has its turn */
    BOARD_SHOW = 8,     /* packets that a neighbour is told of at once: the line costs both sides */
    BOARD_ACKS = 16384, /* acknowledgements waiting to leave */
    BOARD_VISITORS = 16, /* connections to the control socket that are no cable */
    BOARD_REDIAL_NS = 50000000,
    BOARD_LOOK_ROUNDS = 256, /* of work between two looks at the sockets */
    BOARD_YIELD_NS = 100000, /* how long an idle board offers its core to others before it sleeps */
    BOARD_HOLD_MS = 200,
    BOARD_REPLAY_MAX = 1 << 16, /* packets for one node */
};

/* ---- memory (iommu.c) ---- */

struct mapping {
    uint64_t bus;
    uint64_t length_bytes;
    uint8_t *base;
    bool alias; /* base is another mapping's */
};

struct iommu {
    struct mapping *mappings; /* ordered by bus address */
    uint32_t count, capacity;
    uint32_t last; /* hit */
};

/* Takes over nothing: fd stays the caller's. 0, -EINVAL, -EEXIST (overlaps), -EPERM (not sealed),
 * -ENOSPC, -ENOMEM and what mmap() says. */
int iommu_map(struct iommu *iommu, uint64_t bus, uint64_t length_bytes, int fd, uint64_t offset);
/* Another address for length bytes at `of`, which are mapped. -ENOENT: they are not. */
int iommu_alias(struct iommu *iommu, uint64_t bus, uint64_t length_bytes, uint64_t of);
int iommu_unmap(struct iommu *iommu, uint64_t bus);
void iommu_clear(struct iommu *iommu);
/* NULL: not all of it is mapped, in one piece. */
uint8_t *iommu_find(struct iommu *iommu, uint64_t bus, uint64_t length_bytes);

/* ---- ports (link.c, plug.c) ---- */

struct port {
    /* the cable */
    /* path of the neighbour's control socket: this end plugs; NULL: the other does */
    const char *dial;
    uint32_t dial_port; /* there */
    bool unplugged;     /* by hand */
    bool up;
    int fd;      /* the connection, -1: none; up or waiting for the answer */
    int bell_fd; /* the neighbour's */
    struct link_memory *memory;
    struct link_ring *out, *in;
    uint64_t redial_ns;
    uint64_t down_ns; /* since when */

    uint64_t out_tail, out_head; /* own copies; head: as last seen */
    uint64_t out_shown;          /* of out_tail: what the neighbour knows of */
    uint64_t in_head, in_tail;   /* tail: as last seen */
    bool sent, taken;            /* in this round */
    uint32_t scratch_version;    /* seen in `in` */
    bool claimed;                /* the packet at in_head is ours, and has not found its way yet */
    struct packet *claim;

    struct packet held; /* what was claimed when the cable came out */
    bool has_held;

    /* what BAR 0 shows: kept here, where nobody else can write */
    uint32_t node, far_port, changes;
    uint64_t packets_in, bytes_in, packets_out, bytes_out, stalls;
};

/* ---- packets that wait here (replay.c) ---- */

/*
 * What was in a ring when its cable came out, and what strays (route.c), by destination. Packets for a node that has some here
 * must not pass them: those that come over a cable queue up behind (or, taking part in the ring of
 * E and W, they would hold its last free slot for ever), those made here are not made yet.
 */
struct replay {
    struct packet *packets;          /* a circle */
    uint32_t first, count, capacity; /* a power of two */
};

/* ---- channels (dma.c, descriptor.c) ---- */

struct start { /* a command that was begun and is not done */
    uint32_t acks_left;
    bool sent;
};

struct channel {
    uint32_t start; /* seen */
    uint32_t begun; /* commands begun */
    uint32_t sent;
    uint32_t done;
    bool stopped; /* by an error */
    bool running; /* command begun - 1 is at work */
    uint32_t fetch;
    uint64_t at;    /* the descriptor at work: like `first` */
    uint32_t links; /* descriptors so far */
    struct peach2_descriptor descriptor;
    bool loaded;   /* descriptor is valid, and checked */
    bool notified; /* its last packet is out */
    uint32_t moved_bytes;
    uint64_t source, destination; /* of the current block's rest */
    uint32_t block_left;
    uint32_t pio_goal; /* lines that were stored before the start: they go first */
    uint64_t packets;
    struct start starts[PEACH2_COMMANDS];
};

struct ack {
    uint64_t tag;
    uint8_t node;
};

/* Somebody at the control socket. */
struct visitor {
    int fd; /* -1: none */
    bool driver;
};

struct board {
    uint32_t node;
    const char *path; /* of the control socket */
    int listen_fd;
    struct visitor visitors[BOARD_VISITORS];

    struct peach2_registers *bar0;
    struct peach2_window *bar2;
    int bar0_fd, bar2_fd;
    int interrupt_fd, bell_fd;

    struct iommu iommu;
    struct peach2_route routes[PEACH2_ROUTES];
    uint32_t commit;
    uint32_t scratch_version;
    uint32_t boot;
    uint64_t notify_base;
    uint32_t notify_entries;
    uint32_t notify_serial[PEACH2_NODES]; /* of the last entry */

    /* The count of packets: of ours to each node, and of each node's to us. */
    uint32_t number_sent[PEACH2_NODES], number_due[PEACH2_NODES];
    bool broken[PEACH2_NODES]; /* one is missing */

    struct port ports[PEACH2_PORTS];
    struct channel channels[PEACH2_CHANNELS];
    struct replay replays[PEACH2_NODES];
    uint32_t replay_count; /* of all of them */

    uint32_t pio_head;
    unsigned pio_done_bytes; /* of the line at head */
    bool pio_crowded;        /* the driver may be waiting for room */

    struct ack acks[BOARD_ACKS];
    uint32_t ack_first, ack_count;

    struct waiter waiter;
    unsigned turn; /* whose turn it is to be first */
};

/* ---- loop.c ---- */
int board_init(struct board *board, uint32_t node, const char *path);
void board_deinit(struct board *board);
/* Every door once, another one first each time; what was in a cable that came out before everything
 * else. How much was done; it ends. */
unsigned board_round(struct board *board);
/* Until signal_fd is readable. 0, or what broke. */
int board_run(struct board *board, uint32_t spin_us, int signal_fd);

/* ---- board.c ---- */
void board_cause(struct board *board, uint32_t bits);
void board_discard(struct board *board, uint32_t cause);
/* Stores the registers that are RO but for the channels': whatever somebody has written there is
 * gone. */
void board_show(struct board *board);
/* As after a reset: channels idle, no routes, nothing mapped. Links stay. */
void board_reset(struct board *board);
/* Memory of this node: host or internal. NULL: none. write: not the descriptors. */
uint8_t *board_memory(struct board *board, uint64_t bus, uint64_t length_bytes, bool write);
void board_take_commit(struct board *board);

/* ---- route.c ---- */

/* One packet on its way. in: the port it came by; PEACH2_N: it is made here. The payload may lie
 * elsewhere. True: it has been passed on, has landed or was discarded; false: not now. */
bool board_send(struct board *board, const struct packet_header *header, const uint8_t *payload,
                unsigned in, bool replay);
/* Whether packets to this address are numbered. */
static inline bool board_counted(uint64_t address)
{
    const uint64_t bus = address & PEACH2_OFFSET_MASK;
    return peach2_node_of(address) < PEACH2_NODES && bus != (PEACH2_INTERNAL | PEACH2_AT_MESSAGE) &&
           bus != (PEACH2_INTERNAL | PEACH2_AT_ACKNOWLEDGE);
}
/* One that is made here: epoch, node and number are filled in. */
bool board_emit(struct board *board, struct packet_header *header, const uint8_t *payload);
/* Where a global address leads, or PEACH2_DISCARD. */
unsigned board_route(const struct board *board, uint64_t address);

/* ---- land.c ---- */
void board_land(struct board *board, const struct packet_header *header, const uint8_t *payload,
                unsigned in);
/* Sends what it can: how many. */
unsigned acks_run(struct board *board);

/* ---- link.c: packets over cables ---- */
/* NULL: fewer than `need` slots are free. */
struct packet *link_slot(struct port *port, uint32_t need);
/* The neighbour finds it at the end of the round, or when there are some. */
void link_publish(struct port *port);
/* Forwards packets that have come: how many. */
unsigned link_run(struct board *board, unsigned port);
/* The scratchpads: ours to the neighbours when the driver has written, theirs to the driver: how
 * many. */
unsigned scratch_run(struct board *board);
/* To a neighbour that is new. */
void scratch_write(struct board *board, struct port *port);
/* After a round: wakes the neighbour if it sleeps and has reason not to. */
void link_wake(struct port *port);
/* Before sleeping (and then a last look), and after. */
void link_arm(struct port *port, bool armed);

/* ---- plug.c: cables ---- */
/* The cable is out: the connection is closed, packets that were not taken come back into the
 * replay. */
void port_down(struct board *board, unsigned port);
/* Dials where it is time to: ns until the next, or UINT64_MAX. */
uint64_t ports_dial(struct board *board);
/* The neighbour's answer, or its death. */
void port_readable(struct board *board, unsigned port);
/* A neighbour dials: consumes fds and, unless it fails, the connection. */
int port_accept(struct board *board, int fd, const struct peach2_control *message, int *fds,
                unsigned fd_count);

/* ---- replay.c ---- */
/* Before all others for its node, or behind. False: no room, or no memory. */
bool replay_push(struct board *board, const struct packet_header *header, const uint8_t *payload,
                 bool front);
unsigned replay_run(struct board *board);

/* ---- control.c ---- */
void control_accept(struct board *board);
void control_readable(struct board *board, struct visitor *visitor);
/* Receives one message with its descriptors: bytes, 0 at the end, or negative errno. */
int control_receive(int fd, struct peach2_control *ret_message, int *ret_fds,
                    unsigned *ret_fd_count);
int control_send(int fd, const struct peach2_control *message, const int *fds, unsigned fd_count);

/* ---- dma.c, descriptor.c, pio.c ---- */
unsigned channel_run(struct board *board, unsigned channel);
void channel_reset(struct board *board, unsigned channel);
void channel_acknowledged(struct board *board, uint64_t tag);
/* Loads descriptor `at` into the channel: 0, or enum peach2_error. */
int descriptor_load(struct board *board, unsigned channel);
unsigned pio_run(struct board *board);
