/* What comes back on a link: how much was received, and what was for landings that are gone. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "drivers/tcp/tcp.h"

/* The landing of a piece that was received is gone: its put makes no more pieces. */
static void set_stale(struct window_put *put)
{
    if (put) {
        put->stale = true;
        put->error = -ESTALE;
    }
}

int tcp_link_take(struct tcp_link *link, const struct tcp_head *head)
{
    const bool within = head->number >= link->window.counted && head->number <= link->written;
    if (head->kind == TCP_STALE && within && head->number < link->written)
        set_stale(window_piece(&link->window, head->number)->put);
    else if (head->kind == TCP_RECEIVED && within)
        window_count(&link->window, head->number);
    else
        return -EPROTO;
    return 0;
}

static int take_heads(struct tcp_link *link)
{
    struct tcp_head head;
    size_t at = 0;
    int r = 0;
    for (; r == 0 && link->inbox_bytes - at >= sizeof head; at += sizeof head) {
        memcpy(&head, link->inbox + at, sizeof head);
        r = tcp_link_take(link, &head);
    }
    link->inbox_bytes -= at;
    memmove(link->inbox, link->inbox + at, link->inbox_bytes);
    return r;
}

int tcp_link_read(struct tcp_peer *peer)
{
    struct tcp_link *link = &peer->link;
    const uint64_t before = link->window.counted;
    const bool awaited = link->telling > before;
    if (peer->source) { /* which reads for both */
        if (awaited || link->stream->readable)
            tcp_source_heat(peer->driver, peer->source);
        return 0;
    }
    /* With an end of a put to come soon it is looked for, else epoll tells of it. */
    if (!link->stream->readable && !awaited)
        return 0;
    do {
        const struct iovec part = {link->inbox + link->inbox_bytes,
                                   sizeof link->inbox - link->inbox_bytes};
        ssize_t n = tcp_stream_read(link->stream, &part, 1);
        if (n == -EAGAIN)
            break;
        if (n > 0)
            link->inbox_bytes += (size_t)n;
        int r = n < 0 ? (int)n : take_heads(link);
        if (r < 0)
            return r;
    } while (link->stream->readable);
    return (int)(link->window.counted - before);
}
