/* How much the ofi driver has in hand at a time, and how long it waits for others. */
#pragma once

enum {
    /* Segments: the pieces in which gathered data travels. */
    OFI_SEGMENT_BYTES = 128 << 10, /* payload, when the configuration does not say */
    OFI_SEGMENT_MIN = 4 << 10,
    OFI_SEGMENT_MAX = 4 << 20,
    OFI_BOUNCES = 16,     /* on their way out, all peers together */
    OFI_SEGMENTS_MAX = 8, /* of these of one put: others need bounce buffers, too */
    OFI_RING_SLOTS = 8,   /* on their way in, per source */
    OFI_SLOTS_MAX = 64,   /* of a ring: bits of ofi_source.arrived */

    /* Pieces of a DIRECT put: what comes after it on the connection need not wait for more than so
     * many of so many bytes. */
    OFI_PIECE_BYTES = 1 << 20,
    OFI_PIECES_MAX = 2,

    /* Requests to the provider. */
    OFI_WRITES_MAX = 256, /* in flight, all peers together */
    OFI_POST_BUDGET = 32, /* writes of one peer before it is the next one's turn */
    OFI_PACK_COST = 16,   /* a packed one counts as so many */
    OFI_INJECT_MAX = 256, /* bytes */
    OFI_INJECTS_MAX =
        64, /* to a peer, between two writes whose completion shows that it takes them */
    OFI_SENDS_MAX = 64,
    OFI_SENDS_PER_NAME = 4, /* who does not take messages holds up nobody else's */
    OFI_RECVS = 64,
    OFI_ANSWERS_MAX = 1024, /* flushes to be answered once the provider takes it */
    OFI_CQ_BATCH = 32,
    OFI_RETRY_MS = 1, /* how often a sleeper tries again what the provider refused */

    /* A peer is down when for so long it cannot be connected to or returns no slot, and when its
     * connection is lost and does not come back. Long: it may be there and wait for a processor.
     * Whoever has ended is known by its connections, a node that has by its daemon's. */
    OFI_STALL_MS = 30000,
    OFI_LOST_MS = 500,

    /* Who has not answered a flush by then does not: long, for starts that must have landed wait
     * for it. A question that has gone with a broken connection is asked again meanwhile. */
    OFI_FLUSH_MS = 30000,
    OFI_FLUSH_AGAIN_MS = 50,
};
