/* How much the ofi driver has in hand at a time, and how long it waits for others. */
#pragma once

enum {
    /* Segments: the pieces in which gathered data travels. */
    OFI_SEGMENT_BYTES = 128 << 10, /* payload, when the configuration does not say */
    OFI_SEGMENT_MIN = 4 << 10,
    OFI_SEGMENT_MAX = 4 << 20,
    OFI_STAGINGS = 16,       /* staging buffers of gathered pieces, all peers together */
    OFI_SEGMENTS_MAX = 8,    /* of these of one put: others need staging buffers, too */
    OFI_RING_SEGMENTS = 8,   /* of the largest size that a ring has room for */
    OFI_RING_MAX = 64 << 20, /* bytes: what we believe of a peer's */
    OFI_WINDOW = 64,         /* units of a link that were sent and not yet worked on: bits of
                        ofi_source.arrived */
    OFI_CREDIT_EVERY = 16,   /* units; a quarter of the ring likewise */
    OFI_CREDIT_MS = 5,       /* after so long a sender is told of fewer, too: less than AGAIN_MS */
    OFI_INLINE_BYTES = 32 << 10, /* of a put that go through the ring though they need not */

    /* Pieces of a DIRECT put: what comes after it on the connection need not wait for more than so
     * many of so many bytes. */
    OFI_PIECE_BYTES = 1 << 20,
    OFI_PIECES_MAX = 2,

    /* Requests to the provider. */
    OFI_WRITES_MAX = 256, /* in flight, all peers together */
    OFI_POST_BUDGET = 32, /* writes of one peer before it is the next one's turn */
    OFI_PACK_COST = 16,   /* a packed one counts as so many */
    OFI_SENDS_MAX = 64,
    OFI_SENDS_PER_NAME = 4, /* who does not take messages holds up nobody else's */
    OFI_RECVS = 64,
    OFI_CQ_BATCH = 32,
    OFI_RETRY_MS = 1, /* how often a sleeper tries again what the provider refused */

    /* A question that may have gone with a broken connection is asked again after so long, then
     * less and less often. */
    OFI_AGAIN_MS = 20,
    OFI_AGAIN_MAX_MS = 1000,

    /* A peer is down when for so long it cannot be connected to or says nothing, and when its
     * connection is lost and does not come back. Long: it may be there and wait for a processor.
     * Whoever has ended is known by its connections, a node that has by its daemon's. */
    OFI_STALL_MS = 30000,
    OFI_LOST_MS = 5000,
    OFI_KICK_MS = 300,    /* a connection that is being made for so long is begun anew */
    OFI_BREAKS_MAX = 20,  /* one after the other, and nothing has arrived in between */
    OFI_BREAKS_STALE = 4, /* so many, and what is first is taken to be what breaks it */

    /* Memory that was freed and that the provider may still write to: so many places, so many GiB of
     * addresses (the pages are there only when they are written to). */
    OFI_QUARANTINE_MAX = 16384,
    OFI_QUARANTINE_MAX_GIB = 4096,
    /* Senders are asked to stop after so long: their owners are told at once, by another way and
     * with the reason. */
    OFI_REVOKE_MS = 1000,
    OFI_REVOKED_KEPT = 64, /* keys that a link remembers: a landing's blob may come late */
};
