/*
 * Streams of frames. What is sent in a turn of the loop leaves at its end, in as few writes and TLS
 * records as possible.
 *
 * Callbacks may free the stream: `calls` counts active callbacks, and the last one destroys a
 * stream that was freed.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/loop_stream.h"
#include "daemon/base/tls.h"
#include "proto/frame.h"

static void destroy(struct stream *stream)
{
    loop_last_cancel(&stream->flush);
    loop_io_free(stream->io);
    tls_session_free(stream->session);
    if (stream->input)
        evbuffer_free(stream->input);
    if (stream->output)
        evbuffer_free(stream->output);
    if (stream->fd >= 0)
        close(stream->fd);
    free(stream);
}

struct stream *stream_free(struct stream *stream)
{
    if (!stream)
        return NULL;
    stream->freed = true;
    if (stream->calls == 0)
        destroy(stream);
    return NULL;
}

void stream_enter(struct stream *stream)
{
    loop_awake(stream->loop);
    stream->calls++;
}

void stream_leave(struct stream *stream)
{
    if (--stream->calls == 0 && stream->freed)
        destroy(stream);
}

void stream_end(struct stream *stream, int error, const char *text)
{
    if (!stream_is_active(stream))
        return;
    stream->state = OVER;
    stream->events.closed(stream->events.context, error, text);
}

/* ---- frames ---- */

/* Ends the stream because of an invalid header, and describes the likely cause. */
static int refuse_header(struct stream *stream, const struct frame_header *header, int error,
                         const char *why)
{
    const uint8_t *bytes = (const uint8_t *)header;
    char text[160];

    if (error == -EPROTONOSUPPORT)
        snprintf(
            text, sizeof(text),
            "it speaks protocol version %u, this daemon version %d: %s is older, both nodes must "
            "run the same release of tcad",
            header->version, PROTO_VERSION, header->version < PROTO_VERSION ? "it" : "this one");
    else if (!stream->tls && bytes[0] == 0x16 && bytes[1] == 0x03) /* a TLS record */
        snprintf(text, sizeof(text),
                 "it uses TLS, this daemon does not: compare control.security of both nodes");
    else
        snprintf(text, sizeof(text), "%s", why);
    stream_end(stream, error, text);
    return error;
}

int stream_take_frame(struct stream *stream)
{
    struct evbuffer *input = stream->input;
    struct frame_header header;
    if (evbuffer_copyout(input, &header, sizeof(header)) < (ev_ssize_t)sizeof(header))
        return 0;

    const char *why;
    int r = frame_header_check(&header, &why);
    if (r == 0 && header.flags & FRAME_IN_MEMFD) {
        why = "it sent a frame with descriptors on a TCP connection";
        r = -EPROTO;
    } else if (r == 0 && header.length_bytes > stream->limit) {
        why = "it sent a frame of more than 64 KiB before its greeting";
        r = -EMSGSIZE;
    }
    if (r < 0)
        return refuse_header(stream, &header, r, why);

    size_t bytes = sizeof(header) + header.length_bytes;
    if (evbuffer_get_length(input) < bytes)
        return 0;
    const uint8_t *frame = evbuffer_pullup(input, (ev_ssize_t)bytes);
    if (!frame) {
        stream_end(stream, -ENOMEM, "out of memory for a frame");
        return -ENOMEM;
    }
    stream->taken_bytes += bytes;
    stream->events.frame(stream->events.context, header.tag, frame + sizeof(header),
                         header.length_bytes);
    evbuffer_drain(input, bytes); /* even if freed, the stream exists until stream_leave() */
    return 1;
}

/* ---- using it ---- */

void stream_set_limit(struct stream *stream, size_t payload_bytes)
{
    stream->limit = payload_bytes;
}

uint64_t stream_received_bytes(const struct stream *stream)
{
    return stream->taken_bytes + evbuffer_get_length(stream->input);
}

void stream_set_send_timeout(struct stream *stream, uint64_t timeout_ns)
{
    const unsigned milliseconds = (unsigned)(timeout_ns / 1000000);
    /* Without it, silence counts alone. */
    (void)!setsockopt(stream->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds,
                      sizeof(milliseconds));
}

size_t stream_queued_bytes(const struct stream *stream)
{
    return evbuffer_get_length(stream->output);
}

int stream_peer_address(const struct stream *stream, struct sockaddr_storage *ret_address,
                        socklen_t *ret_bytes)
{
    *ret_bytes = sizeof(*ret_address);
    return getpeername(stream->fd, (struct sockaddr *)ret_address, ret_bytes) < 0 ? -errno : 0;
}

int stream_send(struct stream *stream, uint32_t tag, const void *payload, size_t bytes)
{
    if (stream->state != READY || stream->freed)
        return -ENOTCONN;
    if (bytes > FRAME_PAYLOAD_MAX)
        return -EMSGSIZE;
    struct evbuffer *output = stream->output;
    struct frame_header header;
    if (evbuffer_get_length(output) + sizeof(header) + bytes > STREAM_QUEUE_MAX_BYTES)
        return -ENOBUFS;

    frame_header_fill(&header, tag, (uint32_t)bytes);
    /* Reserves room for both, as a partial frame would corrupt the stream. */
    if (evbuffer_expand(output, sizeof(header) + bytes) < 0 ||
        evbuffer_add(output, &header, sizeof(header)) < 0 ||
        evbuffer_add(output, payload, bytes) < 0)
        return -ENOMEM;
    loop_last(stream->loop, &stream->flush, stream_flush, stream);
    return 0;
}

/* ---- connection ---- */

static void become_ready(struct stream *stream)
{
    stream->state = READY;
    stream->events.ready(stream->events.context);
}

static void shake_hands(struct stream *stream)
{
    const struct tls_result result = tls_handshake(stream->session);
    stream->read_waits_to_write = result.what == TLS_WAITS_TO_WRITE;
    if (result.what == TLS_DONE)
        become_ready(stream);
    else if (result.what == TLS_ENDED)
        stream_end(stream, -ECONNRESET, "it closed the connection during the TLS handshake");
    else if (result.what == TLS_FAILED)
        stream_end(stream, result.error, result.text);
}

/* The connection is established, or has failed. */
static void start(struct stream *stream)
{
    int error = 0, one = 1;
    socklen_t bytes = sizeof(error);
    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
        error = errno;
    if (error) {
        stream_end(stream, -error, strerrordesc_np(error));
        return;
    }
    setsockopt(stream->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* best effort */
    if (!stream->tls) {
        become_ready(stream);
        return;
    }
    stream->session = tls_session_new(stream->tls, stream->accepting, stream->fd);
    stream->state = SHAKING;
    if (!stream->session)
        stream_end(stream, -ENOMEM, "out of memory for a connection");
}

static void on_io(void *context, unsigned events)
{
    struct stream *stream = context;
    stream_enter(stream);
    if (stream->state == STARTING)
        start(stream);
    if (stream->state == SHAKING)
        shake_hands(stream);
    if (stream->state == READY)
        stream_take(stream);
    stream_write(stream);
    stream_listen(stream);
    stream_leave(stream);
}

/* Takes ownership of fd on success only. */
static int stream_new(struct loop *loop, struct tls *tls, bool accepting, int fd,
                      const struct stream_events *events, struct stream **ret_stream)
{
    struct stream *stream = malloc(sizeof(*stream));
    if (!stream)
        return -ENOMEM;
    *stream = (struct stream){
        .loop = loop,
        .tls = tls,
        .accepting = accepting,
        .fd = fd,
        .limit = FRAME_INLINE_MAX,
        .events = *events,
    };
    stream->input = evbuffer_new();
    stream->output = evbuffer_new();
    if (!stream->input || !stream->output ||
        loop_io_new(loop, fd, LOOP_WRITE, on_io, stream, &stream->io) < 0) {
        stream->fd = -1;
        destroy(stream);
        return -ENOMEM;
    }
    *ret_stream = stream;
    return 0;
}

int stream_connect(struct loop *loop, struct tls *tls, int fd, const struct stream_events *events,
                   struct stream **ret_stream)
{
    int r = stream_new(loop, tls, false, fd, events, ret_stream);
    if (r < 0)
        close(fd);
    return r;
}

int stream_accept(struct loop *loop, struct tls *tls, int fd, const struct stream_events *events,
                  struct stream **ret_stream)
{
    int r = stream_new(loop, tls, true, fd, events, ret_stream);
    if (r < 0)
        close(fd);
    return r;
}
