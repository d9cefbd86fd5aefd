/* Sockets, in clear or inside TLS. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "drivers/tcp/tcp.h"
#include "drivers/tcp/tcp_tls.h"

int tcp_stream_init(struct tcp_driver *tcp, struct tcp_stream *stream, enum tcp_role role, int fd)
{
    *stream = (struct tcp_stream){.role = role, .fd = fd};
    struct epoll_event event = {.data.ptr = stream};
    event.events = role == TCP_LISTENER || role == TCP_TIMER
                       ? EPOLLIN
                       : EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    return epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void tcp_stream_close(struct tcp_stream *stream)
{
    if (stream->fd < 0)
        return;
    tcp_seal_free(stream->seal);
    close(stream->fd);
    *stream = (struct tcp_stream){.role = stream->role, .fd = -1};
}

int tcp_stream_encrypt(struct tcp_driver *tcp, struct tcp_stream *stream, enum tcp_end end,
                       bool kernel, const uint8_t secret[TCP_SECRET_BYTES])
{
    int r = tcp->tls ? 0 : tcp_tls_new(&tcp->tls);
    if (r == 0 && !tcp->seal_method)
        r = tcp_seal_method_new(&tcp->seal_method);
    return r < 0 ? r : tcp_seal_new(tcp, stream->fd, end, kernel, secret, &stream->seal);
}

int tcp_stream_handshake(struct tcp_stream *stream)
{
    int r = stream->seal ? tcp_seal_handshake(stream->seal) : 0;
    if (r <= 0)
        return r;
    tcp_seal_free(stream->seal);
    stream->seal = NULL;
    stream->kernel = true;
    return 0;
}

static bool is_full(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK;
}

/* What the kernel says of a record that was not sealed with our key, or is none of data. */
static int failure(const struct tcp_stream *stream, int error)
{
    const bool record = error == EBADMSG || error == EMSGSIZE || error == EINVAL || error == EIO;
    return stream->kernel && record ? -EPROTO : -error;
}

/* Less than was asked for is all that there is, unless the end is behind it. */
static ssize_t read_clear(struct tcp_stream *stream, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    size_t room = 0;
    ssize_t n;
    for (int i = 0; i < count; i++)
        room += parts[i].iov_len;
    do
        n = recvmsg(stream->fd, &message, 0);
    while (n < 0 && errno == EINTR);
    stream->readable = n == (ssize_t)room || (n > 0 && stream->ended);
    if (n > 0)
        return n;
    if (n == 0)
        return -ECONNRESET;
    return is_full(errno) ? -EAGAIN : failure(stream, errno);
}

ssize_t tcp_stream_read(struct tcp_stream *stream, const struct iovec *parts, int count)
{
    if (!stream->seal)
        return read_clear(stream, parts, count);
    ssize_t n = tcp_seal_read(stream->seal, parts, count);
    stream->readable = n > 0 && (stream->ended || tcp_seal_has_more(stream->seal));
    return n;
}

static ssize_t write_clear(struct tcp_stream *stream, const struct iovec *parts, int count)
{
    const struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    ssize_t n;
    do
        n = sendmsg(stream->fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    stream->writable = n >= 0 || !is_full(errno);
    return n >= 0 ? n : is_full(errno) ? -EAGAIN : -errno;
}

/* A key seals so many records and no more. There is no key update: another connection, with another
 * key, takes this one's place. */
ssize_t tcp_stream_write(struct tcp_stream *stream, const struct iovec *parts, int count)
{
    ssize_t n = stream->records > TCP_KEY_RECORDS ? -EKEYEXPIRED
                : stream->seal                    ? tcp_seal_write(stream->seal, parts, count)
                                                  : write_clear(stream, parts, count);
    if (stream->seal)
        stream->writable = n >= 0 && !tcp_seal_has_unsent(stream->seal);
    if (n > 0 && (stream->seal || stream->kernel))
        stream->records += (uint64_t)n / TCP_RECORD_BYTES + 1;
    return n;
}

int tcp_stream_flush(struct tcp_stream *stream)
{
    int r = stream->seal ? tcp_seal_flush(stream->seal) : 0;
    stream->writable &= r == 0;
    return r;
}

int tcp_stream_fill(struct tcp_stream *stream, uint8_t *inbox, size_t *inbox_bytes, size_t bytes)
{
    while (*inbox_bytes < bytes) {
        const struct iovec part = {inbox + *inbox_bytes, bytes - *inbox_bytes};
        ssize_t n = tcp_stream_read(stream, &part, 1);
        if (n < 0)
            return (int)n;
        *inbox_bytes += (size_t)n;
    }
    return 0;
}

int tcp_stream_say(struct tcp_stream *stream, const void *words, size_t bytes)
{
    const struct iovec part = {(void *)words, bytes};
    return tcp_stream_write(stream, &part, 1) == (ssize_t)bytes && stream->writable ? 0 : -EIO;
}
