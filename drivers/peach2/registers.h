/*
 * The programming interface of a PEACH2 board, as used by its driver and implemented by the model
 * in tools/tca-board/. The two share only this header.
 *
 * The papers about the real board describe an FPGA with four PCIe ports (N to the host; E, W and S
 * to other boards), four DMA channels that run chains of descriptors autonomously, block-stride in
 * hardware, remote access by put only, descriptors in host memory, in 1,024 slots of internal
 * memory or in 16 registers of a channel, and routing of PCIe packets by address. Its register map,
 * descriptor format and address windows are not public, so those below are our own. We added
 * acknowledgements, epochs, notification rings and scratchpads, which a driver needs.
 *
 * ---- Addresses ----
 *
 * A *bus address* below 2^39 is host memory as mapped by the board's IOMMU (see PEACH2_MAP); from
 * 2^39 on it is internal memory. A *global address* is PEACH2_GLOBAL | node << 40 | bus address of
 * that node's board. Packets carry global addresses, and boards route by them. `node` is the
 * board's position in its sub-cluster, 0 to 15.
 *
 * ---- Packets ----
 *
 * A packet has an address, at most PEACH2_PAYLOAD_MAX bytes, and fields set by the board that
 * creates it: that board's node, its current `epoch`, a sequence number, and a hop limit. Boards
 * split descriptors and lines of BAR 2 into packets at multiples of PEACH2_PAYLOAD_MAX, at block
 * boundaries and at gaps between stored bytes. Packets are posted writes: the destination board
 * acknowledges them only if PEACH2_ACKNOWLEDGE is set. On one path they stay in order. A full port
 * exerts back-pressure on channels and BAR 2 (but see struct peach2_route). Packets are dropped
 * only for the causes from PEACH2_CAUSE_UNMAPPED on, and each of those is counted in `discarded`.
 *
 * A board numbers its packets separately for each destination node, and the destination checks the
 * numbers; `accept_epoch` describes what happens to packets that are late, early or of another
 * epoch. Acknowledgements and packets to PEACH2_AT_MESSAGE are not numbered.
 *
 * When a cable is unplugged, packets that the neighbour has not taken return to the sender, which
 * sends them by its new routes, before any later packets for the same node; without another route
 * they wait for `hold_ms`. Packets in a board that dies are lost, which the numbers reveal.
 *
 * ---- Registers in memory ----
 *
 * The model's BARs are shared memory. A hardware board sees every store; the model sees only the
 * memory's content. So a store that requests an action (`start`, `control`, `commit`, the tail of
 * BAR 2) is followed by the doorbell: a full fence, and if `bell_armed` is not 0, an exchange of it
 * for 0; whoever gets the 1 writes to the doorbell's eventfd. An awake board keeps it at 0, which
 * avoids the system call. Stores are never missed, only coalesced: each such register is a counter
 * or a level, never a pulse.
 *
 * Access marks: RO: the board stores, the driver reads. RW: the driver stores, the board reads.
 * W1C: the board sets bits, the driver clears them (with an atomic operation, where hardware would
 * have "write one to clear"). The board trusts no content.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PEACH2_GLOBAL      (UINT64_C(1) << 56)
#define PEACH2_NODE_SHIFT  40
#define PEACH2_NODE_MASK   (UINT64_C(0xff) << PEACH2_NODE_SHIFT)
#define PEACH2_WINDOW_MASK (~UINT64_C(0) << PEACH2_NODE_SHIFT) /* of a route to one node */
#define PEACH2_OFFSET_MASK ((UINT64_C(1) << PEACH2_NODE_SHIFT) - 1)
#define PEACH2_INTERNAL    (UINT64_C(1) << 39)

enum {
    PEACH2_MAGIC = 0x32484350, /* "PCH2" */
    PEACH2_VERSION = 3,
    PEACH2_NODES = 16,
    PEACH2_CHANNELS = 4,
    PEACH2_COMMANDS = 64, /* outstanding commands of a channel */
    PEACH2_REGISTER_DESCRIPTORS = 16,
    PEACH2_INTERNAL_DESCRIPTORS = 1024,
    PEACH2_INTERNAL_NOTIFY_BYTES = 64 << 10,
    PEACH2_ROUTES = 32,
    PEACH2_PAYLOAD_MAX = 256, /* of a packet */
    PEACH2_ALIGN = 4,         /* of addresses, blocks, gaps and lengths in descriptors */
    PEACH2_PHASE = 16, /* source and destination address are equal modulo this, for every block */
    PEACH2_LENGTH_MAX = 1 << 20, /* bytes of one descriptor */
    PEACH2_CHAIN_MAX = 1 << 12,  /* descriptors of a chain in host memory: see BAD_CHAIN */
    PEACH2_HOLD_MAX_MS = 5000,
    PEACH2_HOPS_MAX = 32, /* hop limit: a packet that exceeds it is in a routing loop */
    PEACH2_PIO_LINES = 1024,
    PEACH2_PIO_BYTES = 64,
};

enum peach2_port { PEACH2_N, PEACH2_E, PEACH2_W, PEACH2_S, PEACH2_PORTS, PEACH2_DISCARD = 0xff };

static inline uint64_t peach2_global(unsigned node, uint64_t bus)
{
    return PEACH2_GLOBAL | (uint64_t)node << PEACH2_NODE_SHIFT | bus;
}

static inline unsigned peach2_node_of(uint64_t global)
{
    return (unsigned)((global & PEACH2_NODE_MASK) >> PEACH2_NODE_SHIFT);
}

/* Internal memory, as offsets from PEACH2_INTERNAL: descriptors (possible sources, never
 * destinations), general-purpose memory (source and destination), and addresses with special
 * functions. The driver accesses the first two as `descriptors` and `memory` of BAR 0. */
enum {
    PEACH2_AT_DESCRIPTORS = 0,
    PEACH2_AT_MEMORY = 64 << 10,     /* general-purpose memory, writable by any node */
    PEACH2_AT_NOTIFY = 1 << 20,      /* 16 bytes: appended to the sender's notification ring */
    PEACH2_AT_RESTART = 2 << 20,     /* the same, and resets the expected number of the sender */
    PEACH2_AT_ACKNOWLEDGE = 3 << 20, /* 8 bytes, from boards only */
    PEACH2_AT_MESSAGE = 4 << 20, /* as AT_NOTIFY, but not numbered: can overtake earlier packets */
};

/* ---- Descriptors ---- */

/*
 * `length` bytes in blocks of `block` bytes (0: one block). Block i is read at source + i * (block
 * + source_gap) and written at destination + i * (block + destination_gap); gaps may be negative.
 * length must be a multiple of block. A length of 0 with PEACH2_NOTIFY is a notification without
 * data.
 */
struct peach2_descriptor {
    uint64_t source;      /* a bus address in this node's host or internal memory */
    uint64_t destination; /* a global address */
    uint32_t length;
    uint32_t block;
    int32_t source_gap;
    int32_t destination_gap;
    uint32_t flags; /* PEACH2_END and so on */
    uint32_t reserved;
    uint64_t next;      /* host memory: bus address, a multiple of 16; else: slot number */
    uint64_t notify[2]; /* PEACH2_NOTIFY: the notification */
};
static_assert(sizeof(struct peach2_descriptor) == 64, "a register format");

enum {
    PEACH2_END = 1 << 0,         /* the last of its chain */
    PEACH2_NOTIFY = 1 << 1,      /* after the data, sends notify[] to the destination's node */
    PEACH2_QUIET = 1 << 2,       /* without an interrupt there, unless its ring is half full */
    PEACH2_ACKNOWLEDGE = 1 << 3, /* the command is done when this descriptor's last packet has
                                    arrived, rather than when it was sent */
    PEACH2_FLAGS = 0xf,          /* all flags */
};

/* The location of a chain. */
enum { PEACH2_FETCH_HOST = 1, PEACH2_FETCH_INTERNAL = 2, PEACH2_FETCH_REGISTERS = 3 };

struct peach2_command {
    uint64_t first; /* as peach2_descriptor.next */
    uint32_t fetch;
    uint32_t reserved;
};

/* ---- BAR 0 ---- */

/*
 * A channel runs its commands in order, one at a time; it can begin one before the previous one is
 * acknowledged. While start - done < 64, the driver stores command number n (counted from 0) in
 * commands[n % 64] and then start = n + 1. Both counters wrap around. The board reads commands and
 * descriptors once, when it runs them; the driver may overwrite a descriptor in registers once
 * `sent` has passed its command.
 *
 * An error stops the channel, which the board reports in `error`, `error_at` and the cause bit;
 * `done` does not advance any further. PEACH2_ABORT resets a channel in any state: pending work is
 * dropped, sent = done = start as read at that moment, error is cleared, and the board stores
 * control = 0.
 */
struct peach2_channel {
    _Atomic uint32_t start;   /* RW */
    _Atomic uint32_t control; /* RW: 0 or PEACH2_ABORT */
    _Atomic uint32_t sent;    /* RO: commands whose last packet has left */
    _Atomic uint32_t done;    /* RO: commands that are complete, including acknowledgements */
    _Atomic uint32_t error;   /* RO: enum peach2_error */
    uint32_t reserved;
    _Atomic uint64_t error_at; /* RO: the descriptor, as in `first` or `next` */
    _Atomic uint64_t packets;  /* RO: packets sent */
    uint64_t reserved2[3];
    struct peach2_command commands[PEACH2_COMMANDS];                   /* RW */
    struct peach2_descriptor descriptors[PEACH2_REGISTER_DESCRIPTORS]; /* RW */
};

enum { PEACH2_ABORT = 1 };

enum peach2_error {
    PEACH2_NO_ERROR,
    PEACH2_BAD_FETCH, /* no such mode, slot, or address */
    PEACH2_BAD_FLAGS,
    PEACH2_BAD_ALIGNMENT,   /* PEACH2_ALIGN, PEACH2_PHASE */
    PEACH2_BAD_LENGTH,      /* PEACH2_LENGTH_MAX, or not a multiple of the block */
    PEACH2_BAD_SOURCE,      /* not mapped for the board */
    PEACH2_BAD_DESTINATION, /* not a global address, no route, or a gap crosses into another node */
    /* longer than PEACH2_CHAIN_MAX, or than the number of slots of internal memory or registers, so
     * that every loop ends */
    PEACH2_BAD_CHAIN,
    PEACH2_BAD_START, /* more than PEACH2_COMMANDS outstanding commands */
    PEACH2_ERRORS
};

/* A description for display. */
static inline const char *peach2_error_text(uint32_t error)
{
    static const char *const texts[PEACH2_ERRORS] = {
        [PEACH2_BAD_FETCH] =
            "a descriptor's address is not a slot, or not memory mapped for the board",
        [PEACH2_BAD_FLAGS] = "a descriptor has unknown flags",
        [PEACH2_BAD_ALIGNMENT] = "a descriptor's addresses, lengths or gaps are not aligned",
        [PEACH2_BAD_LENGTH] =
            "a descriptor's length exceeds 1 MiB or is not a multiple of its block",
        [PEACH2_BAD_SOURCE] = "a descriptor's source is not mapped for the board",
        [PEACH2_BAD_DESTINATION] = "no route leads to a descriptor's destination",
        [PEACH2_BAD_CHAIN] = "a chain of descriptors is too long or has a loop",
        [PEACH2_BAD_START] = "too many outstanding commands",
    };
    return error < PEACH2_ERRORS && texts[error] ? texts[error] : "an unknown error";
}

/* Packets with (address & mask) == base leave by `port`; the first matching entry counts. N: they
 * are for this node. PEACH2_DISCARD: they are dropped.
 *
 * `turns` has a bit, 1 << port, for each incoming port whose packets wait in that port while the
 * outgoing port is full. The driver must ensure that there are no cyclic waits between these ports.
 * Packets from other ports were sent by earlier routes. They, and later ones for the same node,
 * wait in the board's memory, so that they do not block other packets. */
struct peach2_route {
    uint64_t base;  /* RW */
    uint64_t mask;  /* RW */
    uint32_t port;  /* RW */
    uint32_t turns; /* RW */
};

struct peach2_port_registers {
    _Atomic uint32_t up;                     /* RO: 1, or 0 */
    _Atomic uint32_t node;                   /* RO: node at the other end when it was last up */
    _Atomic uint32_t far_port;               /* RO: port at the other end */
    _Atomic uint32_t changes;                /* RO: number of changes of `up` */
    _Atomic uint64_t packets_in, bytes_in;   /* RO; N: to this node */
    _Atomic uint64_t packets_out, bytes_out; /* RO; N: from channels and BAR 2 */
    _Atomic uint64_t stalls;                 /* RO: attempts to send while it was full */
    uint64_t reserved;
};

/*
 * Cause bits. When the board sets a bit of `cause` that is set in `mask`, it clears `mask` and
 * raises its interrupt (an eventfd): one interrupt each time that the driver sets the mask.
 * Whenever the board clears a mask, it raises an interrupt, even if the driver has stored the mask
 * at that very moment. Before it sleeps, a driver sets `mask`, executes a full fence, and checks
 * once more for work.
 */
enum {
    PEACH2_CAUSE_NOTIFY = 1 << 0,  /* an entry was appended to a notification ring */
    PEACH2_CAUSE_SCRATCH = 1 << 2, /* a neighbour has written to its scratchpad */
    PEACH2_CAUSE_PORT = 1 << 1,    /* a port went up or down */
    PEACH2_CAUSE_DONE = 1 << 4,    /* << channel: its `done` advanced, or it was aborted */
    PEACH2_CAUSE_ERROR = 1 << 8,   /* << channel: it stopped, see its `error` */
    /* packets were discarded: */
    PEACH2_CAUSE_UNMAPPED = 1 << 16, /* the destination is not mapped */
    PEACH2_CAUSE_UNROUTED = 1 << 17, /* no route matches, or the route discards */
    PEACH2_CAUSE_HOPS = 1 << 18,     /* the hop limit was exceeded */
    /* the queue of acknowledgements was full, or a notification ring, whose node is then treated as
     * after a GAP */
    PEACH2_CAUSE_OVERRUN = 1 << 19,
    PEACH2_CAUSE_HELD = 1 << 20,      /* a port was down for longer than hold_ms */
    PEACH2_CAUSE_MALFORMED = 1 << 21, /* an invalid packet or PIO line */
    /* not discards: */
    PEACH2_CAUSE_GAP = 1 << 23,   /* packets of a node are missing: see accept_epoch */
    PEACH2_CAUSE_SPACE = 1 << 22, /* BAR 2 has room again */
};

/* A description of discarded packets, for display; NULL: the bit is not a cause of discards. */
static inline const char *peach2_discard_text(uint32_t bit)
{
    return bit == PEACH2_CAUSE_UNMAPPED    ? "because their destination was not mapped"
           : bit == PEACH2_CAUSE_UNROUTED  ? "because no route matched"
           : bit == PEACH2_CAUSE_HOPS      ? "because they exceeded the hop limit"
           : bit == PEACH2_CAUSE_OVERRUN   ? "because a queue was full"
           : bit == PEACH2_CAUSE_HELD      ? "because a cable was out for too long"
           : bit == PEACH2_CAUSE_MALFORMED ? "because they were malformed"
                                           : NULL;
}

/* One entry of a notification ring. The ring of node s is at notify_base + s * notify_entries * 32
 * in host or internal memory. */
struct peach2_notification {
    uint64_t notify[2];
    _Atomic uint32_t serial; /* 1 for the first; stored last (release) */
    uint8_t node;            /* the sender */
    uint8_t port;            /* incoming port; PEACH2_N: from this board itself */
    uint8_t restart;         /* 1: sent to PEACH2_AT_RESTART */
    uint8_t reserved;
    uint64_t epoch; /* of the packet */
};
static_assert(sizeof(struct peach2_notification) == 32, "a register format");

struct peach2_registers {
    /* identity, RO */
    uint32_t magic;
    uint32_t version;
    uint32_t node;
    uint32_t boot; /* random: differs after each restart of the board */

    _Atomic uint32_t cause;      /* W1C */
    _Atomic uint32_t mask;       /* RW; the board clears it */
    _Atomic uint32_t bell_armed; /* see above */
    /* RW: how long packets wait for a port that is down (default 200, at most PEACH2_HOLD_MAX_MS).
     * Later packets for other nodes can be blocked as long. */
    _Atomic uint32_t hold_ms;
    /* RW: increment it to make the board take over routes[] and the notification rings */
    _Atomic uint32_t commit;
    _Atomic uint32_t committed; /* RO: the last commit taken over */
    uint32_t reserved;
    _Atomic uint64_t epoch;     /* RW: carried by every packet that this board creates */
    _Atomic uint64_t discarded; /* RO: packets discarded for the causes above */
    _Atomic uint64_t stale;     /* RO: packets discarded for their epoch or their number */
    /* The scratchpad: after the driver has stored words here and incremented scratch_version, they
     * appear at each neighbour in heard[], at the port that leads here, with PEACH2_CAUSE_SCRATCH.
     * A new neighbour gets the current words. Needs no route and bypasses all packets. A neighbour
     * can miss the first of two versions in close succession, or see words of both. */
    _Atomic uint64_t scratch[PEACH2_NODES];             /* RW */
    _Atomic uint64_t heard[PEACH2_PORTS][PEACH2_NODES]; /* RO */
    _Atomic uint32_t scratch_version;                   /* RW */
    uint32_t reserved4;
    _Atomic uint32_t broken; /* RO: a bit per node with missing packets: see accept_epoch */
    /* RW: a bit per node whose numbered packets are accepted; see accept_epoch. 0 without a
     * driver. */
    _Atomic uint32_t admitted;
    struct peach2_route routes[PEACH2_ROUTES];
    struct peach2_port_registers ports[PEACH2_PORTS];

    /* RW: packets from node i are accepted if their epoch is not below this, no packet before
     * them is missing, and the node is admitted.
     *
     * The destination board counts the numbered packets of each node. It discards a packet whose
     * number is below the count: it is late. After a packet whose number is above the count (a
     * packet was lost or overtaken), or one of a node that is not admitted, it discards all packets
     * of that node until one to PEACH2_AT_RESTART, which needs no admission, sets the count. So
     * data arrives complete and in order; the drivers resend what is not acknowledged in time. */
    _Atomic uint64_t accept_epoch[PEACH2_NODES];
    /* Notification rings, one per sending node. Changes of notify_base and notify_entries take
     * effect with the next commit; serials then begin at 1 again. If notify_entries is not a power
     * of two, or the memory is not mapped, there are no rings. */
    uint64_t notify_base;    /* RW: a bus address */
    uint32_t notify_entries; /* RW: of each ring; at most 65536 */
    uint32_t reserved2;
    _Atomic uint32_t notify_taken[PEACH2_NODES]; /* RW: entries that the driver has consumed */

    _Alignas(64) struct peach2_channel channels[PEACH2_CHANNELS];
    _Alignas(4096) struct peach2_descriptor descriptors[PEACH2_INTERNAL_DESCRIPTORS]; /* RW */
    uint8_t memory[PEACH2_INTERNAL_NOTIFY_BYTES];                                     /* RW */
};

/* ---- BAR 2 ---- */

/*
 * The PIO window. In hardware, a CPU store to the window becomes a packet, and the CPU's
 * write-combining buffers combine adjacent stores into lines of 64 bytes. The model cannot see
 * stores to plain memory, so the driver collects bytes into line tail % 1024 and then stores tail +
 * 1. Lines are sent in order, and their bytes in ascending order; a command started after them does
 * not overtake them.
 */
struct peach2_pio_line {
    uint64_t address; /* global, a multiple of 64 */
    uint64_t mask;    /* bit i: byte i was stored */
    uint8_t bytes[PEACH2_PIO_BYTES];
};

struct peach2_window {
    _Alignas(64) _Atomic uint32_t tail; /* RW */
    _Alignas(64) _Atomic uint32_t head; /* RO */
    _Alignas(64) struct peach2_pio_line lines[PEACH2_PIO_LINES];
};

/* ---- The control socket (SOCK_SEQPACKET): stands in for slot, IOMMU and cable plugs ---- */

enum peach2_control_type {
    /* driver: attaches until the connection ends. The reply has the descriptors of BAR 0, BAR 2,
     * the interrupt and the doorbell. -EBUSY: another driver is attached. When the connection ends,
     * the board aborts the channels and removes all mappings, but continues to forward packets. */
    PEACH2_ATTACH = 1,
    /* driver: maps `length` bytes of a memfd, sealed against shrinking, from `offset` on at
     * `address` */
    PEACH2_MAP = 2,
    PEACH2_UNMAP = 3, /* driver: address as in MAP; after the reply, the board does not access it */
    PEACH2_PLUG = 4,  /* any process: port; undoes UNPLUG */
    PEACH2_UNPLUG = 5, /* any process: port */
    PEACH2_LINK = 6,   /* another board: a cable, see its link.h */
    /* driver: a further bus address `address`, of any alignment, for `length` bytes that are mapped
     * at `offset`. Removed by UNMAP, or with the underlying mapping. So memory can be exposed under
     * a fresh address and revoked separately. */
    PEACH2_ALIAS = 7,
};

struct peach2_control {
    uint32_t type;
    int32_t status; /* in replies: 0 or a negative errno */
    uint32_t port;
    uint32_t node;
    uint64_t address;
    uint64_t length;
    uint64_t offset;
};

enum { PEACH2_MAPPINGS_MAX = 1 << 20, PEACH2_CONTROL_FDS = 4 };
