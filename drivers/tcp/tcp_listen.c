/* Connections that come: challenged, and dropped unless they say hello with our secret soon. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/tcp/tcp.h"

/* ---- who may ---- */

int tcp_admit(struct driver *driver, const void *address, size_t address_bytes, bool come)
{
    struct tcp_driver *tcp = tcp_of(driver);
    struct tcp_address other;
    int r = 0;
    if (address_bytes != sizeof other)
        return -EINVAL;
    memcpy(&other, address, sizeof other);
    pthread_mutex_lock(&tcp->lock);
    size_t i = 0;
    while (i < tcp->admitted_count && !tcp_same(tcp->admitted[i].address.id, other.id))
        i++;
    if (i < tcp->admitted_count) {
        tcp->admitted[i].times += come ? 1 : -1u;
        if (tcp->admitted[i].times == 0)
            tcp->admitted[i] = tcp->admitted[--tcp->admitted_count];
    } else if (come) {
        struct tcp_admitted *more =
            realloc(tcp->admitted, (tcp->admitted_count + 1) * sizeof tcp->admitted[0]);
        if (more) {
            tcp->admitted = more;
            more[tcp->admitted_count++] = (struct tcp_admitted){other, 1};
        } else {
            r = -ENOMEM;
        }
    }
    pthread_mutex_unlock(&tcp->lock);
    return r;
}

/* *ret_proven: by its own secret, of which its daemon has told us. */
static bool may_come(struct tcp_driver *tcp, const struct tcp_opening *opening,
                     const struct tcp_hello *hello, bool *ret_proven)
{
    bool known = false, may = false;
    pthread_mutex_lock(&tcp->lock);
    for (size_t i = 0; i < tcp->admitted_count && !known; i++) {
        const struct tcp_address *address = &tcp->admitted[i].address;
        if (!tcp_same(address->id, hello->id))
            continue;
        known = true;
        const struct tcp_signature signature =
            tcp_sign_hello(address->secret, opening->nonce, hello);
        may = tcp_signed(hello->by_sender, &signature);
    }
    pthread_mutex_unlock(&tcp->lock);
    *ret_proven = may;
    return known ? may : !tcp->guarded;
}

void tcp_shut(struct driver *driver, bool shut)
{
    atomic_store_explicit(&tcp_of(driver)->shut, shut, memory_order_relaxed);
}

void tcp_door(const struct driver *driver, struct driver_door *ret_door)
{
    const struct tcp_driver *tcp = (const struct tcp_driver *)driver;
    char host[INET6_ADDRSTRLEN] = "?";
    const bool v6 = tcp->address.family == 6;
    *ret_door =
        (struct driver_door){.guarded = tcp->guarded,
                             .forged = atomic_load_explicit(&tcp->forged, memory_order_relaxed)};
    inet_ntop(v6 ? AF_INET6 : AF_INET, tcp->address.host, host, sizeof host);
    snprintf(ret_door->address, sizeof ret_door->address, v6 ? "[%s]:%u" : "%s:%u", host,
             tcp->address.port);
}

/* ---- openings ---- */

/* Lets connections wait to be accepted. */
static void hold(struct tcp_driver *tcp, bool full)
{
    struct epoll_event event = {.events = full ? 0 : EPOLLIN, .data.ptr = &tcp->listener};
    if (tcp->full != full && epoll_ctl(tcp->epoll_fd, EPOLL_CTL_MOD, tcp->listener.fd, &event) == 0)
        tcp->full = full;
}

static void unlist(struct tcp_driver *tcp, struct tcp_opening *opening)
{
    *(opening->previous ? &opening->previous->next : &tcp->openings) = opening->next;
    if (opening->next)
        opening->next->previous = opening->previous;
    tcp->opening_count--;
    if (tcp->full)
        hold(tcp, false);
}

void tcp_opening_free(struct tcp_driver *tcp, struct tcp_opening *opening)
{
    unlist(tcp, opening);
    tcp_stream_close(&opening->stream);
    tcp_free_later(tcp, &opening->stream);
}

static struct tcp_opening *oldest(const struct tcp_driver *tcp)
{
    struct tcp_opening *opening = tcp->openings;
    while (opening && opening->next)
        opening = opening->next;
    return opening;
}

static bool is_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
    if (a->ss_family != b->ss_family)
        return false;
    return a->ss_family == AF_INET6
               ? memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0
               : a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

/* An address that has as many as it may have gets no more at the cost of others. */
static void make_room(struct tcp_driver *tcp, const struct sockaddr_storage *from)
{
    struct tcp_opening *last = NULL; /* the list is newest first */
    unsigned count = 0;
    for (struct tcp_opening *at = tcp->openings; at; at = at->next) {
        if (!is_same_host(&at->from, from))
            continue;
        last = at;
        count++;
    }
    if (count >= TCP_OPENINGS_OF_HOST)
        tcp_opening_free(tcp, last);
}

static void opening_new(struct tcp_driver *tcp, int fd, const struct sockaddr_storage *from,
                        uint64_t now_ns)
{
    const int one = 1;
    make_room(tcp, from);
    struct tcp_opening *opening = calloc(1, sizeof *opening);
    if (!opening || tcp_random(opening->nonce, sizeof opening->nonce) < 0) {
        free(opening);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    opening->from = *from;
    opening->deadline_ns = now_ns + TCP_OPENING_MS * TCP_MS;
    opening->next = tcp->openings;
    if (tcp->openings)
        tcp->openings->previous = opening;
    tcp->openings = opening;
    tcp->opening_count++;
    int r = tcp_stream_init(tcp, &opening->stream, TCP_OPENING, fd);
    if (r == 0 && tcp->address.encrypts)
        r = tcp_stream_encrypt(tcp, &opening->stream, TCP_END_SOURCE, tcp->kernel_tls,
                               tcp->address.secret);
    if (r < 0)
        tcp_opening_free(tcp, opening);
}

void tcp_accept(struct tcp_driver *tcp, uint64_t now_ns)
{
    for (int i = 0; i < TCP_OPENINGS_OF_HOST && tcp->opening_count < TCP_OPENINGS_MAX; i++) {
        struct sockaddr_storage from = {0};
        socklen_t bytes = sizeof from;
        int fd = accept4(tcp->listener.fd, (struct sockaddr *)&from, &bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        if (atomic_load_explicit(&tcp->shut, memory_order_relaxed))
            close(fd);
        else
            opening_new(tcp, fd, &from, now_ns);
    }
    if (tcp->opening_count >= TCP_OPENINGS_MAX)
        hold(tcp, true);
}

static int challenge(struct tcp_opening *opening)
{
    struct tcp_challenge words = {.magic = TCP_CHALLENGE_MAGIC, .version = TCP_WIRE_VERSION};
    memcpy(words.nonce, opening->nonce, sizeof words.nonce);
    int r = tcp_stream_handshake(&opening->stream);
    if (r == 0)
        r = tcp_stream_say(&opening->stream, &words, sizeof words);
    opening->greeted = r == 0;
    return r;
}

static int welcome(struct tcp_driver *tcp, struct tcp_opening *opening,
                   const struct tcp_hello *hello, bool proven, uint64_t now_ns)
{
    bool known;
    struct tcp_source *source = tcp_source_open(tcp, hello, &opening->stream, &known);
    if (!source)
        return -ENOBUFS;
    source->proven = proven;
    struct tcp_welcome words = {
        .magic = TCP_WELCOME_MAGIC, .known = known, .received = source->credits.counted};
    const struct tcp_signature signature =
        tcp_sign_welcome(tcp->address.secret, hello->nonce, &words);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = &source->stream};
    memcpy(words.by_listener, signature.bytes, sizeof words.by_listener);
    opening->stream = (struct tcp_stream){.role = TCP_OPENING, .fd = -1}; /* the source has it */
    unlist(tcp, opening);
    tcp_free_later(tcp, &opening->stream);
    if (epoll_ctl(tcp->epoll_fd, EPOLL_CTL_MOD, source->stream.fd, &event) < 0 ||
        tcp_stream_say(&source->stream, &words, sizeof words) < 0)
        tcp_source_disconnect(tcp, source, -ECONNRESET, now_ns);
    return 0;
}

/* -EACCES: whoever it is does not know our secret. */
static int take_hello(struct tcp_driver *tcp, struct tcp_opening *opening, uint64_t now_ns)
{
    struct tcp_hello hello;
    bool proven = false;
    int r = tcp_stream_fill(&opening->stream, opening->inbox, &opening->inbox_bytes, sizeof hello);
    if (r < 0)
        return r;
    memcpy(&hello, opening->inbox, sizeof hello);
    const struct tcp_signature signature =
        tcp_sign_hello(tcp->address.secret, opening->nonce, &hello);
    if (hello.magic != TCP_HELLO_MAGIC || hello.version != TCP_WIRE_VERSION || hello.known > 1 ||
        !tcp_signed(hello.by_listener, &signature) || !may_come(tcp, opening, &hello, &proven))
        return -EACCES;
    return welcome(tcp, opening, &hello, proven, now_ns);
}

/* In clear we speak first, in TLS the other end does. */
static int work(struct tcp_driver *tcp, struct tcp_opening *opening, uint64_t now_ns)
{
    int r = opening->greeted || tcp->address.encrypts ? 0 : challenge(opening);
    if (r == 0 && !opening->no_pair) {
        r = tcp_opening_pair(tcp, opening);
        if (r > 0)
            return 0;
        opening->no_pair = r == 0;
    }
    if (r == 0 && !opening->greeted)
        r = challenge(opening);
    return r == 0 ? take_hello(tcp, opening, now_ns) : r;
}

void tcp_opening_work(struct tcp_driver *tcp, struct tcp_opening *opening, uint64_t now_ns)
{
    int r = work(tcp, opening, now_ns);
    if (r == 0 || r == -EAGAIN)
        return;
    if (r == -EACCES || r == -EPROTO)
        atomic_fetch_add_explicit(&tcp->forged, 1, memory_order_relaxed);
    tcp_opening_free(tcp, opening);
}

void tcp_openings_expire(struct tcp_driver *tcp, uint64_t now_ns)
{
    struct tcp_opening *opening;
    while ((opening = oldest(tcp)) && now_ns >= opening->deadline_ns)
        tcp_opening_free(tcp, opening);
}
