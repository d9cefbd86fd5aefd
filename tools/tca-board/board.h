/*
 * The model of a PEACH2 board: one thread that polls its sources of work - channel commands, lines
 * of BAR 2, packets at the ports, acknowledgements - and sleeps when there is none. registers.h
 * specifies its behaviour.
 *
 * The path of a packet: loop.c board_round() -> dma.c starts a command, descriptor.c fetches and
 * checks descriptors, dma.c creates packets -> route.c board_send() -> link.c appends it to a ring,
 * or land.c writes it to memory. At the next board: link.c takes it -> board_send() again.
 *
 * Packets wait in rings: if the next ring is full, a packet stays where it is until a later round.
 * Three rules prevent deadlocks. A packet at its destination never waits (a full notification ring
 * is an error). A packet that enters the ring of E and W, from the host or from S, must leave one
 * slot free, which only packets in the ring may take (bubble flow control). And packets that make a
 * turn which the current routes do not make, or that an unplugged cable returned, wait in memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/peach2/registers.h"
#include "proto/wait.h"
#include "tools/tca-board/link.h"

enum {
    BOARD_BURST = 32,    /* packets from one source of work per round */
    BOARD_SHOW = 8,      /* packets per update of a ring's tail, whose line costs both sides */
    BOARD_ACKS = 16384,  /* queued acknowledgements */
    BOARD_VISITORS = 16, /* connections to the control socket other than cables */
    BOARD_REDIAL_NS = 50000000,
    BOARD_LOOK_ROUNDS = 256, /* rounds between two polls of the sockets */
    BOARD_YIELD_NS = 100000, /* how long an idle board yields its core before it sleeps */
    BOARD_HOLD_MS = 200,
    BOARD_REPLAY_MAX = 1 << 16, /* packets per node */
};

/* ---- memory (iommu.c) ---- */

struct mapping {
    uint64_t bus;
    uint64_t length_bytes;
    uint8_t *base;
    bool alias; /* base belongs to another mapping */
};

struct iommu {
    struct mapping *mappings; /* ordered by bus address */
    uint32_t count, capacity;
    uint32_t last; /* index of the last hit */
};

/* Maps part of fd, which the caller keeps. Returns 0, -EINVAL, -EEXIST (overlap), -EPERM (not
 * sealed), -ENOSPC, -ENOMEM or an error of mmap(). */
int iommu_map(struct iommu *iommu, uint64_t bus, uint64_t length_bytes, int fd, uint64_t offset);
/* Adds another address for the mapped bytes of .. of + length. -ENOENT: not mapped. */
int iommu_alias(struct iommu *iommu, uint64_t bus, uint64_t length_bytes, uint64_t of);
int iommu_unmap(struct iommu *iommu, uint64_t bus);
void iommu_clear(struct iommu *iommu);
/* NULL: the range is not completely inside one mapping. */
uint8_t *iommu_find(struct iommu *iommu, uint64_t bus, uint64_t length_bytes);

/* ---- ports (link.c, plug.c) ---- */

struct port {
    /* the cable */
    /* path of the neighbour's control socket, to which this end connects; NULL: the other end
     * does */
    const char *dial;
    uint32_t dial_port; /* there */
    bool unplugged;     /* by PEACH2_UNPLUG */
    bool up;
    int fd;      /* the connection: up, or waiting for the reply; -1: none */
    int bell_fd; /* the neighbour's */
    struct link_memory *memory;
    struct link_ring *out, *in;
    uint64_t redial_ns;
    uint64_t down_ns; /* since when */

    uint64_t out_tail, out_head; /* private copies; head: as last read */
    uint64_t out_shown;          /* the published part of out_tail */
    uint64_t in_head, in_tail;   /* tail: as last read */
    bool sent, taken;            /* packets, in this round */
    uint32_t scratch_version;    /* as last read in `in` */
    bool claimed;                /* we own the packet at in_head, and have not passed it on yet */
    struct packet *claim;

    struct packet held; /* the packet that was claimed when the cable was unplugged */
    bool has_held;

    /* the originals of registers in BAR 0, which others can overwrite */
    uint32_t node, far_port, changes;
    uint64_t packets_in, bytes_in, packets_out, bytes_out, stalls;
};

/* ---- packets that wait in memory (replay.c) ---- */

/*
 * Packets that were in a ring when its cable was unplugged, and strays (route.c), by destination.
 * Later packets for the same destination must not overtake them: those from a cable queue up behind
 * them (in the ring of E and W, they could hold its last free slot for ever), and channels do not
 * create new ones.
 */
struct replay {
    struct packet *packets;          /* circular buffer */
    uint32_t first, count, capacity; /* a power of two */
};

/* ---- channels (dma.c, descriptor.c) ---- */

struct start { /* a command in progress */
    uint32_t acks_left;
    bool sent;
};

struct channel {
    uint32_t start; /* as last read */
    uint32_t begun; /* commands started */
    uint32_t sent;
    uint32_t done;
    bool stopped; /* by an error */
    bool running; /* command begun - 1 is in progress */
    uint32_t fetch;
    uint64_t at;    /* the current descriptor, as in peach2_command.first */
    uint32_t links; /* descriptors of the command so far */
    struct peach2_descriptor descriptor;
    bool loaded;   /* `descriptor` is valid and checked */
    bool notified; /* its last packet was sent */
    uint32_t moved_bytes;
    uint64_t source, destination; /* of the rest of the current block */
    uint32_t block_left;
    uint32_t pio_goal; /* lines of BAR 2 stored before the start, to be sent first */
    uint64_t packets;
    struct start starts[PEACH2_COMMANDS];
};

struct ack {
    uint64_t tag;
    uint8_t node;
};

/* A connection to the control socket. */
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

    /* packet numbers: the next to each node, and the next expected from each node */
    uint32_t number_sent[PEACH2_NODES], number_due[PEACH2_NODES];
    bool broken[PEACH2_NODES]; /* a packet from that node is missing */

    struct port ports[PEACH2_PORTS];
    struct channel channels[PEACH2_CHANNELS];
    struct replay replays[PEACH2_NODES];
    uint32_t replay_count; /* packets in all replays */

    uint32_t pio_head;
    unsigned pio_done_bytes; /* bytes of the line at pio_head that were sent */
    bool pio_crowded;        /* more than half full: the driver may be waiting for room */

    struct ack acks[BOARD_ACKS];
    uint32_t ack_first, ack_count;

    struct waiter waiter;
    unsigned turn; /* index of the first source of work in the next round */
};

/* ---- loop.c ---- */
int board_init(struct board *board, uint32_t node, const char *path);
void board_deinit(struct board *board);
/* Serves each source of work once, starting with another one each time, after the packets that wait
 * in memory. Returns the amount of work done; never blocks. */
unsigned board_round(struct board *board);
/* Runs until signal_fd is readable. 0 or a negative errno. */
int board_run(struct board *board, uint32_t spin_us, int signal_fd);

/* ---- board.c ---- */
void board_cause(struct board *board, uint32_t bits);
void board_discard(struct board *board, uint32_t cause);
/* Rewrites the RO registers, except those of the channels, in case they were overwritten. */
void board_show(struct board *board);
/* Resets the board: channels idle, nothing mapped, no notification rings. Routes and links stay. */
void board_reset(struct board *board);
/* Host or internal memory at a bus address; NULL: not accessible. write: excludes the
 * descriptors. */
uint8_t *board_memory(struct board *board, uint64_t bus, uint64_t length_bytes, bool write);
void board_take_commit(struct board *board);

/* ---- route.c ---- */

/* Sends a packet on. in: the incoming port; PEACH2_N: created here. The payload need not follow the
 * header. True: it was forwarded, delivered or discarded; false: try again later. */
bool board_send(struct board *board, const struct packet_header *header, const uint8_t *payload,
                unsigned in, bool replay);
/* Whether packets to this address are numbered. */
static inline bool board_counted(uint64_t address)
{
    const uint64_t bus = address & PEACH2_OFFSET_MASK;
    return peach2_node_of(address) < PEACH2_NODES && bus != (PEACH2_INTERNAL | PEACH2_AT_MESSAGE) &&
           bus != (PEACH2_INTERNAL | PEACH2_AT_ACKNOWLEDGE);
}
/* Sends a packet that is created here. Sets epoch, node and number. */
bool board_emit(struct board *board, struct packet_header *header, const uint8_t *payload);
/* The port for a global address, or PEACH2_DISCARD. */
unsigned board_route(const struct board *board, uint64_t address);

/* ---- land.c ---- */
void board_land(struct board *board, const struct packet_header *header, const uint8_t *payload,
                unsigned in);
/* Sends queued acknowledgements. Returns their number. */
unsigned acks_run(struct board *board);

/* ---- link.c: packets over cables ---- */
/* NULL: fewer than `need` slots are free. */
struct packet *link_slot(struct port *port, uint32_t need);
/* Publishes the packet in the slot, at the latest at the end of the round. */
void link_publish(struct port *port);
/* Forwards received packets. Returns their number. */
unsigned link_run(struct board *board, unsigned port);
/* Copies our scratchpad to the neighbours when the driver has changed it, and theirs to BAR 0.
 * Returns the number of copies. */
unsigned scratch_run(struct board *board);
/* Copies our scratchpad to a neighbour. */
void scratch_write(struct board *board, struct port *port);
/* After a round: wakes a sleeping neighbour that has work. */
void link_wake(struct port *port);
/* Call with true before sleeping, then check for work once more; with false afterwards. */
void link_arm(struct port *port, bool armed);

/* ---- plug.c: cables ---- */
/* Closes the connection of a cable, and moves packets that the neighbour has not claimed to the
 * replay. */
void port_down(struct board *board, unsigned port);
/* Connects cables that are due. Returns the ns until the next attempt, or UINT64_MAX. */
uint64_t ports_dial(struct board *board);
/* Processes the neighbour's reply, or its end. */
void port_readable(struct board *board, unsigned port);
/* Accepts a neighbour's connection. On success, takes ownership of fds and of fd. */
int port_accept(struct board *board, int fd, const struct peach2_control *message, int *fds,
                unsigned fd_count);

/* ---- replay.c ---- */
/* Adds a packet before or after all others for its node. False: full, or out of memory. */
bool replay_push(struct board *board, const struct packet_header *header, const uint8_t *payload,
                 bool front);
unsigned replay_run(struct board *board);

/* ---- control.c ---- */
void control_accept(struct board *board);
void control_readable(struct board *board, struct visitor *visitor);
/* Receives one message with its descriptors. Returns its size, 0 (end of connection) or a negative
 * errno. */
int control_receive(int fd, struct peach2_control *ret_message, int *ret_fds,
                    unsigned *ret_fd_count);
int control_send(int fd, const struct peach2_control *message, const int *fds, unsigned fd_count);

/* ---- dma.c, descriptor.c, pio.c ---- */
unsigned channel_run(struct board *board, unsigned channel);
void channel_reset(struct board *board, unsigned channel);
void channel_acknowledged(struct board *board, uint64_t tag);
/* Loads the current descriptor into the channel. 0 or enum peach2_error. */
int descriptor_load(struct board *board, unsigned channel);
unsigned pio_run(struct board *board);
