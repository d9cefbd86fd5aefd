/*
 * The PEACH2 board as its driver sees it, and as the model in board/ implements it. This header is
 * all that the two share.
 *
 * What is public of the real board is in its papers: an FPGA with four PCIe ports (N to the host,
 * E, W and S to other boards), four DMA channels that run chains of descriptors by themselves,
 * block-stride in hardware, remote access by put only, descriptors in host memory, in 1,024 slots
 * of internal memory or in 16 registers of a channel, routing of PCIe packets by address. Its
 * register map, its descriptor format and its address windows are not public: everything below is
 * our own. So are, because we found that a driver cannot do without them: acknowledgements, epochs,
 * notification rings and scratchpads.
 *
 * ---- Addresses ----
 *
 * A *bus address* has 48 bits. Below 2^39 it is host memory as the board's IOMMU maps it (the
 * driver says what, see MAP); from 2^39 on it is internal memory. A *global address* is
 * PEACH2_GLOBAL | node << 40 | bus address of that node's board: what packets carry, and what
 * boards route by. `node` is the board's place in its sub-cluster, 0 to 15.
 *
 * ---- Packets ----
 *
 * A packet is an address, at most PEACH2_PAYLOAD_MAX bytes, and what its maker's board writes on
 * it: that board's node, its `epoch` at that moment, a number, and how many links it may still
 * cross. Descriptors and lines of BAR 2 are cut into packets that end where a multiple of
 * PEACH2_PAYLOAD_MAX does, a block or a run of stored bytes does. They are posted writes: nobody
 * answers, unless PEACH2_ACKNOWLEDGE asks for it, and then the board where the packet has landed
 * does. On one path they stay in order. A port that is full holds up what wants to leave by it,
 * back to channels and BAR 2 (but see struct peach2_route); nothing is dropped but for the causes
 * from PEACH2_CAUSE_UNMAPPED on, and each of those counts in `discarded`.
 *
 * A board numbers its packets, a count for each node that they go to; where they end that count is
 * followed, and `accept_epoch` says what becomes of those that are late, early or of another time.
 * Not numbered are acknowledgements and packets to PEACH2_AT_MESSAGE.
 *
 * A cable that comes out: what the neighbour had not taken yet is the sender's again, and leaves by
 * whatever its routes say then, before anything that is made later for the same node; without
 * another way it waits for `hold_ms`. What ends with a board that dies is lost, and noticed by the
 * count.
 *
 * ---- Registers in memory ----
 *
 * A BAR of the model is shared memory. A board of silicon sees every store; the model sees memory,
 * so a store that asks for something (`start`, `control`, `commit`, the tail of BAR 2) is followed
 * by the doorbell: a full fence, and if `bell_armed` is not 0, an exchange of it for 0 and, to whom
 * gets the 1, a write to the doorbell's eventfd. An awake board has it at 0: no system call. In
 * return a store is never missed, only coalesced: every such register is a counter or a level,
 * never a pulse.
 *
 * Marks: RO the board stores, the driver reads; RW the driver stores, the board reads; W1C the
 * board sets bits, the driver takes them away (by an atomic and, where silicon would have "write
 * one to clear"). The board trusts none of it.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PEACH2_GLOBAL     (UINT64_C(1) << 56)
#define PEACH2_NODE_SHIFT 40
#define PEACH2_NODE_MASK  (UINT64_C(0xff) << PEACH2_NODE_SHIFT)
#define PEACH2_WINDOW_MASK                                                                         \
    (~UINT64_C(0)                                                                                  \
     << PEACH2_NODE_SHIFT) /* of a routing entry for one node                         \
                                         */
#define PEACH2_OFFSET_MASK ((UINT64_C(1) << PEACH2_NODE_SHIFT) - 1)
#define PEACH2_INTERNAL    (UINT64_C(1) << 39)

enum {
    PEACH2_MAGIC = 0x32484350, /* "PCH2" */
    PEACH2_VERSION = 2,
    PEACH2_NODES = 16,
    PEACH2_CHANNELS = 4,
    PEACH2_COMMANDS = 64, /* starts that a channel takes before the first is done */
    PEACH2_REGISTER_DESCRIPTORS = 16,
    PEACH2_INTERNAL_DESCRIPTORS = 1024,
    PEACH2_INTERNAL_NOTIFY_BYTES = 64 << 10,
    PEACH2_ROUTES = 32,
    PEACH2_PAYLOAD_MAX = 256, /* of a packet */
    PEACH2_ALIGN = 4,  /* addresses, blocks, gaps and lengths of descriptors are multiples of it */
    PEACH2_PHASE = 16, /* source and destination address are equal modulo this, for every block */
    PEACH2_LENGTH_MAX = 1 << 20, /* bytes of one descriptor */
    PEACH2_CHAIN_MAX = 1 << 12,  /* descriptors of one start from host memory: see BAD_CHAIN */
    PEACH2_HOLD_MAX_MS = 5000,
    PEACH2_HOPS_MAX = 32, /* links that a packet may cross: one that has more is in a loop */
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

/* Internal memory, as offsets behind PEACH2_INTERNAL: descriptors (a descriptor's source may be
 * there, packets never end there), then memory for anything, from and to where data may be put;
 * behind it addresses that take packets in. The driver sees the first two as `descriptors` and
 * `memory` of BAR 0. */
enum {
    PEACH2_AT_DESCRIPTORS = 0,
    PEACH2_AT_MEMORY = 64 << 10,     /* notifications, by custom; anybody may put there */
    PEACH2_AT_NOTIFY = 1 << 20,      /* 16 bytes: appended to the sender's notification ring */
    PEACH2_AT_RESTART = 2 << 20,     /* the same, and restarts the count of the sender's packets */
    PEACH2_AT_ACKNOWLEDGE = 3 << 20, /* 8 bytes, from boards only */
    PEACH2_AT_MESSAGE =
        4 << 20, /* like AT_NOTIFY, but not counted: it may come before what was sent earlier */
};

/* ---- Descriptors ---- */

/*
 * `length` bytes in blocks of `block` bytes (0: all of it is one). Block i is read at source + i *
 * (block + source_gap) and put at destination + i * (block + destination_gap); gaps may be
 * negative. length is a multiple of block. A length of 0 moves nothing: with PEACH2_NOTIFY it is a
 * notification alone.
 */
struct peach2_descriptor {
    uint64_t source;      /* a bus address: host or internal memory of this node (put only) */
    uint64_t destination; /* a global address */
    uint32_t length;
    uint32_t block;
    int32_t source_gap;
    int32_t destination_gap;
    uint32_t flags; /* PEACH2_END and so on */
    uint32_t reserved;
    uint64_t next; /* host memory: bus address, a multiple of 16; internal memory, registers: number
                      of the slot */
    uint64_t notify[2]; /* PEACH2_NOTIFY: what is notified */
};
static_assert(sizeof(struct peach2_descriptor) == 64, "a register format");

enum {
    PEACH2_END = 1 << 0,         /* the last of its chain */
    PEACH2_NOTIFY = 1 << 1,      /* behind the data, notify[] goes to the destination's node */
    PEACH2_QUIET = 1 << 2,       /* that raises no interrupt there (unless its ring is half full) */
    PEACH2_ACKNOWLEDGE = 1 << 3, /* the start is done when this descriptor's last packet has landed;
                                    without, when it was sent */
    PEACH2_FLAGS = 0xf,          /* all that there are */
};

/* Where a chain is. Not `enum`: it is a register. */
enum { PEACH2_FETCH_HOST = 1, PEACH2_FETCH_INTERNAL = 2, PEACH2_FETCH_REGISTERS = 3 };

struct peach2_command {
    uint64_t first; /* like `next` */
    uint32_t fetch;
    uint32_t reserved;
};

/* ---- BAR 0 ---- */

/*
 * A channel runs its commands in order, one at a time; it may begin one before the last is
 * acknowledged. The driver stores command number n (counted from 0, in commands[n % 64]) and then
 * start = n + 1, while start - done < 64. Both count up freely. Commands and descriptors are read
 * once, when their turn comes; a descriptor in registers may be stored anew when `sent` has passed
 * the command that led to it.
 *
 * An error stops the channel: `error`, `error_at` and the cause bit say what; `done` does not move
 * any more. PEACH2_ABORT takes it from there, or from anywhere: what was sent stays sent, the rest
 * is forgotten, sent = done = start as they are when it is seen, error is cleared, and the board
 * stores control = 0.
 */
struct peach2_channel {
    _Atomic uint32_t start;   /* RW */
    _Atomic uint32_t control; /* RW: 0 or PEACH2_ABORT */
    _Atomic uint32_t sent;    /* RO: commands whose last packet has left */
    _Atomic uint32_t done;    /* RO: and whose acknowledgements have come */
    _Atomic uint32_t error;   /* RO: enum peach2_error */
    uint32_t reserved;
    _Atomic uint64_t error_at; /* RO: which descriptor: what `first` or `next` said */
    _Atomic uint64_t packets;  /* RO: that it has sent */
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
    PEACH2_BAD_LENGTH,      /* PEACH2_LENGTH_MAX, or no multiple of the block */
    PEACH2_BAD_SOURCE,      /* not memory that is mapped for the board */
    PEACH2_BAD_DESTINATION, /* no global address, one that no route leads to, or a gap has led into
                               another node's */
    PEACH2_BAD_CHAIN, /* more than PEACH2_CHAIN_MAX; or than internal memory or the registers have
                         slots: it has come back to one of them. So a loop of the longest ends */
    PEACH2_BAD_START, /* more commands than fit */
    PEACH2_ERRORS
};

/* For people. */
static inline const char *peach2_error_text(uint32_t error)
{
    static const char *const texts[PEACH2_ERRORS] = {
        [PEACH2_BAD_FETCH] = "no descriptor there: no such slot, or memory not mapped for it",
        [PEACH2_BAD_FLAGS] = "a descriptor has flags that there are not",
        [PEACH2_BAD_ALIGNMENT] = "a descriptor's addresses, lengths or gaps are not aligned",
        [PEACH2_BAD_LENGTH] = "a descriptor's length is over 1 MiB, or no multiple of its block",
        [PEACH2_BAD_SOURCE] = "a descriptor's source is not memory that is mapped for it",
        [PEACH2_BAD_DESTINATION] = "no route leads to a descriptor's destination",
        [PEACH2_BAD_CHAIN] = "a chain of descriptors leads back into itself",
        [PEACH2_BAD_START] = "more commands than fit",
    };
    return error < PEACH2_ERRORS && texts[error] ? texts[error] : "an unknown error";
}

/* Packets whose (address & mask) == base leave by port: the first entry that fits. N: they end
 * here. PEACH2_DISCARD: they end, too.
 *
 * `turns` says which packets wait where they are when that port is full: 1 << the port that they
 * came by. Between these ports nothing may wait in a circle; the driver sees to that. Packets from
 * another port were sent by other routes than today's. They, and those behind them for the same
 * node, wait in the board's memory, so that nothing waits for them. */
struct peach2_route {
    uint64_t base;  /* RW */
    uint64_t mask;  /* RW */
    uint32_t port;  /* RW */
    uint32_t turns; /* RW */
};

struct peach2_port_registers {
    _Atomic uint32_t up;                     /* RO: 1, or 0 */
    _Atomic uint32_t node;                   /* RO: at the other end, when it was last up */
    _Atomic uint32_t far_port;               /* RO: the port there */
    _Atomic uint32_t changes;                /* RO: how often `up` has changed */
    _Atomic uint64_t packets_in, bytes_in;   /* RO; N: what was put into this node's memory */
    _Atomic uint64_t packets_out, bytes_out; /* RO; N: what channels and BAR 2 sent */
    _Atomic uint64_t stalls;                 /* RO: times that a packet found it full */
    uint64_t reserved;
};

/*
 * Cause bits. The board raises its interrupt (an eventfd) when it sets a bit of `cause` that `mask`
 * has, and then clears `mask`: one interrupt for each time that the driver asks; whenever the board
 * clears it there is one, also for a mask that was stored at that very moment. A driver that is
 * about to sleep sets `mask`, fences, and looks once more at what it waits for.
 */
enum {
    PEACH2_CAUSE_NOTIFY = 1 << 0,    /* something was appended to a notification ring */
    PEACH2_CAUSE_SCRATCH = 1 << 2,   /* a neighbour has written to its scratchpad */
    PEACH2_CAUSE_PORT = 1 << 1,      /* a port went up or down */
    PEACH2_CAUSE_DONE = 1 << 4,      /* << channel: its `done` moved, or it was aborted */
    PEACH2_CAUSE_ERROR = 1 << 8,     /* << channel: it stopped, see its `error` */
    PEACH2_CAUSE_UNMAPPED = 1 << 16, /* for memory that is not mapped; discarded, like these: */
    PEACH2_CAUSE_UNROUTED = 1 << 17, /* no route fits, or the one that does discards */
    PEACH2_CAUSE_HOPS = 1 << 18,     /* more than PEACH2_HOPS_MAX links */
    PEACH2_CAUSE_OVERRUN = 1 << 19,  /* a notification ring (of its node nothing more is taken then,
                                        as after a GAP) or the queue of acknowledgements was full */
    PEACH2_CAUSE_HELD = 1 << 20,     /* a port was down for longer than hold_ms */
    PEACH2_CAUSE_MALFORMED = 1 << 21, /* a packet or PIO line that makes no sense */
    PEACH2_CAUSE_GAP = 1 << 23,       /* packets of a node are missing: see accept_epoch */
    PEACH2_CAUSE_SPACE = 1 << 22,     /* BAR 2 has room again (not one of the discards) */
};

/* Likewise: which packets were discarded; NULL: the bit is not one of those. */
static inline const char *peach2_discard_text(uint32_t bit)
{
    return bit == PEACH2_CAUSE_UNMAPPED    ? "for memory that is not mapped for it"
           : bit == PEACH2_CAUSE_UNROUTED  ? "that no route fits"
           : bit == PEACH2_CAUSE_HOPS      ? "that went in circles"
           : bit == PEACH2_CAUSE_OVERRUN   ? "for a queue that was full"
           : bit == PEACH2_CAUSE_HELD      ? "that waited for a cable for too long"
           : bit == PEACH2_CAUSE_MALFORMED ? "that made no sense"
                                           : NULL;
}

/* One entry of a notification ring. Ring s lies at notify_base + s * notify_entries * 32 in host or
 * internal memory. */
struct peach2_notification {
    uint64_t notify[2];
    _Atomic uint32_t serial; /* 1 for the first; stored last (release) */
    uint8_t node;            /* that sent it */
    uint8_t port;            /* it came by; PEACH2_N: from this board itself */
    uint8_t restart;         /* 1: it came to PEACH2_AT_RESTART */
    uint8_t reserved;
    uint64_t epoch; /* of the packet */
};
static_assert(sizeof(struct peach2_notification) == 32, "a register format");

struct peach2_registers {
    /* identity, RO */
    uint32_t magic;
    uint32_t version;
    uint32_t node;
    uint32_t boot; /* random: tells a board from the same one restarted */

    _Atomic uint32_t cause;      /* W1C */
    _Atomic uint32_t mask;       /* RW; the board clears it */
    _Atomic uint32_t bell_armed; /* see above */
    /* RW: how long packets wait for a port that is down (200; more than PEACH2_HOLD_MAX_MS counts as
     * that: those behind them, of other nodes, wait as long) */
    _Atomic uint32_t hold_ms;
    /* RW: incremented: the board takes over routes[]; until then it goes by what it took last. */
    _Atomic uint32_t commit;
    _Atomic uint32_t committed; /* RO: the commit it goes by */
    uint32_t reserved;
    _Atomic uint64_t epoch;     /* RW: carried by every packet that is made here */
    _Atomic uint64_t discarded; /* RO: packets, for the reasons in `cause` */
    _Atomic uint64_t stale;     /* RO: packets discarded for their epoch or their number */
    /* A scratchpad: what is stored here, followed by an increment of the version, each neighbour
     * finds in its heard[], under the port that leads here, with PEACH2_CAUSE_SCRATCH; a new
     * neighbour finds what is there. It needs no route and goes past all packets; of two versions
     * that follow each other closely the first may never be seen, and words of both together. */
    _Atomic uint64_t scratch[PEACH2_NODES];             /* RW */
    _Atomic uint64_t heard[PEACH2_PORTS][PEACH2_NODES]; /* RO */
    _Atomic uint32_t scratch_version;                   /* RW */
    uint32_t reserved4;
    _Atomic uint32_t broken; /* RO: bit per node of which packets are missing: see accept_epoch */
    uint32_t reserved3;
    struct peach2_route routes[PEACH2_ROUTES];
    struct peach2_port_registers ports[PEACH2_PORTS];

    /* RW: packets of node i that end here are taken when their epoch is not below this.
     *
     * And when none before them is missing. A board numbers the packets that it makes for each
     * other board; the one where they end counts along. One whose number is behind the count is
     * late, and discarded. After one whose number is ahead (something was lost, or has been
     * overtaken on another way) nothing more of that node is taken, until a packet to
     * PEACH2_AT_RESTART sets the count anew. So data that lands is complete, and in order, whatever
     * happens on the way; what is not acknowledged in time is the drivers' to sort out. */
    _Atomic uint64_t accept_epoch[PEACH2_NODES];
    /* Notification rings, one per sending node. A store to notify_entries takes effect with the
     * next commit, as does notify_base; the serials then begin at 1 again. Not a power of two, or
     * not mapped: there are none. */
    uint64_t notify_base;    /* RW: a bus address */
    uint32_t notify_entries; /* RW: of each ring; at most 65536 */
    uint32_t reserved2;
    _Atomic uint32_t notify_taken[PEACH2_NODES]; /* RW: how many the driver has consumed */

    _Alignas(64) struct peach2_channel channels[PEACH2_CHANNELS];
    _Alignas(4096) struct peach2_descriptor descriptors[PEACH2_INTERNAL_DESCRIPTORS]; /* RW */
    uint8_t memory[PEACH2_INTERNAL_NOTIFY_BYTES];                                     /* RW */
};

/* ---- BAR 2 ---- */

/*
 * The PIO window. In silicon a store of the CPU to an address of the window becomes a packet, and
 * the CPU's write-combining buffers gather neighbouring stores into lines of 64 bytes. The model
 * cannot see stores to plain memory, so the lines are what it has: the driver's window function
 * collects bytes into line tail % 1024 and stores tail + 1. A line's bytes are sent in ascending
 * order, lines in order; a start that is stored after them does not overtake them.
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

/* ---- What a slot, an IOMMU and a hand on the cable are to a real board: its control socket
 * (SOCK_SEQPACKET) ---- */

enum peach2_control_type {
    /* driver: with BAR 0, BAR 2, the interrupt and the doorbell as descriptors in the answer;
     * -EBUSY while another driver has the board. Until the connection ends; then the channels are
     * aborted and nothing is mapped, but packets are passed on. */
    PEACH2_ATTACH = 1,
    PEACH2_MAP = 2, /* driver: address, length; with a memfd sealed against shrinking, mapped from
                       `offset` on */
    PEACH2_UNMAP =
        3, /* driver: address as in MAP; once answered, the board does not touch it any more */
    PEACH2_PLUG = 4,   /* anybody: port; undoes UNPLUG */
    PEACH2_UNPLUG = 5, /* anybody: port */
    PEACH2_LINK = 6,   /* another board: a cable, see board/link.h */
    /* driver: address, length, offset: another bus address (of any alignment) for memory that is
     * mapped at `offset`. It goes with UNMAP, or with the mapping that it is part of. So memory can
     * be lent under an address that others have not seen, and taken back from them alone. */
    PEACH2_ALIAS = 7,
};

struct peach2_control {
    uint32_t type;
    int32_t status; /* answers: 0 or a negative errno */
    uint32_t port;
    uint32_t node;
    uint64_t address;
    uint64_t length;
    uint64_t offset;
};

enum { PEACH2_MAPPINGS_MAX = 1 << 20, PEACH2_CONTROL_FDS = 4 };
