/* Between loop_stream.c and loop_stream_io.c. */
#pragma once

#include "daemon/base/loop.h"
#include "daemon/base/loop_internal.h"

struct stream {
    struct loop *loop;
    struct tls *tls; /* NULL: plain */
    struct ssl_st *session;
    bool accepting;
    int fd;
    struct loop_io *io;
    struct evbuffer *input, *output;
    bool read_waits_to_write, write_waits_to_read; /* TLS has messages of its own */
    struct loop_last flush;                        /* what was sent in this turn */
    struct loop_post more;                         /* reads on in the next turn */
    bool reads_on;
    size_t limit;         /* of a payload */
    uint64_t taken_bytes; /* of frames passed to events.frame() */
    enum { STARTING, SHAKING, READY, OVER /* closed() was called */ } state;
    bool freed;
    unsigned calls; /* active callbacks, and `more` while it is posted */
    struct stream_events events;
};

static inline bool stream_is_active(const struct stream *stream)
{
    return !stream->freed && stream->state != OVER;
}

/* Around all that may call the owner of the stream. */
void stream_enter(struct stream *stream);
void stream_leave(struct stream *stream);
/* Ends the stream, once. Queued frames are still sent until it is freed, so that the peer learns
 * the reason. */
void stream_end(struct stream *stream, int error, const char *text);
/* Takes a frame from the input. 1: taken; 0: none is complete; negative: the stream has ended. */
int stream_take_frame(struct stream *stream);

/* ---- loop_stream_io.c ---- */

/* Reads and takes frames, for one turn. */
void stream_take(struct stream *stream);
/* Writes what is queued, for one turn. */
void stream_write(struct stream *stream);
/* Listens to the socket for what the stream's state needs. */
void stream_listen(struct stream *stream);
/* For loop_last(). */
void stream_flush(void *stream);
