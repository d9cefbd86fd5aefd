/* Sizes, numbers and times of the ofi driver. */
#pragma once

enum {
    /* Segments, in which packed data is sent. */
    OFI_SEGMENT_BYTES = 128 << 10, /* payload, unless configured */
    OFI_SEGMENT_MIN = 4 << 10,
    OFI_SEGMENT_MAX = 4 << 20,
    OFI_STAGINGS = 16,           /* staging buffers, shared by all peers */
    OFI_SEGMENTS_MAX = 8,        /* in flight per put, so that others get staging buffers */
    OFI_RING_SEGMENTS = 8,       /* capacity of a ring, in segments of the largest size */
    OFI_RING_MAX = 64 << 20,     /* bytes: larger rings of peers are refused */
    OFI_WINDOW = 64,             /* uncounted operations per link: bits of ofi_source.arrived */
    OFI_CREDIT_EVERY = 16,       /* operations per credit, or a quarter of the ring */
    OFI_CREDIT_MS = 5,           /* a credit for fewer is sent after this; less than AGAIN_MS */
    OFI_INLINE_BYTES = 32 << 10, /* puts up to this size always go through the ring */

    /* Pieces of DIRECT puts. Another put waits for at most PIECES_MAX of them. */
    OFI_PIECE_BYTES = 1 << 20,
    OFI_PIECES_MAX = 2,

    /* Requests to the provider. */
    OFI_WRITES_MAX = 256, /* in flight, all peers */
    OFI_POST_BUDGET = 32, /* writes to one peer before the next peer's turn */
    OFI_PACK_COST = 16,   /* cost of a packed write */
    OFI_SENDS_MAX = 64,
    OFI_SENDS_PER_NAME = 4, /* so that a peer that accepts no messages does not delay others */
    OFI_RECVS = 64,
    OFI_CQ_BATCH = 32,
    OFI_RETRY_MS = 1, /* interval at which a sleeper retries what the provider did not accept */

    /* A request that was not replied to is repeated after AGAIN_MS, then at growing intervals. */
    OFI_AGAIN_MS = 20,
    OFI_AGAIN_MAX_MS = 1000,

    /* A peer is failed if it cannot be connected to, or does not reply, for STALL_MS, or if its
     * connection is lost and not re-established for LOST_MS. These are long, because the peer may
     * only be waiting for a processor: its connections show that a process has ended, and its
     * daemon's heartbeats that a node has. */
    OFI_STALL_MS = 30000,
    OFI_LOST_MS = 5000,
    OFI_KICK_MS = 300,   /* a connection that is not established within this is started again */
    OFI_BREAKS_MAX = 20, /* connections lost in succession, without a count, before failing */
    OFI_BREAKS_STALE =
        4, /* of these, before the target of the oldest operation is taken as stale */

    /* Memory in quarantine. Pages are allocated only when late writes arrive. */
    OFI_QUARANTINE_MAX = 16384, /* regions */
    OFI_QUARANTINE_MAX_GIB = 4096,
    OFI_REVOKE_MS = 1000,  /* before senders are asked to stop: their owners tell them sooner */
    OFI_REVOKED_KEPT = 64, /* keys remembered per link, because a landing's blob may arrive late */
};
