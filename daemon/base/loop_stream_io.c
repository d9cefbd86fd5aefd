/* Streams: reading and writing the socket, with or without TLS. */
#include <errno.h>
#include <event2/buffer.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/loop_stream.h"
#include "daemon/base/tls.h"

enum {
    READ_BYTES = 16 << 10, /* at once: a TLS record */
    WRITE_BYTES = 16 << 10,
    TURN_BYTES = 256 << 10, /* read, or written, before other streams have their turn */
};

static bool has_data(const struct stream *stream)
{
    return stream->session && tls_has_data(stream->session);
}

static struct tls_result plain_result(ssize_t n, int waits)
{
    if (n > 0)
        return (struct tls_result){.what = TLS_DONE, .bytes = (size_t)n};
    if (n == 0)
        return (struct tls_result){.what = TLS_ENDED};
    if (errno == EAGAIN || errno == EINTR)
        return (struct tls_result){.what = waits};
    return (struct tls_result){.what = TLS_FAILED, .error = -errno, .text = strerrordesc_np(errno)};
}

static struct tls_result receive(struct stream *stream, void *bytes, size_t room)
{
    return stream->session ? tls_read(stream->session, bytes, room)
                           : plain_result(read(stream->fd, bytes, room), TLS_WAITS_TO_READ);
}

static struct tls_result transmit(struct stream *stream)
{
    const size_t queued = evbuffer_get_length(stream->output);
    const size_t count = queued < WRITE_BYTES ? queued : WRITE_BYTES;
    const void *bytes = evbuffer_pullup(stream->output, (ev_ssize_t)count);
    if (!bytes)
        return (struct tls_result){.what = TLS_FAILED, .error = -ENOMEM, .text = "out of memory"};
    return stream->session ? tls_write(stream->session, bytes, count)
                           : plain_result(write(stream->fd, bytes, count), TLS_WAITS_TO_WRITE);
}

static void end_of_file(struct stream *stream)
{
    stream_end(stream, -ECONNRESET, "it closed the connection");
}

static void read_on(void *context);

static void read_later(struct stream *stream)
{
    if (!stream_is_active(stream) || stream->reads_on)
        return;
    stream->reads_on = true;
    stream->calls++; /* until read_on() */
    loop_post_own(stream->loop, &stream->more, read_on, stream);
}

void stream_take(struct stream *stream)
{
    uint8_t bytes[READ_BYTES];
    size_t count = 0;
    stream->read_waits_to_write = false;
    while (stream_is_active(stream) && count < TURN_BYTES) {
        const struct tls_result result = receive(stream, bytes, sizeof(bytes));
        stream->read_waits_to_write = result.what == TLS_WAITS_TO_WRITE;
        if (result.what == TLS_ENDED)
            end_of_file(stream);
        else if (result.what == TLS_FAILED)
            stream_end(stream, result.error, result.text);
        else if (result.what == TLS_DONE && evbuffer_add(stream->input, bytes, result.bytes) < 0)
            stream_end(stream, -ENOMEM, "out of memory for a frame");
        while (stream_is_active(stream) && stream_take_frame(stream) > 0)
            ;
        if (result.what != TLS_DONE || (result.bytes < sizeof(bytes) && !has_data(stream)))
            return;
        count += result.bytes;
    }
    read_later(stream);
}

/* What the peer has sent before it closed the connection says why. */
static void fail_write(struct stream *stream, const struct tls_result *result)
{
    evbuffer_drain(stream->output, evbuffer_get_length(stream->output));
    if (stream->state == READY)
        stream_take(stream);
    if (result->what == TLS_FAILED)
        stream_end(stream, result->error, result->text);
    else
        end_of_file(stream);
}

void stream_write(struct stream *stream)
{
    size_t count = 0;
    stream->write_waits_to_read = false;
    while (!stream->freed && count < TURN_BYTES && evbuffer_get_length(stream->output) > 0) {
        const struct tls_result result = transmit(stream);
        stream->write_waits_to_read = result.what == TLS_WAITS_TO_READ;
        if (result.what == TLS_FAILED || result.what == TLS_ENDED)
            fail_write(stream, &result);
        if (result.what != TLS_DONE)
            return;
        evbuffer_drain(stream->output, result.bytes);
        count += result.bytes;
    }
}

void stream_listen(struct stream *stream)
{
    const bool queued = evbuffer_get_length(stream->output) > 0;
    unsigned events = 0;
    if (stream->freed)
        return;
    if (stream->state == STARTING)
        events = LOOP_WRITE;
    else if (stream->state != OVER)
        events = stream->read_waits_to_write ? LOOP_WRITE : LOOP_READ;
    if (queued)
        events |= stream->write_waits_to_read ? LOOP_READ : LOOP_WRITE;
    if (loop_io_set(stream->io, events) < 0)
        stream_end(stream, -ENOMEM, "out of memory for a connection");
}

static void read_on(void *context)
{
    struct stream *stream = context;
    loop_awake(stream->loop);
    stream->reads_on = false;
    if (stream->state == READY)
        stream_take(stream);
    stream_listen(stream);
    stream_leave(stream);
}

void stream_flush(void *context)
{
    struct stream *stream = context;
    stream_enter(stream);
    stream_write(stream);
    stream_listen(stream);
    stream_leave(stream);
}
