/* What a link writes: heads, copies, bytes straight from sources that are contiguous or have long
 * blocks, packed bytes of others. One write takes as many pieces as there are. */
#include <errno.h>
#include <sys/uio.h>

#include "drivers/tcp/tcp.h"

struct parts {
    struct iovec all[TCP_WRITE_IOVECS];
    int count;
    bool staged; /* no bytes straight from their source */
};

static void add(struct parts *parts, const void *base, size_t bytes)
{
    if (bytes > 0)
        parts->all[parts->count++] = (struct iovec){(void *)base, bytes};
}

/* Of the first byte of the piece. */
static uint64_t source_position(const struct tcp_put *put, const struct tcp_piece *piece)
{
    return piece->head.position_bytes - put->base.shift_bytes;
}

/* Packed bytes of the first piece from `at` on, as many as there is room for. Others have to wait for
 * the rest. */
static size_t stage(struct tcp_link *link, const struct tcp_put *put, const struct tcp_piece *piece,
                    uint64_t at, const uint8_t **ret_bytes)
{
    if (at < link->staged_from || at >= link->staged_to) {
        const uint64_t left = piece->head.length_bytes - at;
        const uint64_t length = left < TCP_STAGING_BYTES ? left : TCP_STAGING_BYTES;
        packed_read(&put->source, link->staging, source_position(put, piece) + at, length);
        link->staged_from = at;
        link->staged_to = at + length;
    }
    *ret_bytes = link->staging + (at - link->staged_from);
    return link->staged_to - at;
}

/* Bytes of the piece where they lie, from `at` on, as many as there is room for. */
static size_t add_straight(const struct tcp_put *put, const struct tcp_piece *piece, size_t at,
                           struct parts *parts)
{
    size_t bytes = 0;
    unsigned count =
        packed_parts(&put->source, source_position(put, piece) + at, piece->head.length_bytes - at,
                     &parts->all[parts->count], (unsigned)(TCP_WRITE_IOVECS - parts->count));
    for (; count > 0; count--)
        bytes += parts->all[parts->count++].iov_len;
    return bytes;
}

/* What is left of a piece, from `skip` on, with its head: false if what comes after it has to wait. */
static bool add_piece(struct tcp_link *link, const struct tcp_piece *piece, size_t skip, bool first,
                      struct parts *parts)
{
    const size_t length = piece->head.length_bytes;
    if (skip < sizeof piece->head)
        add(parts, (const uint8_t *)&piece->head + skip, sizeof piece->head - skip);
    const size_t at = skip < sizeof piece->head ? 0 : skip - sizeof piece->head;
    if (piece->copied) {
        add(parts, link->copies + piece->base.offset + at, length - at);
        return true;
    }
    const struct tcp_put *put = (const struct tcp_put *)piece->base.put;
    const size_t straight = parts->staged ? 0 : add_straight(put, piece, at, parts);
    if (at + straight == length || straight > 0 || !first)
        return at + straight == length;
    const uint8_t *bytes;
    const size_t staged = stage(link, put, piece, at, &bytes);
    add(parts, bytes, staged);
    return at + staged == length;
}

static void written(struct tcp_link *link, size_t bytes)
{
    link->written_bytes += bytes;
    while (link->written < link->window.made) {
        struct tcp_piece *piece = tcp_piece(link, link->written);
        struct window_put *put = piece->base.put;
        const size_t all = sizeof piece->head + piece->head.length_bytes;
        if (link->written_bytes < all)
            return;
        link->written_bytes -= all;
        link->written++;
        link->unwritten -= !piece->copied;
        link->staged_from = link->staged_to = 0;
        if (!piece->copied || !put)
            continue;
        piece->base.put = NULL;
        piece->base.done = true;
        put->pending--;
        window_put_check(put);
    }
}

/* What is to be told of the other direction goes before a piece. */
static size_t add_heads(const struct tcp_link *link, struct tcp_source *source, struct parts *parts)
{
    if (!source || link->written_bytes > 0)
        return 0;
    tcp_source_join(source);
    add(parts, source->outbox, source->outbox_bytes);
    return source->outbox_bytes;
}

/* One write: bytes, or why not. */
static ssize_t write_pieces(struct tcp_link *link, struct parts *parts)
{
    size_t skip = link->written_bytes;
    bool more = true;
    for (uint64_t n = link->written;
         more && n < link->window.made && parts->count + 2 <= TCP_WRITE_IOVECS; n++) {
        more = add_piece(link, tcp_piece(link, n), skip, n == link->written, parts);
        skip = 0;
    }
    return tcp_stream_write(link->stream, parts->all, parts->count);
}

int tcp_link_write(struct tcp_peer *peer)
{
    struct tcp_link *link = &peer->link;
    struct tcp_source *source = peer->source;
    const uint64_t before = link->written;
    bool staged = false;
    int r = link->stream->writable ? tcp_stream_flush(link->stream) : 0;
    if (r < 0 && r != -EAGAIN)
        return r;
    while ((link->written < link->window.made || tcp_source_unsent(source)) &&
           link->stream->writable) {
        struct parts parts; /* 4 KiB: an initialiser would clear them for each write */
        parts.count = 0;
        parts.staged = staged;
        const size_t heads = add_heads(link, source, &parts);
        ssize_t n = write_pieces(link, &parts);
        if (n == -EFAULT && !staged) { /* pages that the source's process has taken away */
            staged = true;
            continue;
        }
        if (n == -EAGAIN)
            break;
        if (n < 0)
            return (int)n;
        staged = false;
        const size_t back = (size_t)n < heads ? (size_t)n : heads;
        if (back > 0)
            tcp_source_sent(source, back);
        written(link, (size_t)n - back);
    }
    return (int)(link->written - before);
}
