/* TLS 1.3 of the tcp driver: OpenSSL makes the handshake, with a key that both ends derive from the
 * listener's secret. Then records are sealed with the keys that the handshake has ended with, by
 * the kernel or by tcp_seal.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "drivers/tcp/tcp_wire.h"

struct evp_cipher_ctx_st;
struct iovec;
struct ssl_ctx_st;
struct ssl_st;

/* ---- the handshake: tcp_tls.c ---- */

enum tcp_traffic { TCP_TRAFFIC_CLIENT, TCP_TRAFFIC_SERVER };

/* Outlives its session; cleared by tcp_tls_forget(). */
struct tcp_tls {
    const uint8_t *secret; /* of the end that accepts */
    uint8_t traffic[2][TCP_SECRET_BYTES];
    bool known[2];
};

int tcp_tls_new(struct ssl_ctx_st **ret_context);
struct ssl_st *tcp_tls_session(struct ssl_ctx_st *context, bool accept, struct tcp_tls *tls);

/* Of one direction: TLS_AES_128_GCM_SHA256. */
struct tcp_key {
    uint8_t key[16];
    uint8_t iv[12];
};
/* After the handshake. -EPROTO: OpenSSL has told no secret. */
int tcp_tls_key(const struct tcp_tls *tls, enum tcp_traffic traffic, struct tcp_key *ret_key);
void tcp_tls_forget(struct tcp_tls *tls);

/* ---- the kernel's records: tcp_tls.c ---- */

/* Whether this kernel encrypts and decrypts TLS 1.3; found out once in a process. */
bool tcp_kernel_tls(void);
/* The socket takes and gives plain text from now on. -EOPNOTSUPP: this socket cannot, it is as
 * before. Else it is of no use any more. */
int tcp_kernel_seal(int fd, const struct tcp_key *sends, const struct tcp_key *receives);

/* ---- our own records: tcp_seal.c ---- */

enum {
    TCP_RECORD_BYTES = 16 << 10, /* of data, at most */
    TCP_RECORD_HEAD_BYTES = 5,
    TCP_RECORD_EXTRA_BYTES = TCP_RECORD_HEAD_BYTES + 1 + 16, /* the type, the tag */
    TCP_SEALED_BYTES = TCP_RECORD_BYTES + TCP_RECORD_EXTRA_BYTES,
};

/* The records of one direction. */
struct tcp_record {
    struct evp_cipher_ctx_st *cipher;
    uint8_t iv[12];
    uint64_t number; /* of the next record */
};

/* Where data lies. */
struct tcp_cursor {
    const struct iovec *parts;
    int count;
    size_t skip; /* of the first part */
};
/* The next bytes there, at most so many; the cursor moves on. NULL: it is at its end. */
uint8_t *tcp_cursor_next(struct tcp_cursor *cursor, size_t most, size_t *ret_bytes);

int tcp_record_init(struct tcp_record *record, const struct tcp_key *key, bool sends);
void tcp_record_deinit(struct tcp_record *record);
/* One record of what lies at the cursor: its bytes, at most TCP_SEALED_BYTES, or an error. Moves
 * the cursor on. */
ssize_t tcp_record_seal(struct tcp_record *record, struct tcp_cursor *from, uint8_t *ret_sealed);
/* How many bytes the record that begins here has; 0: that is not known yet. -EPROTO: we make
 * no such records. */
ssize_t tcp_record_sealed(const uint8_t *bytes, size_t count);
/* Of its `sealed` bytes, all of them there. The cursor has room for the data: its bytes, or
 * -EPROTO: it was not sealed by the other end, and what the cursor has led to is anything. */
ssize_t tcp_record_unseal(struct tcp_record *record, const uint8_t *bytes, size_t sealed,
                          struct tcp_cursor *to);
