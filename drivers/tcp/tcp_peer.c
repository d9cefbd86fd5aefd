/* Peers: connected, given connections, flushed, lost. */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "drivers/tcp/adopt.h"
#include "drivers/tcp/tcp.h"
#include "proto/list.h"

static bool are_good(const struct tcp_endpoint *endpoints, unsigned count)
{
    if (count == 0 || count > TCP_ENDPOINTS_MAX)
        return false;
    for (unsigned i = 0; i < count; i++)
        if ((endpoints[i].family != 4 && endpoints[i].family != 6) || endpoints[i].port == 0)
            return false;
    return true;
}

bool tcp_address_read(const void *bytes, size_t count, struct tcp_address *ret_address)
{
    if (count != sizeof(*ret_address))
        return false;
    memcpy(ret_address, bytes, sizeof(*ret_address));
    return ret_address->magic == TCP_ADDRESS_MAGIC && ret_address->version == TCP_WIRE_VERSION &&
           ret_address->encrypts <= 1 && are_good(ret_address->endpoints, ret_address->count);
}

/* The instance that is put into demands it. */
bool tcp_encrypts(const void *address, size_t address_bytes)
{
    struct tcp_address other;
    return tcp_address_read(address, address_bytes, &other) && other.encrypts;
}

static struct tcp_peer *peer_new(struct tcp_driver *tcp)
{
    struct tcp_peer *peer = calloc(1, sizeof(*peer));
    if (!peer)
        return NULL;
    peer->driver = tcp;
    tcp_sender_init(&peer->sender);
    return peer;
}

int tcp_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                     struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes)
{
    struct tcp_address other;
    if (!tcp_address_read(address, address_bytes, &other))
        return -EINVAL;
    struct tcp_peer *peer = peer_new(tcp_of(driver));
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

/* So that the receiver need not wait until it may forget what it knows. */
static void say_goodbye(struct tcp_sender *sender)
{
    struct tcp_connection *connection = sender->connection;
    const struct tcp_head bye = {.kind = TCP_BYE, .number = sender->window.made};
    if (connection->state == TCP_UP && sender->written == sender->window.made &&
        sender->written_bytes == 0 &&
        (!connection->receiver || connection->receiver->outbox_bytes == 0))
        tcp_connection_say(connection, &bye, sizeof(bye));
}

void tcp_peer_disconnect(struct driver *driver, struct driver_peer *driver_peer)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    struct tcp_sender *sender = &peer->sender;
    struct tcp_driver *tcp = tcp_of(driver);
    if (sender->connection) {
        say_goodbye(sender);
        tcp_connection_close(sender->connection);
    }
    if (peer->receiver)
        tcp_receiver_free(peer->receiver);
    else if (peer->error < 0 && peer->told)
        tcp_receivers_drop(tcp, peer->address.id);
    tcp_peer_deactivate(peer);
    tcp_sender_deinit(sender);
    tcp_free_later(tcp, &peer->object);
}

/* ---- connections that are handed over ---- */

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
    struct tcp_receiver *receiver = tcp_receiver_new(tcp, grant);
    if (!receiver)
        return -ENOBUFS;
    struct tcp_peer *peer = peer_new(tcp);
    if (!peer) {
        tcp_receiver_free(receiver);
        return -ENOMEM;
    }
    peer->receiver = receiver;
    tcp_sender_down(peer, clock_now_ns());
    *ret_peer = (struct driver_peer *)peer;
    return 0;
}

int tcp_adopt(struct driver *driver, struct driver_peer *driver_peer, int fd, bool dialled,
              bool kernel, const uint8_t *secret)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    struct tcp_sender *sender = &peer->sender;
    struct tcp_connection *connection;
    if (peer->error < 0) {
        close(fd);
        return peer->error;
    }
    if (sender->connection)
        tcp_connection_close(sender->connection);
    tcp_sender_down(peer, clock_now_ns());
    int r = tcp_connection_new(peer->driver, fd, TCP_ADOPTED, &connection);
    if (r < 0)
        return r;
    r = secret ? tcp_connection_encrypt(connection, dialled ? TCP_END_DIALLED : TCP_END_ACCEPTED,
                                        kernel, secret)
               : 0;
    if (r < 0) {
        tcp_connection_close(connection);
        return r;
    }
    tcp_connection_attach(connection, sender, peer->receiver);
    sender->down_ns = 0; /* the other process may be busy for long */
    return 0;
}

void tcp_abandon(struct driver *driver, struct driver_peer *driver_peer, int error)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    peer->told = true;
    tcp_peer_lose(peer, error);
}

/* ---- losing one ---- */

void tcp_peer_lose(struct tcp_peer *peer, int error)
{
    const struct driver_events *events = &peer->driver->driver.events;
    struct tcp_sender *sender = &peer->sender;
    if (peer->error < 0)
        return;
    peer->error = error;
    if (sender->connection)
        tcp_connection_close(sender->connection);
    window_fail(&sender->window, events, (struct driver_peer *)peer, peer->told, error);
    sender->written = sender->window.made;
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

/* ---- flushing ---- */

int tcp_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    if (peer->error < 0)
        return peer->error;
    if (window_flush(&peer->sender.window, op))
        tcp_peer_activate(peer);
    return 0;
}

bool tcp_delivered(struct driver *driver, struct driver_peer *driver_peer)
{
    struct tcp_peer *peer = (struct tcp_peer *)driver_peer;
    struct tcp_sender *sender = &peer->sender;
    struct tcp_connection *connection = sender->connection;
    struct window *window = &sender->window;
    int unsent;
    if (peer->error < 0)
        return true;
    if (window_next_put(window))
        return false;
    if (window->counted == window->made)
        return true;
    if (window->asked < window->made) {
        window->ask = true;
        tcp_peer_activate(peer);
    }
    return tcp_is_up(connection) && sender->written == window->made &&
           tcp_connection_flush(connection) == 0 && ioctl(connection->fd, SIOCOUTQ, &unsent) == 0 &&
           unsent == 0;
}
