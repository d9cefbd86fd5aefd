/* Connections that were made elsewhere. They open with a welcome alone, inside TLS if that is wanted:
 * whoever handed them over knows both ends. */
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

int tcp_seat_peer(struct driver *driver, struct driver_peer **ret_peer)
{
    struct tcp_peer *peer = tcp_peer_new(tcp_of(driver));
    if (!peer)
        return -ENOMEM;
    peer->adopted = true;
    tcp_link_broken(peer, clock_now_ns());
    *ret_peer = (struct driver_peer *)peer;
    return 0;
}

/* own_secret: where the stream finds it while it is open. */
static int adopt(struct tcp_driver *tcp, struct tcp_stream *stream, enum tcp_role role, int fd,
                 const uint8_t *secret, uint8_t own_secret[TCP_SECRET_BYTES])
{
    const int flags = fcntl(fd, F_GETFL);
    int r = flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
    if (r == 0)
        r = tcp_stream_init(tcp, stream, role, fd);
    if (r < 0) {
        close(fd);
        stream->fd = -1;
        return r;
    }
    if (!secret)
        return 0;
    memcpy(own_secret, secret, TCP_SECRET_BYTES);
    return tcp_stream_encrypt(tcp, stream, role == TCP_SOURCE, own_secret);
}

int tcp_adopt_link(struct driver *driver, struct driver_peer *driver_peer, int fd,
                   const uint8_t *secret)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    struct tcp_link *link = &peer->link;
    const uint64_t now_ns = clock_now_ns();
    if (peer->error < 0) {
        close(fd);
        return peer->error;
    }
    tcp_link_broken(peer, now_ns);
    int r = adopt(tcp_of(driver), &link->stream, TCP_LINK, fd, secret, peer->address.secret);
    if (r < 0) {
        tcp_link_broken(peer, now_ns);
        return r;
    }
    link->state = TCP_LINK_CONNECTING;
    link->retry_ns = link->broken_ns = 0; /* the other process may be busy for long */
    return 0;
}

void tcp_abandon_link(struct driver *driver, struct driver_peer *driver_peer, int error)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    peer->told = true;
    tcp_peer_lose(peer, error);
}

void tcp_push(struct driver *driver)
{
    for (struct tcp_peer *peer = tcp_of(driver)->active; peer; peer = peer->next_active) {
        if (peer->failed < 0 || peer->link.state != TCP_LINK_UP)
            continue;
        tcp_puts_pump(peer, TCP_PUSH_PIECES);
        tcp_link_write(&peer->link); /* an error comes again in the next round, which takes it */
    }
}

bool tcp_link_delivered(struct driver *driver, struct driver_peer *driver_peer)
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
           tcp_stream_flush(&link->stream) == 0 && ioctl(link->stream.fd, SIOCOUTQ, &unsent) == 0 &&
           unsent == 0;
}

static struct tcp_source *source_of(const struct tcp_driver *tcp, uint64_t grant)
{
    struct tcp_source *source = tcp->sources;
    while (source && source->grant != grant)
        source = source->next;
    return source;
}

void tcp_drop_source(struct driver *driver, uint64_t grant)
{
    struct tcp_source *source = source_of(tcp_of(driver), grant);
    if (source)
        tcp_source_free(tcp_of(driver), source);
}

int tcp_adopt_source(struct driver *driver, uint64_t grant, int fd, const uint8_t *secret)
{
    struct tcp_driver *tcp = tcp_of(driver);
    struct tcp_source *source = source_of(tcp, grant);
    const uint64_t now_ns = clock_now_ns();
    assert(grant != 0);
    const bool known = source != NULL;
    if (!source && !(source = tcp_source_new(tcp))) {
        close(fd);
        return -ENOBUFS;
    }
    source->grant = grant;
    tcp_source_disconnect(tcp, source, now_ns);
    int r = adopt(tcp, &source->stream, TCP_SOURCE, fd, secret, source->secret);
    if (r < 0) {
        tcp_source_disconnect(tcp, source, now_ns);
        return r;
    }
    source->broken_ns = 0;
    source->greeting = true;
    source->known = known;
    return 0;
}

int tcp_source_greet(struct tcp_source *source)
{
    const struct tcp_welcome welcome = {
        .magic = TCP_WELCOME_MAGIC, .known = source->known, .received = source->credits.counted};
    int r = tcp_stream_handshake(&source->stream);
    if (r == 0)
        r = tcp_stream_say(&source->stream, &welcome, sizeof welcome);
    source->greeting = r < 0;
    return r;
}
