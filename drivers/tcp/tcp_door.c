/* Connections that come for a process: they open in clear, with the name of the pair that they are
 * for, signed with its secret. They are taken out of the instance before anything is read behind
 * that. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/tcp/tcp.h"

/* Which one is expected; the lock is held. The count: none is. */
static size_t find(const struct tcp_driver *tcp, uint64_t pair)
{
    size_t i = 0;
    while (i < tcp->expected_count && tcp->expected[i].pair != pair)
        i++;
    return i;
}

int tcp_pair_expect(struct driver *driver, uint64_t pair, const uint8_t secret[PAIR_SECRET_BYTES])
{
    struct tcp_driver *tcp = tcp_of(driver);
    pthread_mutex_lock(&tcp->lock);
    const size_t i = find(tcp, pair);
    struct tcp_expected *more = i < tcp->expected_count
                                    ? tcp->expected
                                    : realloc(tcp->expected, (i + 1) * sizeof tcp->expected[0]);
    if (more) {
        tcp->expected = more;
        tcp->expected_count += i == tcp->expected_count;
        more[i].pair = pair;
        memcpy(more[i].secret, secret, sizeof more[i].secret);
    }
    pthread_mutex_unlock(&tcp->lock);
    return more ? 0 : -ENOMEM;
}

static void forget(struct tcp_driver *tcp, size_t i)
{
    if (i < tcp->expected_count)
        tcp->expected[i] = tcp->expected[--tcp->expected_count];
}

void tcp_pair_forget(struct driver *driver, uint64_t pair)
{
    struct tcp_driver *tcp = tcp_of(driver);
    pthread_mutex_lock(&tcp->lock);
    forget(tcp, find(tcp, pair));
    pthread_mutex_unlock(&tcp->lock);
}

/* A secret is good for one connection. */
static bool take_expected(struct tcp_driver *tcp, const struct tcp_pair_hello *hello)
{
    pthread_mutex_lock(&tcp->lock);
    const size_t i = find(tcp, hello->pair);
    bool right = false;
    if (i < tcp->expected_count) {
        const struct tcp_signature signature = tcp_sign_pair(tcp->expected[i].secret, hello);
        right = tcp_signed(hello->by_secret, &signature);
    }
    if (right)
        forget(tcp, i);
    pthread_mutex_unlock(&tcp->lock);
    return right;
}

/* The socket, taken out of the instance. */
static int take_socket(struct tcp_driver *tcp, struct tcp_stream *stream)
{
    const int fd = stream->fd;
    epoll_ctl(tcp->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    tcp_seal_free(stream->seal);
    *stream = (struct tcp_stream){.role = stream->role, .fd = -1};
    return fd;
}

int tcp_opening_pair(struct tcp_driver *tcp, struct tcp_opening *opening)
{
    struct tcp_pair_hello hello;
    const struct driver_events *events = &tcp->driver.events;
    const int fd = opening->stream.fd;
    ssize_t n = recv(fd, &hello, sizeof hello, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? -EAGAIN : -errno;
    if (n == 0)
        return -ECONNRESET;
    if (n < (ssize_t)sizeof hello.magic)
        return -EAGAIN;
    if (hello.magic != TCP_PAIR_MAGIC)
        return 0;
    if (n < (ssize_t)sizeof hello)
        return -EAGAIN;
    if (hello.version != TCP_WIRE_VERSION || hello.zero != 0 || !events->paired ||
        !take_expected(tcp, &hello))
        return -EACCES;
    if (recv(fd, &hello, sizeof hello, MSG_DONTWAIT) != sizeof hello)
        return -EIO;
    const uint64_t pair = hello.pair;
    take_socket(tcp, &opening->stream);
    tcp_opening_free(tcp, opening);
    events->paired(events->context, pair, fd, tcp->address.encrypts);
    return 1;
}
