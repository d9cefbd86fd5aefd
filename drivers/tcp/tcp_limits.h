/* How much the tcp driver has in hand at a time, and how long it waits. */
#pragma once

enum {
    TCP_PIECE_BYTES = 256 << 10,  /* at most TCP_PIECE_MAX */
    TCP_INLINE_BYTES = 32 << 10,  /* puts that are copied, so that they complete at once */
    TCP_COPIES_BYTES = 512 << 10, /* of a sender: copies of what was not counted yet */
    TCP_WINDOW = 1024,            /* pieces of a sender that were not counted yet */
    TCP_UNWRITTEN_MAX = 2,        /* pieces read from their source that wait to be written */
    /* While flows share a sender: shorter pieces, which are its turns, and few of their bytes wait
     * to be counted. Sockets and the receiver may have megabytes, behind which a short put would
     * wait. */
    TCP_SHARED_PIECE_BYTES = 64 << 10,
    TCP_SHARED_BYTES = 128 << 10,
    TCP_TURN_BYTES = 512 << 10, /* a receiver reads so many and no more before others */
    TCP_STAGING_BYTES = 128 << 10,
    TCP_RECEIVE_BYTES = 128 << 10,
    /* A head for each piece in the window, and a count: honest senders read before that is full. */
    TCP_OUTBOX_BYTES = (TCP_WINDOW + 1) * 32,
    TCP_STRAIGHT_BYTES = 8 << 10, /* so much and more is received straight into memory that is
                                     contiguous or has long blocks */
    TCP_AHEAD_BYTES =
        4 << 10, /* with it, or before it: the next heads, and little that is copied */
    TCP_KEY_RECORDS = 1 << 24, /* sealed with one key; RFC 8446, 5.5 allows 2^24.5 */
    TCP_WRITE_IOVECS = 256,
    TCP_READ_IOVECS = 128,

    TCP_PUSH_PIECES = 16, /* made by tcp_push() of a sender */
    /* tcp_push() corks fewer pieces than this, each of at most so many bytes, until the next
     * round */
    TCP_CORK_PIECES = 16,
    TCP_CORK_BYTES = 4 << 10,
    TCP_CORK_US = 50, /* a round that comes later than this was too late: the next so many */
    TCP_UNCORKED_BURSTS = 64, /* bursts are not corked */

    TCP_TELL_PIECES = 64,       /* a receiver tells of so many, or */
    TCP_TELL_BYTES = 128 << 10, /* of copies that take so much, or */
    TCP_TELL_MS = 5,            /* after so long */

    TCP_OPENINGS_MAX = 256,     /* connections that have not said hello: no more are accepted */
    TCP_OPENINGS_OF_HOST = 128, /* of one address: the oldest of them goes first */
    TCP_OPENING_MS = 5000,      /* and within which they have to */
    TCP_RECEIVERS_MAX = 4096,   /* for senders elsewhere */

    /* A peer is lost when it could not be connected to for so long. Its daemon's heartbeats tell of
     * a node that is down. */
    TCP_LOST_MS = 5000,
    TCP_RETRY_MS = 5, /* first pause between two attempts; doubles up to */
    TCP_RETRY_MAX_MS = 500,
    TCP_FORGET_MS = 60000, /* a receiver without a connection: more than TCP_LOST_MS */

    TCP_POLLS = 2000,   /* rounds after data in which a receiver is read without an event: */
    TCP_POLLED_MAX = 4, /* so many receivers; with more, events say which have data */
    TCP_EVENTS = 64,
    /* While some are read without, or something was written, events are taken every so many rounds,
     * or after so long: a round can copy for milliseconds, and it takes five events to connect. */
    TCP_EVENTS_EVERY = 64,
    TCP_EVENTS_US = 100,
};
