/* What comes back on a link: how much was received, and what was for landings that are gone. */
#include <errno.h>
#include <string.h>

#include "drivers/tcp/tcp.h"

/* The landing of a piece that was received is gone: its put makes no more pieces. */
static void set_stale(struct window_put *put)
{
    if (put) {
        put->stale = true;
        put->error = -ESTALE;
    }
}

static int take(struct tcp_link *link, const struct tcp_head *head)
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

int tcp_link_read(struct tcp_peer *peer)
{
    struct tcp_link *link = &peer->link;
    const uint64_t before = link->window.counted;
    /* With an end of a put to come soon it is looked for, else epoll tells of it. */
    if (!link->stream.readable && link->telling <= link->window.counted)
        return 0;
    for (;;) {
        struct tcp_head head;
        int r = tcp_stream_fill(&link->stream, link->inbox, &link->inbox_bytes, sizeof head);
        if (r == -EAGAIN)
            return (int)(link->window.counted - before);
        if (r == 0) {
            memcpy(&head, link->inbox, sizeof head);
            link->inbox_bytes = 0;
            r = take(link, &head);
        }
        if (r < 0)
            return r;
    }
}
