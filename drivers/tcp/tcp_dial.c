/* Makes connections to the port of an instance elsewhere: for senders, and for processes. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/tcp/tcp.h"
#include "proto/wait.h"

/* 0, -ETIMEDOUT or another error. */
static int wait_until(int fd, short events, uint64_t end_ns)
{
    struct pollfd event = {.fd = fd, .events = events};
    for (;;) {
        const uint64_t now_ns = clock_now_ns();
        if (now_ns >= end_ns)
            return -ETIMEDOUT;
        int n = poll(&event, 1, (int)((end_ns - now_ns) / TCP_MS) + 1);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

struct address tcp_endpoint_address(const struct tcp_endpoint *endpoint)
{
    struct address address = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)&address.at;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address.at;
    address.at.ss_family = endpoint->family == 4 ? AF_INET : AF_INET6;
    address.bytes = endpoint->family == 4 ? sizeof(*in) : sizeof(*in6);
    if (endpoint->family == 4)
        memcpy(&in->sin_addr, endpoint->host, sizeof(in->sin_addr));
    else
        memcpy(&in6->sin6_addr, endpoint->host, sizeof(in6->sin6_addr));
    address_set_port(&address, endpoint->port);
    return address;
}

int tcp_dial(const struct tcp_address *address, uint32_t skip, struct dial **ret_dial)
{
    struct addresses *all = malloc(sizeof(*all) + TCP_ENDPOINTS_MAX * sizeof(all->list[0]));
    if (!all)
        return -ENOMEM;
    for (all->count = 0; all->count < address->count; all->count++)
        all->list[all->count] = tcp_endpoint_address(&address->endpoints[all->count]);
    int r = dial_new(all, skip, ret_dial);
    free(all);
    return r;
}

/* The descriptor. */
static int make_connection(const struct tcp_address *address, uint64_t end_ns)
{
    struct dial *dial;
    unsigned which;
    int fd = tcp_dial(address, 0, &dial);
    if (fd < 0)
        return fd;
    while ((fd = dial_step(dial, clock_now_ns(), &which)) == -EAGAIN) {
        const uint64_t due_ns = dial_due_ns(dial);
        int r = wait_until(dial_fd(dial), POLLIN, due_ns != 0 && due_ns < end_ns ? due_ns : end_ns);
        if (r < 0 && (r != -ETIMEDOUT || clock_now_ns() >= end_ns)) {
            fd = r;
            break;
        }
    }
    dial_free(dial);
    return fd;
}

/* An instance in clear speaks first. */
static int skip_challenge(int fd, uint64_t end_ns)
{
    struct tcp_challenge challenge;
    size_t got = 0;
    while (got < sizeof(challenge)) {
        int r = wait_until(fd, POLLIN, end_ns);
        if (r < 0)
            return r;
        ssize_t n = recv(fd, (uint8_t *)&challenge + got, sizeof(challenge) - got, 0);
        if (n == 0)
            return -ECONNRESET;
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        got += n > 0 ? (size_t)n : 0;
    }
    return challenge.magic == TCP_CHALLENGE_MAGIC && challenge.version == TCP_WIRE_VERSION
               ? 0
               : -EPROTO;
}

static int introduce(int fd, const struct tcp_address *address, uint64_t pair,
                     const uint8_t secret[PAIR_SECRET_BYTES], uint64_t end_ns)
{
    struct tcp_pair_hello hello = {
        .magic = TCP_PAIR_MAGIC, .version = TCP_WIRE_VERSION, .pair = pair};
    const struct tcp_signature signature = tcp_sign_pair(secret, &hello);
    int r = address->encrypts ? 0 : skip_challenge(fd, end_ns);
    memcpy(hello.by_secret, signature.bytes, sizeof(hello.by_secret));
    if (r == 0 && send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
        r = -EIO; /* the buffer of a new connection has room for it */
    return r;
}

int tcp_pair_dial(struct driver *driver, const void *address, size_t address_bytes, uint64_t pair,
                  const uint8_t secret[PAIR_SECRET_BYTES], uint64_t timeout_ns, bool *ret_encrypts)
{
    struct tcp_address other;
    const uint64_t end_ns = clock_now_ns() + timeout_ns;
    if (!tcp_address_read(address, address_bytes, &other))
        return -EINVAL;
    int fd = make_connection(&other, end_ns);
    if (fd < 0)
        return fd;
    int r = introduce(fd, &other, pair, secret, end_ns);
    if (r < 0) {
        close(fd);
        return r;
    }
    *ret_encrypts = other.encrypts;
    return fd;
}
