/* Connections that were made elsewhere. They open with a welcome from each end, inside TLS if that is
 * wanted: whoever handed them over knows both ends. */
#include "drivers/tcp/adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "drivers/tcp/tcp.h"
#include "proto/wait.h"

int tcp_seat_open(const struct driver_events *events, struct driver **ret_driver)
{
    struct tcp_driver *tcp;
    int r = tcp_instance_new(events, &tcp);
    if (r == 0)
        *ret_driver = &tcp->driver;
    return r;
}

int tcp_seat_peer(struct driver *driver, uint64_t grant, struct driver_peer **ret_peer)
{
    struct tcp_driver *tcp = tcp_of(driver);
    assert(grant != 0);
    struct tcp_source *source = tcp_source_new(tcp);
    if (!source)
        return -ENOBUFS;
    struct tcp_peer *peer = tcp_peer_new(tcp);
    if (!peer) {
        tcp_source_free(tcp, source);
        return -ENOMEM;
    }
    source->grant = grant;
    source->peer = peer;
    peer->source = source;
    peer->link.stream = &source->stream;
    tcp_link_broken(peer, clock_now_ns());
    *ret_peer = (struct driver_peer *)peer;
    return 0;
}

/* Takes over the descriptor. */
static int open_stream(struct tcp_peer *peer, int fd, bool dialled, bool kernel,
                       const uint8_t *secret)
{
    struct tcp_stream *stream = peer->link.stream;
    const int flags = fcntl(fd, F_GETFL);
    int r = flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
    if (r == 0)
        r = tcp_stream_init(peer->driver, stream, TCP_SOURCE, fd);
    if (r < 0) {
        close(fd);
        stream->fd = -1;
        return r;
    }
    if (!secret)
        return 0;
    memcpy(peer->address.secret, secret, TCP_SECRET_BYTES);
    return tcp_stream_encrypt(peer->driver, stream, dialled ? TCP_END_DIALS : TCP_END_LISTENS,
                              kernel, peer->address.secret);
}

int tcp_adopt(struct driver *driver, struct driver_peer *driver_peer, int fd, bool dialled,
              bool kernel, const uint8_t *secret)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    struct tcp_link *link = &peer->link;
    const uint64_t now_ns = clock_now_ns();
    if (peer->error < 0) {
        close(fd);
        return peer->error;
    }
    tcp_link_broken(peer, now_ns);
    int r = open_stream(peer, fd, dialled, kernel, secret);
    if (r < 0) {
        tcp_link_broken(peer, now_ns);
        return r;
    }
    link->state = TCP_LINK_CONNECTING;
    link->retry_ns = link->broken_ns = 0; /* the other process may be busy for long */
    return 0;
}

void tcp_abandon(struct driver *driver, struct driver_peer *driver_peer, int error)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    peer->told = true;
    tcp_peer_lose(peer, error);
}

/* The first piece after a round is written at once. Short ones that follow it gather: one write for
 * many, in the next round. If that comes late, because the process computes, they would have done
 * better without. */
static bool gathers(const struct tcp_link *link)
{
    const uint64_t kept = link->window.made - link->written;
    return link->pushed && link->hurry == 0 && kept > 0 && kept < TCP_GATHER_PIECES &&
           link->unwritten == 0 &&
           tcp_piece(link, link->window.made - 1)->head.length_bytes <= TCP_GATHER_BYTES;
}

void tcp_burst_over(struct tcp_link *link, uint64_t now_ns)
{
    if (link->kept_ns != 0 && now_ns - link->kept_ns > TCP_GATHER_US * UINT64_C(1000))
        link->hurry = TCP_HURRY_BURSTS;
    else if (link->hurry > 0 && link->pushed)
        link->hurry--;
    link->pushed = false;
    link->kept_ns = 0;
}

void tcp_push(struct driver *driver)
{
    for (struct tcp_peer *peer = tcp_of(driver)->active; peer; peer = peer->next_active) {
        if (peer->failed < 0 || peer->link.state != TCP_LINK_UP)
            continue;
        struct tcp_link *link = &peer->link;
        tcp_puts_pump(peer, TCP_PUSH_PIECES);
        if (gathers(link)) {
            link->kept_ns = link->kept_ns ? link->kept_ns : clock_now_ns();
            continue;
        }
        /* an error comes again in the next round, which takes it */
        link->pushed |= tcp_link_write(peer) > 0;
        link->kept_ns = 0;
    }
}

bool tcp_delivered(struct driver *driver, struct driver_peer *driver_peer)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    struct tcp_link *link = &peer->link;
    const struct window *window = &link->window;
    int unsent;
    if (peer->error < 0)
        return true;
    if (window_next_put(window))
        return false;
    if (window->counted == window->made)
        return true;
    if (link->telling < window->made) {
        link->ask = true;
        tcp_peer_activate(peer);
    }
    return link->state == TCP_LINK_UP && link->written == window->made &&
           tcp_stream_flush(link->stream) == 0 && ioctl(link->stream->fd, SIOCOUTQ, &unsent) == 0 &&
           unsent == 0;
}

int tcp_source_greet(struct tcp_source *source)
{
    const struct tcp_welcome welcome = {
        .magic = TCP_WELCOME_MAGIC, .known = source->known, .received = source->credits.counted};
    source->known = true;
    return tcp_stream_say(&source->stream, &welcome, sizeof welcome);
}
