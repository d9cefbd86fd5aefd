/* What comes back on a link: how much was received, and what was for landings that are gone. */
#include <errno.h>
#include <string.h>

#include "drivers/tcp/tcp.h"

void tcp_link_counted(struct tcp_peer *peer, uint64_t counted)
{
    struct tcp_link *link = &peer->link;
    while (link->counted < counted) {
        struct tcp_piece *piece = &link->pieces[link->counted % TCP_WINDOW];
        struct tcp_put *put = piece->put;
        link->copies_tail = piece->copy_end;
        link->counted++;
        piece->put = NULL;
        if (!put)
            continue;
        put->outstanding--;
        tcp_put_end_if_over(put);
    }
    flushes_complete(&peer->flushes, link->counted);
}

/* The landing of a piece that was received is gone. What the put has not made yet is not made. */
static void stale(struct tcp_link *link, uint64_t number)
{
    struct tcp_put *put = link->pieces[number % TCP_WINDOW].put;
    if (put)
        put->stale = true;
}

static int take(struct tcp_peer *peer, const struct tcp_head *head)
{
    struct tcp_link *link = &peer->link;
    const bool within = head->number >= link->counted && head->number <= link->written;
    if (head->kind == TCP_STALE && within && head->number < link->written)
        stale(link, head->number);
    else if (head->kind == TCP_RECEIVED && within)
        tcp_link_counted(peer, head->number);
    else
        return -EPROTO;
    return 0;
}

int tcp_link_read(struct tcp_peer *peer)
{
    struct tcp_link *link = &peer->link;
    const uint64_t before = link->counted;
    /* With an end of a put to come soon it is looked for, else epoll tells of it. */
    if (!link->stream.readable && link->telling <= link->counted)
        return 0;
    for (;;) {
        struct tcp_head head;
        int r = tcp_stream_fill(&link->stream, link->inbox, &link->inbox_bytes, sizeof head);
        if (r == -EAGAIN)
            return (int)(link->counted - before);
        if (r == 0) {
            memcpy(&head, link->inbox, sizeof head);
            link->inbox_bytes = 0;
            r = take(peer, &head);
        }
        if (r < 0)
            return r;
    }
}
