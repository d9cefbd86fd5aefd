/*
 * TLS between a socket and us, with buffers of our own on the socket's side: many records go out in
 * one system call, and come in by one. OpenSSL's own way takes one for each record it writes and two
 * for each it reads. And its writes raise SIGPIPE.
 */
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "drivers/tcp/tcp.h"

enum {
    RECORD_BYTES = SSL3_RT_MAX_PLAIN_LENGTH,
    OVERHEAD_BYTES = 64, /* of a record: 22 in TLS 1.3 */
    SEALED_RECORD = RECORD_BYTES + OVERHEAD_BYTES,
    MANY_BYTES = 8 * SEALED_RECORD, /* where the data of puts goes out, or comes in */
    FEW_BYTES = SEALED_RECORD,      /* the other way: counts */
};

/* Bytes on the socket's side. */
struct buffer {
    uint8_t *bytes;
    size_t capacity, begin, end;
};

struct tcp_seal {
    SSL *ssl;
    int fd;
    int error;    /* that recv() or send() has ended with */
    bool ended;   /* the other end sends no more */
    bool drained; /* the last read took all that the socket had */
    bool pending; /* OpenSSL has more of a record */
    struct buffer in, out;
    uint8_t gathered[RECORD_BYTES]; /* small parts, to share a record */
};

/* ---- between OpenSSL and the buffers ---- */

static int flush(struct tcp_seal *seal)
{
    struct buffer *out = &seal->out;
    while (out->begin < out->end) {
        ssize_t n = send(seal->fd, out->bytes + out->begin, out->end - out->begin, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return -EAGAIN;
        if (n < 0)
            return seal->error = -errno;
        out->begin += (size_t)n;
    }
    out->begin = out->end = 0;
    return 0;
}

/* Callers make sure that there is room. */
static int bio_write(BIO *bio, const char *bytes, size_t count, size_t *ret_written)
{
    struct tcp_seal *seal = BIO_get_data(bio);
    struct buffer *out = &seal->out;
    if (out->capacity - out->end < count)
        return 0;
    memcpy(out->bytes + out->end, bytes, count);
    out->end += count;
    *ret_written = count;
    return 1;
}

static int receive(struct tcp_seal *seal)
{
    struct buffer *in = &seal->in;
    ssize_t n;
    do
        n = recv(seal->fd, in->bytes, in->capacity, 0);
    while (n < 0 && errno == EINTR);
    in->begin = 0;
    in->end = n > 0 ? (size_t)n : 0;
    seal->drained = in->end < in->capacity;
    seal->ended = n == 0;
    if (n > 0)
        return 1;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        seal->error = -errno;
    return n < 0 && seal->error == 0 ? -EAGAIN : 0;
}

static int bio_read(BIO *bio, char *bytes, size_t count, size_t *ret_read)
{
    struct tcp_seal *seal = BIO_get_data(bio);
    struct buffer *in = &seal->in;
    BIO_clear_retry_flags(bio);
    int r = in->begin < in->end ? 1 : receive(seal);
    if (r == -EAGAIN)
        BIO_set_retry_read(bio);
    if (r <= 0)
        return 0;
    *ret_read = in->end - in->begin < count ? in->end - in->begin : count;
    memcpy(bytes, in->bytes + in->begin, *ret_read);
    in->begin += *ret_read;
    return 1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    struct tcp_seal *seal = BIO_get_data(bio);
    switch (command) {
    case BIO_CTRL_FLUSH: /* the end of a flight; what cannot go now goes later */
        return flush(seal) == 0 || seal->error == 0;
    case BIO_CTRL_EOF:
        return seal->ended;
    default:
        return 0;
    }
}

int tcp_seal_method_new(struct bio_method_st **ret_method)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tcad tcp");
    if (!method)
        return -ENOMEM;
    BIO_meth_set_write_ex(method, bio_write);
    BIO_meth_set_read_ex(method, bio_read);
    BIO_meth_set_ctrl(method, bio_control);
    *ret_method = method;
    return 0;
}

/* ---- life ---- */

static int buffer_new(struct buffer *buffer, size_t capacity)
{
    buffer->bytes = malloc(capacity);
    buffer->capacity = capacity;
    return buffer->bytes ? 0 : -ENOMEM;
}

int tcp_seal_new(const struct tcp_driver *tcp, int fd, enum tcp_end end,
                 const uint8_t secret[TCP_SECRET_BYTES], struct tcp_seal **ret_seal)
{
    struct tcp_seal *seal = calloc(1, sizeof *seal);
    if (!seal)
        return -ENOMEM;
    seal->fd = fd;
    const bool accept = end == TCP_END_SOURCE || end == TCP_END_LISTENS;
    BIO *bio = BIO_new(tcp->seal_method);
    seal->ssl = tcp_tls_session(tcp->tls, accept, secret);
    if (!bio || !seal->ssl ||
        buffer_new(&seal->in, end == TCP_END_LINK ? FEW_BYTES : MANY_BYTES) < 0 ||
        buffer_new(&seal->out, end == TCP_END_SOURCE ? FEW_BYTES : MANY_BYTES) < 0) {
        BIO_free(bio);
        tcp_seal_free(seal);
        return -ENOMEM;
    }
    BIO_set_data(bio, seal);
    BIO_set_init(bio, 1);
    SSL_set_bio(seal->ssl, bio, bio);
    *ret_seal = seal;
    return 0;
}

void tcp_seal_free(struct tcp_seal *seal)
{
    if (!seal)
        return;
    SSL_free(seal->ssl);
    free(seal->in.bytes);
    free(seal->out.bytes);
    free(seal);
}

/* ---- between us and OpenSSL ---- */

/* Why OpenSSL has answered with 0 or less. */
static int failure(struct tcp_seal *seal, int answer)
{
    const int why = SSL_get_error(seal->ssl, answer);
    if (why == SSL_ERROR_WANT_READ)
        return -EAGAIN;
    ERR_clear_error();
    if (seal->error < 0)
        return seal->error;
    return why == SSL_ERROR_ZERO_RETURN || seal->ended ? -ECONNRESET : -EPROTO;
}

int tcp_seal_handshake(struct tcp_seal *seal)
{
    int r = SSL_do_handshake(seal->ssl);
    return r == 1 ? flush(seal) : failure(seal, r);
}

ssize_t tcp_seal_read(struct tcp_seal *seal, void *buffer, size_t bytes)
{
    size_t got;
    int r = 1;
    /* A socket without data is found out at once: OpenSSL takes a thousand instructions to say so. */
    if (seal->in.begin == seal->in.end && !seal->pending)
        r = receive(seal);
    if (r == -EAGAIN)
        return r;
    r = SSL_read_ex(seal->ssl, buffer, bytes, &got);
    seal->pending = SSL_pending(seal->ssl) > 0;
    return r == 1 ? (ssize_t)got : failure(seal, r);
}

bool tcp_seal_has_more(const struct tcp_seal *seal)
{
    return seal->in.begin < seal->in.end || !seal->drained || seal->pending;
}

bool tcp_seal_has_unsent(const struct tcp_seal *seal)
{
    return seal->out.begin < seal->out.end;
}

int tcp_seal_flush(struct tcp_seal *seal)
{
    return flush(seal);
}

/* What one record is made of, from `skip` bytes within the first part on: a long part as it lies, or
 * short ones joined. */
static const void *next_record(struct tcp_seal *seal, const struct iovec *parts, int count,
                               size_t skip, size_t *ret_bytes)
{
    size_t joined = 0;
    if (count > 0 && parts->iov_len - skip >= RECORD_BYTES) {
        *ret_bytes = RECORD_BYTES;
        return (const uint8_t *)parts->iov_base + skip;
    }
    for (; count > 0 && joined < RECORD_BYTES; parts++, count--) {
        const size_t left = parts->iov_len - skip, room = RECORD_BYTES - joined,
                     length = left < room ? left : room;
        memcpy(seal->gathered + joined, (const uint8_t *)parts->iov_base + skip, length);
        joined += length;
        skip = 0;
    }
    *ret_bytes = joined;
    return seal->gathered;
}

ssize_t tcp_seal_write(struct tcp_seal *seal, const struct iovec *parts, int count)
{
    size_t taken = 0, skip = 0, bytes;
    int r = flush(seal);
    while (r == 0 && count > 0 && seal->out.capacity - seal->out.end >= SEALED_RECORD) {
        const void *from = next_record(seal, parts, count, skip, &bytes);
        int answer = SSL_write(seal->ssl, from, (int)bytes);
        if (answer <= 0)
            return failure(seal, answer);
        taken += bytes;
        for (skip += bytes; count > 0 && skip >= parts->iov_len; parts++, count--)
            skip -= parts->iov_len;
    }
    if (r == 0)
        r = flush(seal);
    return r < 0 && (r != -EAGAIN || taken == 0) ? r : (ssize_t)taken;
}
