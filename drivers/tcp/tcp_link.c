/* The sending end of a connection: made when something is put, made again when it breaks. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/patience.h"
#include "drivers/tcp/tcp.h"

/* ---- pieces ---- */

static int allocate(struct tcp_link *link)
{
    if (link->window.pieces)
        return 0;
    link->window.pieces = calloc(TCP_WINDOW, sizeof(struct tcp_piece));
    link->copies = malloc(TCP_COPIES_BYTES);
    link->staging = malloc(TCP_STAGING_BYTES);
    if (link->window.pieces && link->copies && link->staging &&
        tcp_random(&link->number, sizeof link->number) == 0)
        return 0;
    tcp_link_free(link);
    return -ENOMEM;
}

void tcp_link_free(struct tcp_link *link)
{
    free(link->window.pieces);
    free(link->copies);
    free(link->staging);
    link->window.pieces = NULL;
    link->copies = link->staging = NULL;
}

struct tcp_piece *tcp_link_piece(struct tcp_link *link, uint32_t copy_bytes)
{
    return allocate(link) < 0 ? NULL : (struct tcp_piece *)window_next(&link->window, copy_bytes);
}

/* ---- connecting ---- */

socklen_t tcp_socket_address(const struct tcp_address *address, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof *ret);
    if (address->family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)ret;
        in->sin_family = AF_INET;
        in->sin_port = htons(address->port);
        memcpy(&in->sin_addr, address->host, sizeof in->sin_addr);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(address->port);
    memcpy(&in6->sin6_addr, address->host, sizeof in6->sin6_addr);
    return sizeof *in6;
}

static int connect_socket(struct tcp_peer *peer)
{
    struct sockaddr_storage to;
    const socklen_t bytes = tcp_socket_address(&peer->address, &to);
    const int one = 1;
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int r =
        connect(fd, (const struct sockaddr *)&to, bytes) < 0 && errno != EINPROGRESS ? -errno : 0;
    if (r == 0)
        r = tcp_stream_init(peer->driver, peer->link.stream, TCP_LINK, fd);
    if (r < 0) {
        close(fd);
        peer->link.stream->fd = -1;
        return r;
    }
    if (peer->address.encrypts)
        r = tcp_stream_encrypt(peer->driver, peer->link.stream, TCP_END_LINK,
                               peer->driver->kernel_tls, peer->address.secret);
    return r;
}

void tcp_link_broken(struct tcp_peer *peer, uint64_t now_ns)
{
    struct tcp_link *link = &peer->link;
    if (peer->source)
        tcp_source_reset(peer->driver, peer->source);
    tcp_stream_close(link->stream);
    link->state = TCP_LINK_BROKEN;
    link->retry_ms = link->retry_ms == 0 ? TCP_RETRY_MS : link->retry_ms * 2;
    if (link->retry_ms > TCP_RETRY_MAX_MS)
        link->retry_ms = TCP_RETRY_MAX_MS;
    link->retry_ns = now_ns + link->retry_ms * TCP_MS;
    if (link->broken_ns == 0)
        link->broken_ns = now_ns;
    if (peer->source) /* nothing to try: it is lost, or given another connection before */
        link->retry_ns = link->broken_ns + (TCP_LOST_MS + 1) * TCP_MS;
    link->inbox_bytes = 0;
    tcp_peer_activate(peer);
}

void tcp_link_breaks(struct tcp_peer *peer, int error, uint64_t now_ns)
{
    const struct driver_events *events = &peer->driver->driver.events;
    const bool adopted = peer->source && peer->source->stream.fd >= 0;
    tcp_link_broken(peer, now_ns);
    if (adopted && events->peer_broken)
        events->peer_broken(events->context, (struct driver_peer *)peer, error);
}

/* ---- the first words ---- */

static int take_challenge(struct tcp_peer *peer)
{
    struct tcp_link *link = &peer->link;
    struct tcp_challenge challenge;
    int r = tcp_stream_fill(link->stream, link->inbox, &link->inbox_bytes, sizeof challenge);
    if (r < 0)
        return r;
    memcpy(&challenge, link->inbox, sizeof challenge);
    link->inbox_bytes = 0;
    if (challenge.magic != TCP_CHALLENGE_MAGIC || challenge.version != TCP_WIRE_VERSION)
        return -EPROTO;
    memcpy(link->challenge, challenge.nonce, sizeof link->challenge);

    struct tcp_hello hello = {.magic = TCP_HELLO_MAGIC,
                              .version = TCP_WIRE_VERSION,
                              .known = link->known,
                              .id = peer->driver->address.id,
                              .link = link->number};
    r = tcp_random(link->nonce, sizeof link->nonce);
    if (r < 0)
        return r;
    memcpy(hello.nonce, link->nonce, sizeof hello.nonce);
    const struct tcp_signature listener =
        tcp_sign_hello(peer->address.secret, link->challenge, &hello);
    const struct tcp_signature own =
        tcp_sign_hello(peer->driver->address.secret, link->challenge, &hello);
    memcpy(hello.by_listener, listener.bytes, sizeof hello.by_listener);
    memcpy(hello.by_sender, own.bytes, sizeof hello.by_sender);
    return tcp_stream_say(link->stream, &hello, sizeof hello);
}

/* -ENETRESET: what it had received before is not known there any more. */
static int take_welcome(struct tcp_peer *peer)
{
    struct tcp_link *link = &peer->link;
    struct tcp_welcome welcome;
    int r = tcp_stream_fill(link->stream, link->inbox, &link->inbox_bytes, sizeof welcome);
    if (r < 0)
        return r;
    memcpy(&welcome, link->inbox, sizeof welcome);
    link->inbox_bytes = 0;
    const struct tcp_signature signature =
        tcp_sign_welcome(peer->address.secret, link->nonce, &welcome);
    if (welcome.magic != TCP_WELCOME_MAGIC ||
        (!peer->source && !tcp_signed(welcome.by_listener, &signature)))
        return -EPROTO;
    if (link->known && !welcome.known)
        return -ENETRESET;
    if (welcome.received < link->window.counted || welcome.received > link->written)
        return -EPROTO;
    link->known = true;
    window_count(&link->window, welcome.received);
    return 0;
}

static void up(struct tcp_link *link)
{
    link->state = TCP_LINK_UP;
    link->broken_ns = link->retry_ms = 0;
    /* what was written and not counted goes again */
    for (uint64_t n = link->window.counted; n < link->written; n++)
        link->unwritten += !tcp_piece(link, n)->copied;
    link->written = link->window.counted;
    link->written_bytes = 0;
    link->staged_from = link->staged_to = 0;
}

/* One state further: 0, -EAGAIN or why not. */
static int open_further(struct tcp_peer *peer)
{
    struct tcp_link *link = &peer->link;
    int r, error;
    socklen_t bytes = sizeof error;
    switch (link->state) {
    case TCP_LINK_IDLE:
    case TCP_LINK_BROKEN:
        r = connect_socket(peer);
        link->state = TCP_LINK_CONNECTING;
        return r;
    case TCP_LINK_CONNECTING:
        if (!link->stream->writable)
            return -EAGAIN;
        r = getsockopt(link->stream->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0 ? -errno
                                                                                   : -error;
        if (r == 0)
            r = tcp_stream_handshake(link->stream);
        if (r == 0)
            link->state = peer->source ? TCP_LINK_GREETING : TCP_LINK_CHALLENGED;
        if (r == 0 && peer->source)
            r = tcp_source_greet(peer->source);
        return r;
    case TCP_LINK_CHALLENGED:
        r = take_challenge(peer);
        if (r == 0)
            link->state = TCP_LINK_GREETING;
        return r;
    case TCP_LINK_GREETING:
        r = take_welcome(peer);
        if (r == 0)
            up(link);
        return r;
    case TCP_LINK_UP:
        break;
    }
    return 0;
}

static void open_link(struct tcp_peer *peer, uint64_t now_ns)
{
    struct tcp_link *link = &peer->link;
    int r = 0;
    if (link->state == TCP_LINK_BROKEN && (peer->source || now_ns < link->retry_ns))
        return;
    if (link->state == TCP_LINK_IDLE || link->state == TCP_LINK_BROKEN) {
        link->retry_ns = now_ns + TCP_OPENING_MS * TCP_MS; /* of this attempt */
        if (link->broken_ns == 0)
            link->broken_ns = now_ns;
    } else if (!peer->source && now_ns >= link->retry_ns) {
        r = -ETIMEDOUT;
    }
    while (r == 0 && link->state != TCP_LINK_UP)
        r = open_further(peer);
    if (r == -ENETRESET)
        tcp_peer_lose(peer, -ENETDOWN);
    else if (r < 0 && r != -EAGAIN)
        tcp_link_breaks(peer, r, now_ns);
}

/* A piece of nothing, behind which the source tells how much it has received. */
static void ask(struct tcp_link *link)
{
    struct tcp_piece *piece = tcp_link_piece(link, 0);
    if (!piece)
        return; /* the window is full: counts are to come anyway */
    piece->copied = true;
    piece->head =
        (struct tcp_head){.kind = TCP_ASK, .flags = TCP_TELL, .number = link->window.made};
    window_add(&link->window, &piece->base);
    link->telling = link->window.made;
    link->ask = false;
}

int tcp_link_work(struct tcp_peer *peer, uint64_t now_ns)
{
    struct tcp_link *link = &peer->link;
    if (!peer->source)
        patience_look(&link->broken_ns, &link->looked_ns, now_ns);
    if (link->ask)
        ask(link);
    if (link->state != TCP_LINK_UP)
        open_link(peer, now_ns);
    if (link->broken_ns != 0 && now_ns - link->broken_ns > TCP_LOST_MS * TCP_MS) {
        tcp_peer_lose(peer, -ENETDOWN);
        return 0;
    }
    if (link->state != TCP_LINK_UP)
        return 0;
    if (peer->source)
        tcp_burst_over(link, now_ns);
    int n = tcp_link_write(peer);
    int m = n < 0 ? 0 : tcp_link_read(peer);
    if (n < 0 || m < 0) {
        tcp_link_breaks(peer, n < 0 ? n : m, now_ns);
        return 0;
    }
    return n + m;
}
