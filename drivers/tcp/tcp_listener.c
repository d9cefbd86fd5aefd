/*
 * Listeners: where an instance listens, who may connect, and the connections that have not said
 * hello yet. Those are challenged, and dropped unless they say hello with our secret soon.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "drivers/addresses.h"
#include "drivers/interface.h"
#include "drivers/tcp/config.h"
#include "drivers/tcp/tcp.h"
#include "drivers/tcp/tcp_tls.h"
#include "proto/list.h"

/* ---- the own addresses ---- */

static const struct tcp_config *own_of(const struct driver_config *config)
{
    static const struct tcp_config defaults;
    return config->own ? config->own : &defaults;
}

/* Of an interface, a host name, or numeric. */
static int look_up(const char *name, struct addresses **ret_addresses)
{
    int r = addresses_of_interface(name, ret_addresses);
    if (r == -ENODEV)
        r = addresses_parse(name, 0, ret_addresses);
    if (r == -EINVAL)
        r = addresses_look_up(name, 0, ret_addresses) == 0 ? 0 : -EADDRNOTAVAIL;
    if (r == 0)
        addresses_keep(*ret_addresses, address_is_outside);
    return r;
}

/* To listen at; freed by the caller. */
static int find_addresses(const struct tcp_config *own, struct addresses **ret_addresses)
{
    if (!own->addresses)
        return look_up(own->address ? own->address : "127.0.0.1", ret_addresses);
    const size_t bytes = sizeof(struct addresses) + own->addresses->count * sizeof(struct address);
    *ret_addresses = malloc(bytes);
    if (!*ret_addresses)
        return -ENOMEM;
    memcpy(*ret_addresses, own->addresses, bytes);
    return 0;
}

static bool kernel_tls(const struct driver_config *config)
{
    return !own_of(config)->user_space && tcp_kernel_tls();
}

int tcp_probe(const struct driver_config *config, struct driver_caps *ret_caps)
{
    struct addresses *addresses;
    *ret_caps = (struct driver_caps){
        .same_node = true, .other_nodes = true, .ordered = true, .kernel_tls = kernel_tls(config)};
    snprintf(ret_caps->detail, sizeof(ret_caps->detail), "TCP, %s",
             own_of(config)->plain  ? "in clear"
             : ret_caps->kernel_tls ? "TLS 1.3 by the kernel"
                                    : "TLS 1.3");
    int r = find_addresses(own_of(config), &addresses);
    if (r < 0)
        return r;
    interface_of((const struct sockaddr *)&addresses->list[0].at, ret_caps->device,
                 sizeof(ret_caps->device));
    free(addresses);
    return 0;
}

static struct tcp_endpoint endpoint_of(const struct address *address)
{
    const bool v4 = address->at.ss_family == AF_INET;
    struct tcp_endpoint endpoint = {.port = address_port(address), .family = v4 ? 4 : 6};
    if (v4)
        memcpy(endpoint.host, &((const struct sockaddr_in *)&address->at)->sin_addr, 4);
    else
        memcpy(endpoint.host, &((const struct sockaddr_in6 *)&address->at)->sin6_addr, 16);
    return endpoint;
}

/* *at: gets the port. The descriptor. */
static int open_listener(struct tcp_driver *tcp, struct address *at)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &tcp->listener};
    struct sockaddr *name = (struct sockaddr *)&at->at;
    const int one = 1;
    int fd = socket(name->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (name->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (bind(fd, name, at->bytes) < 0 || listen(fd, 512) < 0 ||
        getsockname(fd, name, &at->bytes) < 0 ||
        epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        int r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

/* At all addresses that this machine has and others can use: a name may have others, too. */
static int listen_there(struct tcp_driver *tcp, const struct addresses *addresses, uint16_t port)
{
    int r = -EADDRNOTAVAIL;
    for (unsigned i = 0; i < addresses->count && tcp->address.count < TCP_ENDPOINTS_MAX; i++) {
        struct address at = addresses->list[i];
        address_set_port(&at, port);
        int fd = address_is_link_local(&at) ? -EADDRNOTAVAIL : open_listener(tcp, &at);
        if (fd == -EADDRNOTAVAIL)
            continue;
        if (fd < 0)
            return fd;
        tcp->listener.fds[tcp->address.count] = fd;
        tcp->address.endpoints[tcp->address.count++] = endpoint_of(&at);
        r = 0;
    }
    return r;
}

/* ---- the instance ---- */

static int set_up(struct tcp_driver *tcp, const struct driver_config *config)
{
    tcp->address = (struct tcp_address){.magic = TCP_ADDRESS_MAGIC,
                                        .version = TCP_WIRE_VERSION,
                                        .encrypts = !own_of(config)->plain};
    struct addresses *addresses;
    int r = tcp_random(&tcp->address.id, sizeof(tcp->address.id));
    if (r == 0)
        r = tcp_random(tcp->address.secret, sizeof(tcp->address.secret));
    if (r == 0)
        r = find_addresses(own_of(config), &addresses);
    if (r < 0)
        return r;
    r = listen_there(tcp, addresses, own_of(config)->port);
    free(addresses);
    return r;
}

int tcp_open(const struct driver_config *config, const struct driver_events *events,
             struct driver **ret_driver)
{
    struct tcp_driver *tcp;
    int r = tcp_instance_new(events, &tcp);
    if (r < 0)
        return r;
    tcp->listener.guarded = config->guarded;
    tcp->kernel_tls = kernel_tls(config);
    r = set_up(tcp, config);
    if (r < 0) {
        tcp_close(&tcp->driver);
        return r;
    }
    *ret_driver = &tcp->driver;
    return 0;
}

void tcp_listener_deinit(struct tcp_driver *tcp)
{
    struct tcp_listener *listener = &tcp->listener;
    while (listener->accepted)
        tcp_connection_close(listener->accepted);
    for (unsigned i = 0; i < tcp->address.count; i++)
        close(listener->fds[i]);
    free(listener->admitted);
    free(listener->expected);
    pthread_mutex_destroy(&listener->lock);
}

/* ---- who may ---- */

int tcp_admit(struct driver *driver, const void *address, size_t address_bytes, bool come)
{
    struct tcp_listener *listener = &tcp_of(driver)->listener;
    struct tcp_address other;
    int r = 0;
    if (address_bytes != sizeof(other))
        return -EINVAL;
    memcpy(&other, address, sizeof(other));
    pthread_mutex_lock(&listener->lock);
    size_t i = 0;
    while (i < listener->admitted_count && !tcp_same(listener->admitted[i].address.id, other.id))
        i++;
    if (i < listener->admitted_count) {
        listener->admitted[i].times += come ? 1 : -1u;
        if (listener->admitted[i].times == 0)
            listener->admitted[i] = listener->admitted[--listener->admitted_count];
    } else if (come) {
        struct tcp_admitted *more = realloc(listener->admitted, (listener->admitted_count + 1) *
                                                                    sizeof(listener->admitted[0]));
        if (more) {
            listener->admitted = more;
            more[listener->admitted_count++] = (struct tcp_admitted){other, 1};
        } else {
            r = -ENOMEM;
        }
    }
    pthread_mutex_unlock(&listener->lock);
    return r;
}

bool tcp_listener_admits(struct tcp_driver *tcp, const struct tcp_connection *connection,
                         const struct tcp_hello *hello, bool *ret_proven)
{
    struct tcp_listener *listener = &tcp->listener;
    bool known = false, may = false;
    pthread_mutex_lock(&listener->lock);
    for (size_t i = 0; i < listener->admitted_count && !known; i++) {
        const struct tcp_address *address = &listener->admitted[i].address;
        if (!tcp_same(address->id, hello->id))
            continue;
        known = true;
        const struct tcp_signature signature =
            tcp_sign_hello(address->secret, connection->nonce, hello);
        may = tcp_signed(hello->by_sender, &signature);
    }
    pthread_mutex_unlock(&listener->lock);
    *ret_proven = may;
    return known ? may : !listener->guarded;
}

void tcp_shut(struct driver *driver, bool shut)
{
    atomic_store_explicit(&tcp_of(driver)->listener.shut, shut, memory_order_relaxed);
}

void tcp_door(const struct driver *driver, struct driver_door *ret_door)
{
    const struct tcp_driver *tcp = (const struct tcp_driver *)driver;
    const size_t room = sizeof(ret_door->address);
    size_t used = 0;
    *ret_door =
        (struct driver_door){.guarded = tcp->listener.guarded,
                             .forged = atomic_load_explicit(&tcp->forged, memory_order_relaxed)};
    for (unsigned i = 0; i < tcp->address.count && used < room; i++) {
        const struct tcp_endpoint *at = &tcp->address.endpoints[i];
        char host[INET6_ADDRSTRLEN] = "?";
        inet_ntop(at->family == 6 ? AF_INET6 : AF_INET, at->host, host, sizeof(host));
        used += (size_t)snprintf(ret_door->address + used, room - used,
                                 at->family == 6 ? "%s[%s]:%u" : "%s%s:%u", i > 0 ? ", " : "", host,
                                 at->port);
    }
}

/* ---- connections for pairs of processes ---- */

/* Which one is expected; the lock is held. The count: none is. */
static size_t find_expected(const struct tcp_listener *listener, uint64_t pair)
{
    size_t i = 0;
    while (i < listener->expected_count && listener->expected[i].pair != pair)
        i++;
    return i;
}

int tcp_pair_expect(struct driver *driver, uint64_t pair, const uint8_t secret[PAIR_SECRET_BYTES])
{
    struct tcp_listener *listener = &tcp_of(driver)->listener;
    pthread_mutex_lock(&listener->lock);
    const size_t i = find_expected(listener, pair);
    struct tcp_expected *more =
        i < listener->expected_count
            ? listener->expected
            : realloc(listener->expected, (i + 1) * sizeof(listener->expected[0]));
    if (more) {
        listener->expected = more;
        listener->expected_count += i == listener->expected_count;
        more[i].pair = pair;
        memcpy(more[i].secret, secret, sizeof(more)[i].secret);
    }
    pthread_mutex_unlock(&listener->lock);
    return more ? 0 : -ENOMEM;
}

static void forget(struct tcp_listener *listener, size_t i)
{
    if (i < listener->expected_count)
        listener->expected[i] = listener->expected[--listener->expected_count];
}

void tcp_pair_forget(struct driver *driver, uint64_t pair)
{
    struct tcp_listener *listener = &tcp_of(driver)->listener;
    pthread_mutex_lock(&listener->lock);
    forget(listener, find_expected(listener, pair));
    pthread_mutex_unlock(&listener->lock);
}

bool tcp_listener_expects(struct tcp_driver *tcp, const struct tcp_pair_hello *hello)
{
    struct tcp_listener *listener = &tcp->listener;
    pthread_mutex_lock(&listener->lock);
    const size_t i = find_expected(listener, hello->pair);
    bool right = false;
    if (i < listener->expected_count) {
        const struct tcp_signature signature = tcp_sign_pair(listener->expected[i].secret, hello);
        right = tcp_signed(hello->by_secret, &signature);
    }
    if (right)
        forget(listener, i);
    pthread_mutex_unlock(&listener->lock);
    return right;
}

/* ---- connections that have not said hello ---- */

/* Lets connections wait to be accepted. */
static void hold(struct tcp_driver *tcp, bool full)
{
    struct tcp_listener *listener = &tcp->listener;
    struct epoll_event event = {.events = full ? 0 : EPOLLIN, .data.ptr = listener};
    for (unsigned i = 0; i < tcp->address.count && listener->full != full; i++)
        epoll_ctl(tcp->epoll_fd, EPOLL_CTL_MOD, listener->fds[i], &event);
    listener->full = full;
}

void tcp_listener_forget(struct tcp_driver *tcp, struct tcp_connection *connection)
{
    LIST_REMOVE(connection, next_accepted, accepted_link);
    tcp->listener.accepted_count--;
    if (tcp->listener.full)
        hold(tcp, false);
}

static bool is_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
    if (a->ss_family != b->ss_family)
        return false;
    return a->ss_family == AF_INET6
               ? memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0
               : a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

/* An address that has as many as it may have gets no more at the cost of others. */
static void make_room(struct tcp_listener *listener, const struct sockaddr_storage *from)
{
    struct tcp_connection *last = NULL; /* the list is newest first */
    unsigned count = 0;
    for (struct tcp_connection *at = listener->accepted; at; at = at->next_accepted) {
        if (!is_same_host(&at->from, from))
            continue;
        last = at;
        count++;
    }
    if (count >= TCP_OPENINGS_OF_HOST)
        tcp_connection_close(last);
}

static void accepted(struct tcp_driver *tcp, int fd, const struct sockaddr_storage *from,
                     uint64_t now_ns)
{
    struct tcp_listener *listener = &tcp->listener;
    const bool encrypts = tcp->address.encrypts;
    struct tcp_connection *connection;
    make_room(listener, from);
    if (tcp_connection_new(tcp, fd, encrypts ? TCP_ACCEPTED : TCP_ANSWERING, &connection) < 0)
        return;
    connection->from = *from;
    connection->deadline_ns = now_ns + TCP_OPENING_MS * TCP_MS;
    LIST_ADD(&listener->accepted, connection, next_accepted, accepted_link);
    listener->accepted_count++;
    int r = tcp_random(connection->nonce, sizeof(connection->nonce));
    if (r == 0 && encrypts)
        r = tcp_connection_encrypt(connection, TCP_END_RECEIVER, tcp->kernel_tls,
                                   tcp->address.secret);
    if (r < 0)
        tcp_connection_close(connection);
}

static void accept_at(struct tcp_driver *tcp, int listener_fd, uint64_t now_ns)
{
    struct tcp_listener *listener = &tcp->listener;
    for (int i = 0; i < TCP_OPENINGS_OF_HOST && listener->accepted_count < TCP_OPENINGS_MAX; i++) {
        struct sockaddr_storage from = {0};
        socklen_t bytes = sizeof(from);
        int fd =
            accept4(listener_fd, (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        if (atomic_load_explicit(&listener->shut, memory_order_relaxed))
            close(fd);
        else
            accepted(tcp, fd, &from, now_ns);
    }
}

void tcp_listener_accept(struct tcp_driver *tcp, uint64_t now_ns)
{
    for (unsigned i = 0; i < tcp->address.count; i++)
        accept_at(tcp, tcp->listener.fds[i], now_ns);
    if (tcp->listener.accepted_count >= TCP_OPENINGS_MAX)
        hold(tcp, true);
}

void tcp_listener_expire(struct tcp_driver *tcp, uint64_t now_ns)
{
    for (struct tcp_connection *at = tcp->listener.accepted, *next; at; at = next) {
        next = at->next_accepted;
        if (now_ns >= at->deadline_ns)
            tcp_connection_close(at);
    }
}
