/* Sockets, in clear or inside TLS. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "drivers/tcp/tcp.h"

/* TLS: what is joined for one write, the longest record. */
enum { GATHERED_BYTES = 16384 };

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
    tcp_tls_end(stream->ssl);
    close(stream->fd);
    free(stream->gathered);
    *stream = (struct tcp_stream){.role = stream->role, .fd = -1};
}

int tcp_stream_encrypt(struct tcp_driver *tcp, struct tcp_stream *stream, bool accept,
                       const uint8_t secret[TCP_SECRET_BYTES])
{
    if (!tcp->tls) {
        int r = tcp_tls_new(&tcp->tls);
        if (r < 0)
            return r;
    }
    stream->gathered = malloc(GATHERED_BYTES);
    stream->ssl = stream->gathered ? tcp_tls_session(tcp->tls, stream->fd, accept, secret) : NULL;
    return stream->ssl ? 0 : -ENOMEM;
}

/* Of OpenSSL's answer, not above 0. */
static int ssl_error(struct tcp_stream *stream, int answer)
{
    switch (SSL_get_error(stream->ssl, answer)) {
    case SSL_ERROR_WANT_READ:
        stream->readable = false;
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        stream->writable = false;
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return -ECONNRESET;
    default:
        ERR_clear_error();
        return -EPROTO;
    }
}

int tcp_stream_handshake(struct tcp_stream *stream)
{
    if (!stream->ssl)
        return 0;
    int r = SSL_do_handshake(stream->ssl);
    return r == 1 ? 0 : ssl_error(stream, r);
}

ssize_t tcp_stream_read(struct tcp_stream *stream, void *buffer, size_t bytes)
{
    size_t got;
    if (stream->ssl) {
        int r = SSL_read_ex(stream->ssl, buffer, bytes, &got);
        return r == 1 ? (ssize_t)got : ssl_error(stream, r);
    }
    ssize_t n;
    do
        n = recv(stream->fd, buffer, bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return n;
    if (n == 0)
        return -ECONNRESET;
    stream->readable = false;
    return errno == EAGAIN || errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

/* Small parts are joined, so that they share a record; a large one is written as it lies. */
static ssize_t write_ssl(struct tcp_stream *stream, const struct iovec *parts, int count)
{
    size_t joined = 0, done;
    const void *from = stream->gathered;
    for (int i = 0; i < count && joined < GATHERED_BYTES; i++) {
        if (joined == 0 && parts[i].iov_len >= GATHERED_BYTES) {
            from = parts[i].iov_base;
            joined = parts[i].iov_len;
            break;
        }
        const size_t room = GATHERED_BYTES - joined,
                     length = parts[i].iov_len < room ? parts[i].iov_len : room;
        memcpy(stream->gathered + joined, parts[i].iov_base, length);
        joined += length;
    }
    int r = SSL_write_ex(stream->ssl, from, joined, &done);
    return r == 1 ? (ssize_t)done : ssl_error(stream, r);
}

ssize_t tcp_stream_write(struct tcp_stream *stream, const struct iovec *parts, int count)
{
    if (stream->ssl)
        return write_ssl(stream, parts, count);
    const struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    ssize_t n;
    do
        n = sendmsg(stream->fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return n;
    stream->writable = false;
    return errno == EAGAIN || errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

int tcp_stream_fill(struct tcp_stream *stream, uint8_t *inbox, size_t *inbox_bytes, size_t bytes)
{
    while (*inbox_bytes < bytes) {
        ssize_t n = tcp_stream_read(stream, inbox + *inbox_bytes, bytes - *inbox_bytes);
        if (n < 0)
            return (int)n;
        *inbox_bytes += (size_t)n;
    }
    return 0;
}

int tcp_stream_say(struct tcp_stream *stream, const void *words, size_t bytes)
{
    const struct iovec part = {(void *)words, bytes};
    return tcp_stream_write(stream, &part, 1) == (ssize_t)bytes ? 0 : -EIO;
}
