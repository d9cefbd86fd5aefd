/* What a source tells its sender: how much it has received, and what was for landings that are gone. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "drivers/tcp/tcp.h"

int tcp_source_reply(struct tcp_source *source, enum tcp_kind kind, uint64_t number)
{
    const struct tcp_head head = {.kind = kind, .number = number};
    if (TCP_OUTBOX_BYTES - source->outbox_bytes < sizeof head)
        return -ENOBUFS; /* the sender reads nothing */
    memcpy(source->outbox + source->outbox_bytes, &head, sizeof head);
    source->outbox_bytes += sizeof head;
    return 0;
}

void tcp_source_sent(struct tcp_source *source, size_t bytes)
{
    source->outbox_bytes -= bytes;
    memmove(source->outbox, source->outbox + bytes, source->outbox_bytes);
    source->telling &= source->outbox_bytes > 0;
}

static int flush(struct tcp_source *source)
{
    while (source->outbox_bytes > 0) {
        const struct iovec part = {source->outbox, source->outbox_bytes};
        ssize_t n = tcp_stream_write(&source->stream, &part, 1);
        if (n < 0)
            return n == -EAGAIN ? 0 : (int)n;
        tcp_source_sent(source, (size_t)n);
    }
    source->telling = false;
    return 0;
}

static int add_count(struct tcp_source *source)
{
    int r = tcp_source_reply(source, TCP_RECEIVED, source->credits.counted);
    if (r < 0)
        return r;
    source->tell_ns = 0;
    source->telling = true;
    credits_reported(&source->credits);
    return 0;
}

/* The link that shares the connection may be within a piece: the count is made when it is not. */
static int count_later(struct tcp_source *source)
{
    source->due = true;
    source->tell_ns = 0;
    int r = tcp_link_write(source->peer);
    if (tcp_source_unsent(source))
        tcp_peer_activate(source->peer);
    return r < 0 ? r : 0;
}

int tcp_source_count(struct tcp_source *source, uint64_t now_ns)
{
    if (source->peer)
        return count_later(source);
    int r = source->telling ? flush(source) : 0;
    if (r < 0)
        return r;
    if (source->telling) { /* the sender does not read: once more, with a later count */
        source->tell_ns = now_ns + TCP_TELL_MS * TCP_MS;
        return 0;
    }
    r = add_count(source);
    return r < 0 ? r : flush(source);
}

void tcp_source_join(struct tcp_source *source)
{
    source->due |= credits_due(&source->credits, TCP_TELL_PIECES / 2, TCP_TELL_BYTES / 2);
    if (source->due && !source->telling)
        source->due = add_count(source) < 0;
}

void tcp_source_tell(struct tcp_driver *tcp, struct tcp_source *source, uint64_t now_ns)
{
    int r = source->stream.fd < 0 ? 0 : tcp_source_count(source, now_ns);
    if (r < 0)
        tcp_source_disconnect(tcp, source, r, now_ns);
}
