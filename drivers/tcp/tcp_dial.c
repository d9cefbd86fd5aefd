/* Makes connections to the port of an instance elsewhere: for senders, and for processes. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
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

int tcp_dial(const struct tcp_address *address)
{
    struct sockaddr_storage to;
    const socklen_t bytes = tcp_socket_address(address, address->port, &to);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (connect(fd, (const struct sockaddr *)&to, bytes) == 0 || errno == EINPROGRESS))
        return fd;
    int r = -errno;
    if (fd >= 0)
        close(fd);
    return r;
}

static int wait_for_connection(int fd, uint64_t end_ns)
{
    int error = 0, r = wait_until(fd, POLLOUT, end_ns);
    socklen_t error_bytes = sizeof(error);
    if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) < 0)
        r = -errno;
    return r < 0 ? r : -error;
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
    int fd = tcp_dial(&other);
    if (fd < 0)
        return fd;
    int r = wait_for_connection(fd, end_ns);
    if (r == 0)
        r = introduce(fd, &other, pair, secret, end_ns);
    if (r < 0) {
        close(fd);
        return r;
    }
    *ret_encrypts = other.encrypts;
    return fd;
}
