/*
 * Streams of frames. A stream first waits until it is connected, then passes its descriptor to a
 * bufferevent.
 *
 * Callbacks may free the stream: `calls` counts active callbacks, and the last one destroys a
 * stream that was freed.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/base/loop_internal.h"
#include "daemon/base/tls.h"
#include "proto/frame.h"

enum { READ_MAX = 256 << 10 }; /* bytes per read or write */

struct stream {
    struct loop *loop;
    struct tls *tls; /* NULL: plain */
    bool accepting;
    int fd;              /* -1 once the bufferevent owns it */
    struct event *start; /* waits until connected */
    struct bufferevent *bev;
    size_t limit;         /* of a payload */
    uint64_t taken_bytes; /* of frames passed to events.frame() */
    bool ready;
    bool over; /* closed() was called */
    bool freed;
    unsigned calls;
    struct stream_events events;
};

static void destroy(struct stream *stream)
{
    if (stream->start)
        event_free(stream->start);
    if (stream->bev)
        bufferevent_free(stream->bev);
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

static void enter(struct stream *stream)
{
    loop_awake(stream->loop);
    stream->calls++;
}

static void leave(struct stream *stream)
{
    if (--stream->calls == 0 && stream->freed)
        destroy(stream);
}

/* Ends the stream, once. Queued frames are still sent until it is freed, so that the peer learns
 * the reason. */
static void end(struct stream *stream, int error, const char *text)
{
    if (stream->over || stream->freed)
        return;
    stream->over = true;
    stream->ready = false;
    if (stream->bev)
        bufferevent_disable(stream->bev, EV_READ);
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
            text, sizeof text,
            "it speaks protocol version %u, this daemon version %d: %s is older, both nodes must "
            "run the same release of tcad",
            header->version, PROTO_VERSION, header->version < PROTO_VERSION ? "it" : "this one");
    else if (!stream->tls && bytes[0] == 0x16 && bytes[1] == 0x03) /* a TLS record */
        snprintf(text, sizeof text,
                 "it uses TLS, this daemon does not: compare control.security of both nodes");
    else
        snprintf(text, sizeof text, "%s", why);
    end(stream, error, text);
    return error;
}

/* Takes a frame from the input. 1: taken; 0: none is complete; negative: the stream has ended. */
static int take_frame(struct stream *stream, struct evbuffer *input)
{
    struct frame_header header;
    if (evbuffer_copyout(input, &header, sizeof header) < (ev_ssize_t)sizeof header) {
        bufferevent_setwatermark(stream->bev, EV_READ, sizeof header, 0);
        return 0;
    }

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

    size_t bytes = sizeof header + header.length_bytes;
    if (evbuffer_get_length(input) < bytes) {
        bufferevent_setwatermark(stream->bev, EV_READ, bytes, 0);
        return 0;
    }
    const uint8_t *frame = evbuffer_pullup(input, (ev_ssize_t)bytes);
    if (!frame) {
        end(stream, -ENOMEM, "out of memory for a frame");
        return -ENOMEM;
    }
    stream->taken_bytes += bytes;
    stream->events.frame(stream->events.context, header.tag, frame + sizeof header,
                         header.length_bytes);
    evbuffer_drain(input, bytes); /* even if freed, the stream exists until leave() */
    return 1;
}

static void on_read(struct bufferevent *bev, void *context)
{
    struct stream *stream = context;

    enter(stream);
    while (!stream->over && !stream->freed && take_frame(stream, bufferevent_get_input(bev)) > 0)
        ;
    leave(stream);
}

void stream_set_limit(struct stream *stream, size_t payload_bytes)
{
    stream->limit = payload_bytes;
}

uint64_t stream_received_bytes(const struct stream *stream)
{
    return stream->taken_bytes +
           (stream->bev ? evbuffer_get_length(bufferevent_get_input(stream->bev)) : 0);
}

void stream_set_send_timeout(struct stream *stream, uint64_t timeout_ns)
{
    const unsigned milliseconds = (unsigned)(timeout_ns / 1000000);
    /* Without it, silence counts alone. */
    (void)!setsockopt(bufferevent_getfd(stream->bev), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds,
                      sizeof milliseconds);
}

size_t stream_queued_bytes(const struct stream *stream)
{
    return stream->bev ? evbuffer_get_length(bufferevent_get_output(stream->bev)) : 0;
}

int stream_peer_address(const struct stream *stream, struct sockaddr_storage *ret_address,
                        socklen_t *ret_bytes)
{
    const int fd = stream->bev ? bufferevent_getfd(stream->bev) : stream->fd;
    *ret_bytes = sizeof *ret_address;
    return getpeername(fd, (struct sockaddr *)ret_address, ret_bytes) < 0 ? -errno : 0;
}

int stream_send(struct stream *stream, uint32_t tag, const void *payload, size_t bytes)
{
    if (!stream->ready || stream->freed)
        return -ENOTCONN;
    if (bytes > FRAME_PAYLOAD_MAX)
        return -EMSGSIZE;
    struct evbuffer *output = bufferevent_get_output(stream->bev);
    struct frame_header header;
    if (evbuffer_get_length(output) + sizeof header + bytes > STREAM_QUEUE_MAX_BYTES)
        return -ENOBUFS;

    frame_header_fill(&header, tag, (uint32_t)bytes);
    /* Reserves room for both, as a partial frame would corrupt the stream. */
    if (evbuffer_expand(output, sizeof header + bytes) < 0 ||
        evbuffer_add(output, &header, sizeof header) < 0 ||
        evbuffer_add(output, payload, bytes) < 0)
        return -ENOMEM;
    return 0;
}

/* ---- connection ---- */

static void become_ready(struct stream *stream)
{
    stream->ready = true;
    bufferevent_enable(stream->bev, EV_READ | EV_WRITE);
    stream->events.ready(stream->events.context);
}

static void on_error(struct stream *stream, int socket_error)
{
    unsigned long tls_error = stream->tls ? bufferevent_get_openssl_error(stream->bev) : 0;
    const char *text;

    if (tls_error) {
        int error = tls_explain(tls_error, &text);
        /* After the handshake, what breaks TLS is not the other side's doing. */
        end(stream, stream->ready ? -ECONNRESET : error, text);
        return;
    }
    if (socket_error == 0)
        socket_error = ECONNRESET;
    text = strerrordesc_np(socket_error);
    end(stream, -socket_error, text ? text : "connection lost");
}

static void on_event(struct bufferevent *bev, short what, void *context)
{
    struct stream *stream = context;
    int socket_error = EVUTIL_SOCKET_ERROR();

    enter(stream);
    if (stream->freed || stream->over)
        ;
    else if (what & BEV_EVENT_CONNECTED) {
        if (tls_proven(bufferevent_openssl_get_ssl(bev)))
            become_ready(stream);
        else
            end(stream, -EACCES, "it did not authenticate with the cluster key");
    } else if (what & BEV_EVENT_EOF)
        end(stream, -ECONNRESET,
            stream->ready ? "it closed the connection"
                          : "it closed the connection during the TLS handshake");
    else if (what & BEV_EVENT_ERROR)
        on_error(stream, socket_error);
    leave(stream);
}

static int make_bufferevent(struct stream *stream)
{
    if (stream->tls) {
        struct ssl_st *session = tls_session_new(stream->tls, stream->accepting);
        if (!session)
            return -ENOMEM;
        /* takes ownership of the session, even if it fails */
        stream->bev = bufferevent_openssl_socket_new(loop_base(stream->loop), stream->fd, session,
                                                     stream->accepting ? BUFFEREVENT_SSL_ACCEPTING
                                                                       : BUFFEREVENT_SSL_CONNECTING,
                                                     BEV_OPT_CLOSE_ON_FREE);
        if (stream->bev)
            bufferevent_openssl_set_allow_dirty_shutdown(
                stream->bev, 1); /* safe: frames have lengths, so truncation is detected */
    } else {
        stream->bev =
            bufferevent_socket_new(loop_base(stream->loop), stream->fd, BEV_OPT_CLOSE_ON_FREE);
    }
    if (!stream->bev)
        return -ENOMEM;
    stream->fd = -1;
    bufferevent_set_max_single_read(stream->bev, READ_MAX);
    bufferevent_set_max_single_write(stream->bev, READ_MAX);
    bufferevent_setcb(stream->bev, on_read, NULL, on_event, stream);
    return 0;
}

/* The connection is established, or has failed. */
static void on_start(int fd, short what, void *context)
{
    struct stream *stream = context;
    int error = 0, one = 1;
    socklen_t bytes = sizeof error;

    enter(stream);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
        error = errno;
    if (error) {
        end(stream, -error, strerrordesc_np(error));
    } else {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* best effort */
        if (make_bufferevent(stream) < 0)
            end(stream, -ENOMEM, "out of memory for a connection");
        else if (!stream->tls)
            become_ready(stream);
    }
    leave(stream);
}

/* Takes ownership of fd on success only. */
static int stream_new(struct loop *loop, struct tls *tls, bool accepting, int fd,
                      const struct stream_events *events, struct stream **ret_stream)
{
    struct stream *stream = malloc(sizeof *stream);
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
    stream->start = event_new(loop_base(stream->loop), fd, EV_WRITE, on_start, stream);
    if (!stream->start || event_add(stream->start, NULL) < 0) {
        stream->fd = -1;
        destroy(stream);
        return -ENOMEM;
    }
    *ret_stream = stream;
    return 0;
}

int stream_connect(struct loop *loop, struct tls *tls, const struct sockaddr *address,
                   socklen_t address_bytes, const struct stream_events *events,
                   struct stream **ret_stream)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int r = 0;
    if (connect(fd, address, address_bytes) < 0 && errno != EINPROGRESS)
        r = -errno;
    if (r == 0)
        r = stream_new(loop, tls, false, fd, events, ret_stream);
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
