/* Records of TLS 1.3 that carry application data, in user space: sealed from where data lies, and opened
 * to where it belongs, without a copy. OpenSSL's own records cost two at the end that receives, and one
 * at the end that sends. */
#include <endian.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/uio.h>

#include "drivers/tcp/tcp_tls.h"

enum { APPLICATION_DATA = 23, TAG_BYTES = 16, HEAD_BYTES = TCP_RECORD_HEAD_BYTES };

int tcp_record_init(struct tcp_record *record, const struct tcp_key *key, bool sends)
{
    *record = (struct tcp_record){.cipher = EVP_CIPHER_CTX_new()};
    memcpy(record->iv, key->iv, sizeof record->iv);
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
    uint8_t nonce[sizeof record->iv];
    const uint64_t number = htobe64(record->number++);
    int n;
    memcpy(nonce, record->iv, sizeof nonce);
    for (unsigned i = 0; i < sizeof number; i++)
        nonce[sizeof nonce - sizeof number + i] ^= ((const uint8_t *)&number)[i];
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
    const size_t bytes = bytes_at(*from), inner = bytes + sizeof type + TAG_BYTES;
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
    good = good && EVP_CipherUpdate(record->cipher, to, &n, &type, sizeof type) &&
           EVP_CipherFinal_ex(record->cipher, to + sizeof type, &n) &&
           EVP_CIPHER_CTX_ctrl(record->cipher, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, to + sizeof type);
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
    good = good && EVP_CipherUpdate(record->cipher, &type, &n, from, sizeof type) &&
           EVP_CIPHER_CTX_ctrl(record->cipher, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES,
                               (void *)(from + sizeof type)) &&
           EVP_CipherFinal_ex(record->cipher, &type, &n) && type == APPLICATION_DATA;
    return done(good, count, -EPROTO);
}
