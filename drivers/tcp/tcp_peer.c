/* Peers: what is put to them, and when they are lost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/tcp/tcp.h"
#include "proto/list.h"

bool tcp_address_read(const void *bytes, size_t count, struct tcp_address *ret_address)
{
    if (count != sizeof *ret_address)
        return false;
    memcpy(ret_address, bytes, sizeof *ret_address);
    return ret_address->magic == TCP_ADDRESS_MAGIC && ret_address->version == TCP_WIRE_VERSION &&
           (ret_address->family == 4 || ret_address->family == 6) && ret_address->encrypts <= 1 &&
           ret_address->port != 0;
}

/* The instance that is put into demands it. */
bool tcp_encrypts(const void *address, size_t address_bytes)
{
    struct tcp_address other;
    return tcp_address_read(address, address_bytes, &other) && other.encrypts;
}

struct tcp_peer *tcp_peer_new(struct tcp_driver *tcp)
{
    struct tcp_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->driver = tcp;
    peer->link.own = (struct tcp_stream){.role = TCP_LINK, .fd = -1};
    peer->link.stream = &peer->link.own;
    peer->link.window = (struct window){
        .size = TCP_WINDOW,
        .piece_bytes = sizeof(struct tcp_piece),
        .ring = {.bytes = TCP_COPIES_BYTES, .largest = TCP_INLINE_BYTES},
    };
    return peer;
}

int tcp_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                     struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes)
{
    struct tcp_address other;
    if (!tcp_address_read(address, address_bytes, &other))
        return -EINVAL;
    struct tcp_peer *peer = tcp_peer_new(tcp_of(driver));
    if (!peer)
        return -ENOMEM;
    peer->address = other;
    *ret_peer = (struct driver_peer *)peer;
    *ret_offer_bytes = 0;
    return 0;
}

void tcp_peer_activate(struct tcp_peer *peer)
{
    struct tcp_driver *tcp = peer->driver;
    if (!peer->active_link)
        LIST_ADD(&tcp->active, peer, next_active, active_link);
}

void tcp_peer_deactivate(struct tcp_peer *peer)
{
    if (peer->active_link)
        LIST_REMOVE(peer, next_active, active_link);
}

void tcp_peer_disconnect(struct driver *driver, struct driver_peer *driver_peer)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    struct tcp_driver *tcp = tcp_of(driver);
    const struct tcp_head bye = {.kind = TCP_BYE, .number = peer->link.window.made};
    if (peer->link.state == TCP_LINK_UP && peer->link.written == peer->link.window.made &&
        peer->link.written_bytes == 0 && (!peer->source || peer->source->outbox_bytes == 0))
        tcp_stream_say(peer->link.stream, &bye, sizeof bye); /* else its source expires */
    if (peer->error < 0 && peer->told && !peer->source)
        tcp_sources_drop(tcp, peer->address.id);
    tcp_peer_deactivate(peer);
    tcp_stream_close(peer->link.stream);
    tcp_link_free(&peer->link);
    if (peer->source)
        tcp_source_free(tcp, peer->source);
    tcp_free_later(tcp, &peer->link.own);
}

/* ---- losing one ---- */

void tcp_peer_lose(struct tcp_peer *peer, int error)
{
    const struct driver_events *events = &peer->driver->driver.events;
    if (peer->error < 0)
        return;
    peer->error = error;
    if (peer->source)
        tcp_source_reset(peer->driver, peer->source);
    tcp_stream_close(peer->link.stream);
    peer->link.state = TCP_LINK_IDLE;
    window_fail(&peer->link.window, events, (struct driver_peer *)peer, peer->told, error);
    peer->link.written = peer->link.window.made;
    tcp_peer_deactivate(peer);
    if (!peer->told && events->peer_down)
        events->peer_down(events->context, (struct driver_peer *)peer, error);
    peer->told = true;
}

/* The puts end in the next round, as the contract says: this may be called from anywhere. */
void tcp_peer_fail(struct driver *driver, struct driver_peer *driver_peer, int error)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    if (peer->error < 0)
        return;
    peer->told = true;
    peer->failed = error;
    tcp_peer_activate(peer);
}

int tcp_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    struct tcp_link *link = &peer->link;
    if (peer->error < 0)
        return peer->error;
    const bool idle = link->window.counted == link->window.made;
    if (idle && !op->probe) {
        op->done(op, 0);
        return 0;
    }
    /* A probe of an idle link waits for the piece that asks. */
    flushes_push(&link->window.flushes, op, link->window.made + idle);
    link->ask |= idle || link->telling < link->window.made;
    tcp_peer_activate(peer);
    return 0;
}
