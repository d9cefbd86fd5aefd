/*
 * TLS between a socket and us, with buffers of our own on the socket's side: many records go out in
 * one system call, and come in by one. OpenSSL's session lives as long as the handshake; then the
 * kernel has the connection, or we make the records: sealed from where data lies, and opened to
 * where it belongs, without a copy. OpenSSL's own records cost two at the end that receives, and
 * one at the end that sends.
 */
#include <endian.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "drivers/tcp/tcp.h"
#include "drivers/tcp/tcp_tls.h"

/* ---- records ---- */

enum { APPLICATION_DATA = 23, TAG_BYTES = 16, HEAD_BYTES = TCP_RECORD_HEAD_BYTES };

int tcp_record_init(struct tcp_record *record, const struct tcp_key *key, bool sends)
{
    *record = (struct tcp_record){.cipher = EVP_CIPHER_CTX_new()};
    memcpy(record->iv, key->iv, sizeof(record->iv));
    if (!record->cipher)
        return -ENOMEM;
    return EVP_CipherInit_ex(record->cipher, EVP_aes_128_gcm(), NULL, key->key, NULL, sends) ? 0
                                                                                             : -EIO;
}

void tcp_record_deinit(struct tcp_record *record)
{
    EVP_CIPHER_CTX_free(record->cipher); /* which clears the key */
    record->cipher = NULL;
}

/* The next record, whose head has been written. */
static bool begin(struct tcp_record *record, const uint8_t *head)
{
    uint8_t nonce[sizeof(record->iv)];
    const uint64_t number = htobe64(record->number++);
    int n;
    memcpy(nonce, record->iv, sizeof(nonce));
    for (unsigned i = 0; i < sizeof(number); i++)
        nonce[sizeof(nonce) - sizeof(number) + i] ^= ((const uint8_t *)&number)[i];
    return EVP_CipherInit_ex(record->cipher, NULL, NULL, NULL, nonce, -1) &&
           EVP_CipherUpdate(record->cipher, NULL, &n, head, HEAD_BYTES);
}

/* The thread's errors are the program's, too. */
static ssize_t done(bool good, size_t bytes, int error)
{
    if (good)
        return (ssize_t)bytes;
    ERR_clear_error();
    return error;
}

uint8_t *tcp_cursor_next(struct tcp_cursor *cursor, size_t most, size_t *ret_bytes)
{
    while (cursor->count > 0 && cursor->skip == cursor->parts->iov_len) {
        cursor->parts++;
        cursor->count--;
        cursor->skip = 0;
    }
    if (cursor->count == 0 || most == 0)
        return NULL;
    const size_t left = cursor->parts->iov_len - cursor->skip;
    uint8_t *bytes = (uint8_t *)cursor->parts->iov_base + cursor->skip;
    *ret_bytes = left < most ? left : most;
    cursor->skip += *ret_bytes;
    return bytes;
}

static size_t bytes_at(struct tcp_cursor cursor)
{
    size_t bytes = 0, length;
    while (bytes < TCP_RECORD_BYTES && tcp_cursor_next(&cursor, TCP_RECORD_BYTES - bytes, &length))
        bytes += length;
    return bytes;
}

ssize_t tcp_record_seal(struct tcp_record *record, struct tcp_cursor *from, uint8_t *ret_sealed)
{
    static const uint8_t type = APPLICATION_DATA;
    const size_t bytes = bytes_at(*from), inner = bytes + sizeof(type) + TAG_BYTES;
    uint8_t *to = ret_sealed + HEAD_BYTES;
    const uint8_t *part;
    size_t length;
    int n;
    ret_sealed[0] = APPLICATION_DATA;
    ret_sealed[1] = ret_sealed[2] = 3;
    ret_sealed[3] = (uint8_t)(inner >> 8);
    ret_sealed[4] = (uint8_t)inner;
    bool good = begin(record, ret_sealed);
    for (size_t left = bytes; good && (part = tcp_cursor_next(from, left, &length));
         left -= length) {
        good = EVP_CipherUpdate(record->cipher, to, &n, part, (int)length);
        to += length;
    }
    good = good && EVP_CipherUpdate(record->cipher, to, &n, &type, sizeof(type)) &&
           EVP_CipherFinal_ex(record->cipher, to + sizeof(type), &n) &&
           EVP_CIPHER_CTX_ctrl(record->cipher, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, to + sizeof(type));
    return done(good, HEAD_BYTES + inner, -EIO);
}

/* Ours have data, one type, and no padding. */
ssize_t tcp_record_sealed(const uint8_t *bytes, size_t count)
{
    if (count < HEAD_BYTES)
        return 0;
    const size_t sealed = HEAD_BYTES + ((size_t)bytes[3] << 8 | bytes[4]);
    return bytes[0] == APPLICATION_DATA && bytes[1] == 3 && bytes[2] == 3 &&
                   sealed > TCP_RECORD_EXTRA_BYTES && sealed <= TCP_SEALED_BYTES
               ? (ssize_t)sealed
               : -EPROTO;
}

ssize_t tcp_record_unseal(struct tcp_record *record, const uint8_t *bytes, size_t sealed,
                          struct tcp_cursor *to)
{
    const size_t count = sealed - TCP_RECORD_EXTRA_BYTES;
    const uint8_t *from = bytes + HEAD_BYTES;
    uint8_t type = 0, *part;
    size_t length;
    int n;
    bool good = begin(record, bytes);
    for (size_t left = count; good && (part = tcp_cursor_next(to, left, &length)); left -= length) {
        good = EVP_CipherUpdate(record->cipher, part, &n, from, (int)length);
        from += length;
    }
    good = good && EVP_CipherUpdate(record->cipher, &type, &n, from, sizeof(type)) &&
           EVP_CIPHER_CTX_ctrl(record->cipher, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES,
                               (void *)(from + sizeof(type))) &&
           EVP_CipherFinal_ex(record->cipher, &type, &n) && type == APPLICATION_DATA;
    return done(good, count, -EPROTO);
}

/* ---- buffers ---- */

enum {
    MANY_BYTES = 8 * TCP_SEALED_BYTES, /* where the data of puts goes out, or comes in */
    FEW_BYTES = TCP_SEALED_BYTES,      /* the other way: counts */
};

/* Bytes on the socket's side. */
struct buffer {
    uint8_t *bytes;
    size_t capacity, begin, end;
};

struct tcp_seal {
    SSL *ssl; /* NULL after the handshake */
    struct tcp_tls tls;
    uint8_t secret[TCP_SECRET_BYTES]; /* until the handshake is over */
    bool accepts;
    bool kernel; /* is to have the connection, if it can */
    int fd;
    int error;    /* that recv() or send() has ended with, or a record that nobody has sealed */
    bool ended;   /* the other end sends no more */
    bool drained; /* the last read took all that the socket had */
    struct buffer in, out;
    struct tcp_record receives, sends;
    /* The data of a record that there was no room for. */
    size_t plain_begin, plain_end;
    uint8_t plain[TCP_RECORD_BYTES];
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

/* No more than OpenSSL asks for, so that what comes after the handshake stays in the socket. */
static int bio_read(BIO *bio, char *bytes, size_t count, size_t *ret_read)
{
    struct tcp_seal *seal = BIO_get_data(bio);
    ssize_t n;
    BIO_clear_retry_flags(bio);
    do
        n = recv(seal->fd, bytes, count, 0);
    while (n < 0 && errno == EINTR);
    seal->ended = n == 0;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        BIO_set_retry_read(bio);
    else if (n < 0)
        seal->error = -errno;
    *ret_read = n > 0 ? (size_t)n : 0;
    return n > 0;
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

int tcp_seal_new(const struct tcp_driver *tcp, int fd, enum tcp_end end, bool kernel,
                 const uint8_t secret[TCP_SECRET_BYTES], struct tcp_seal **ret_seal)
{
    struct tcp_seal *seal = calloc(1, sizeof(*seal));
    if (!seal)
        return -ENOMEM;
    seal->fd = fd;
    seal->accepts = end == TCP_END_RECEIVER || end == TCP_END_ACCEPTED;
    seal->kernel = kernel;
    memcpy(seal->secret, secret, sizeof(seal->secret));
    seal->tls.secret = seal->secret;
    BIO *bio = BIO_new(tcp->seal_method);
    seal->ssl = tcp_tls_session(tcp->tls, seal->accepts, &seal->tls);
    if (!bio || !seal->ssl ||
        buffer_new(&seal->in, end == TCP_END_SENDER ? FEW_BYTES : MANY_BYTES) < 0 ||
        buffer_new(&seal->out, end == TCP_END_RECEIVER ? FEW_BYTES : MANY_BYTES) < 0) {
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

static void forget_secrets(struct tcp_seal *seal)
{
    tcp_tls_forget(&seal->tls);
    OPENSSL_cleanse(seal->secret, sizeof(seal->secret));
}

void tcp_seal_free(struct tcp_seal *seal)
{
    if (!seal)
        return;
    SSL_free(seal->ssl);
    tcp_record_deinit(&seal->receives);
    tcp_record_deinit(&seal->sends);
    forget_secrets(seal);
    free(seal->in.bytes);
    free(seal->out.bytes);
    free(seal);
}

/* ---- the handshake, and what comes after it ---- */

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

/* 0: records are ours; 1: they are the kernel's. */
static int give_keys(struct tcp_seal *seal)
{
    struct tcp_key sends, receives;
    const enum tcp_traffic ours = seal->accepts ? TCP_TRAFFIC_SERVER : TCP_TRAFFIC_CLIENT,
                           theirs = seal->accepts ? TCP_TRAFFIC_CLIENT : TCP_TRAFFIC_SERVER;
    int r = tcp_tls_key(&seal->tls, ours, &sends), s = -EOPNOTSUPP;
    if (r == 0)
        r = tcp_tls_key(&seal->tls, theirs, &receives);
    if (r == 0 && seal->kernel)
        s = tcp_kernel_seal(seal->fd, &sends, &receives);
    if (r == 0 && s != -EOPNOTSUPP)
        r = s < 0 ? s : 1;
    if (r == 0)
        r = tcp_record_init(&seal->sends, &sends, true);
    if (r == 0)
        r = tcp_record_init(&seal->receives, &receives, false);
    OPENSSL_cleanse(&sends, sizeof(sends));
    OPENSSL_cleanse(&receives, sizeof(receives));
    forget_secrets(seal);
    return r;
}

int tcp_seal_handshake(struct tcp_seal *seal)
{
    if (!seal->ssl)
        return 0;
    int r = SSL_do_handshake(seal->ssl);
    r = r == 1 ? flush(seal) : failure(seal, r);
    if (r < 0)
        return r;
    SSL_free(seal->ssl);
    seal->ssl = NULL;
    return give_keys(seal);
}

/* ---- reading ---- */

/* 0, -EAGAIN or why there is nothing more. */
static int receive(struct tcp_seal *seal)
{
    struct buffer *in = &seal->in;
    ssize_t n;
    memmove(in->bytes, in->bytes + in->begin, in->end - in->begin);
    in->end -= in->begin;
    in->begin = 0;
    const size_t room = in->capacity - in->end;
    do
        n = recv(seal->fd, in->bytes + in->end, room, 0);
    while (n < 0 && errno == EINTR);
    seal->drained = n < (ssize_t)room;
    if (n > 0)
        in->end += (size_t)n;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return -EAGAIN;
    if (n <= 0)
        seal->error = n == 0 ? -ECONNRESET : -errno;
    return seal->error;
}

static size_t take_plain(struct tcp_seal *seal, struct tcp_cursor *to, size_t room)
{
    const size_t there = seal->plain_end - seal->plain_begin, bytes = there < room ? there : room;
    uint8_t *part;
    size_t length;
    for (size_t left = bytes; (part = tcp_cursor_next(to, left, &length)); left -= length) {
        memcpy(part, seal->plain + seal->plain_begin, length);
        seal->plain_begin += length;
    }
    return bytes;
}

/* The next record in the buffer: data, 0 (it is not complete) or -EPROTO. */
static ssize_t open_record(struct tcp_seal *seal, struct tcp_cursor *to, size_t room)
{
    struct buffer *in = &seal->in;
    const uint8_t *bytes = in->bytes + in->begin;
    ssize_t sealed = tcp_record_sealed(bytes, in->end - in->begin);
    if (sealed <= 0 || in->end - in->begin < (size_t)sealed)
        return sealed < 0 ? sealed : 0;
    in->begin += (size_t)sealed;
    if ((size_t)sealed - TCP_RECORD_EXTRA_BYTES <= room)
        return tcp_record_unseal(&seal->receives, bytes, (size_t)sealed, to);
    const struct iovec whole = {seal->plain, sizeof(seal->plain)};
    ssize_t n = tcp_record_unseal(&seal->receives, bytes, (size_t)sealed,
                                  &(struct tcp_cursor){.parts = &whole, .count = 1});
    seal->plain_begin = 0;
    seal->plain_end = n > 0 ? (size_t)n : 0;
    return n < 0 ? n : (ssize_t)take_plain(seal, to, room);
}

ssize_t tcp_seal_read(struct tcp_seal *seal, const struct iovec *parts, int count)
{
    struct tcp_cursor to = {.parts = parts, .count = count};
    size_t room = 0;
    for (int i = 0; i < count; i++)
        room += parts[i].iov_len;
    size_t got = take_plain(seal, &to, room);
    while (got < room && seal->error == 0) {
        ssize_t n = open_record(seal, &to, room - got);
        if (n < 0)
            seal->error = (int)n;
        if (n > 0)
            got += (size_t)n;
        if (n != 0)
            continue;
        if (got > 0)
            break;
        int r = receive(seal);
        if (r == -EAGAIN)
            return r;
    }
    return got > 0 ? (ssize_t)got : seal->error;
}

bool tcp_seal_has_more(const struct tcp_seal *seal)
{
    const struct buffer *in = &seal->in;
    const ssize_t sealed = tcp_record_sealed(in->bytes + in->begin, in->end - in->begin);
    return seal->plain_begin < seal->plain_end || !seal->drained || seal->error < 0 || sealed < 0 ||
           (sealed > 0 && in->end - in->begin >= (size_t)sealed);
}

/* ---- writing ---- */

bool tcp_seal_has_unsent(const struct tcp_seal *seal)
{
    return seal->out.begin < seal->out.end;
}

int tcp_seal_flush(struct tcp_seal *seal)
{
    return flush(seal);
}

ssize_t tcp_seal_write(struct tcp_seal *seal, const struct iovec *parts, int count)
{
    struct tcp_cursor from = {.parts = parts, .count = count};
    struct buffer *out = &seal->out;
    size_t taken = 0, left = 0;
    int r = flush(seal);
    for (int i = 0; i < count; i++)
        left += parts[i].iov_len;
    while (r == 0 && taken < left && out->capacity - out->end >= TCP_SEALED_BYTES) {
        ssize_t n = tcp_record_seal(&seal->sends, &from, out->bytes + out->end);
        if (n < 0)
            return seal->error = (int)n;
        out->end += (size_t)n;
        taken += (size_t)n - TCP_RECORD_EXTRA_BYTES;
    }
    if (r == 0)
        r = flush(seal);
    return r < 0 && (r != -EAGAIN || taken == 0) ? r : (ssize_t)taken;
}
