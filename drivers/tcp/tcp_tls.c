#include "drivers/tcp/tcp_tls.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <string.h>

static const char identity[] = "tcad tcp";
static const char label[] = "tcad tcp rail, TLS 1.3 external PSK, version 1";
static const unsigned char cipher_id[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

static SSL_SESSION *session_of(SSL *ssl)
{
    const struct tcp_tls *tls = SSL_get_app_data(ssl);
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
    uint8_t key[TCP_SECRET_BYTES];
    unsigned bytes = sizeof key;
    SSL_SESSION *session = SSL_SESSION_new();
    const bool good =
        session && cipher &&
        HMAC(EVP_sha256(), label, sizeof label - 1, tls->secret, TCP_SECRET_BYTES, key, &bytes) &&
        SSL_SESSION_set1_master_key(session, key, sizeof key) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) &&
        SSL_SESSION_set1_id_context(session, (const unsigned char *)identity, sizeof identity - 1);
    OPENSSL_cleanse(key, sizeof key);
    if (good)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int use_key(SSL *ssl, const EVP_MD *digest, const unsigned char **ret_id,
                   size_t *ret_id_bytes, SSL_SESSION **ret_session)
{
    *ret_session = session_of(ssl);
    *ret_id = (const unsigned char *)identity;
    *ret_id_bytes = sizeof identity - 1;
    return *ret_session != NULL;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **ret_session)
{
    *ret_session = NULL;
    if (id_bytes != sizeof identity - 1 || memcmp(id, identity, id_bytes) != 0)
        return 1; /* there is no certificate either: the handshake fails with an alert */
    *ret_session = session_of(ssl);
    return *ret_session != NULL;
}

/* ---- the keys of records ---- */

static int nibble(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
           : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                          : -1;
}

/* OpenSSL tells a secret as the line "LABEL RANDOM SECRET", the last two in hexadecimal. */
static void take_secret(const SSL *ssl, const char *line)
{
    static const char *const labels[] = {[TCP_TRAFFIC_CLIENT] = "CLIENT_TRAFFIC_SECRET_0 ",
                                         [TCP_TRAFFIC_SERVER] = "SERVER_TRAFFIC_SECRET_0 "};
    struct tcp_tls *tls = SSL_get_app_data(ssl);
    const char *digits = strrchr(line, ' ');
    for (unsigned i = 0; i < 2; i++) {
        if (strncmp(line, labels[i], strlen(labels[i])) != 0 ||
            strlen(digits + 1) != 2 * TCP_SECRET_BYTES)
            continue;
        tls->known[i] = true;
        for (unsigned n = 0; n < TCP_SECRET_BYTES; n++) {
            const int high = nibble(digits[1 + 2 * n]), low = nibble(digits[2 + 2 * n]);
            tls->known[i] &= high >= 0 && low >= 0;
            tls->traffic[i][n] = (uint8_t)(high << 4 | low);
        }
    }
}

/* HKDF-Expand-Label of RFC 8446 without a context, for results that one hash is long enough for. */
static bool expand(const uint8_t *secret, const char *name, uint8_t *ret, size_t bytes)
{
    uint8_t info[32], hash[TCP_SECRET_BYTES];
    const size_t length = strlen(name);
    unsigned hash_bytes = sizeof hash;
    assert(4 + length + 1 <= sizeof info && bytes <= sizeof hash);
    info[0] = 0;
    info[1] = (uint8_t)bytes;
    info[2] = (uint8_t)length;
    memcpy(info + 3, name, length);
    info[3 + length] = 0; /* of the context */
    info[4 + length] = 1; /* the first block of HKDF */
    const bool good =
        HMAC(EVP_sha256(), secret, TCP_SECRET_BYTES, info, 5 + length, hash, &hash_bytes) != NULL;
    memcpy(ret, hash, bytes);
    OPENSSL_cleanse(hash, sizeof hash);
    return good;
}

int tcp_tls_key(const struct tcp_tls *tls, enum tcp_traffic traffic, struct tcp_key *ret_key)
{
    const uint8_t *secret = tls->traffic[traffic];
    return tls->known[traffic] && expand(secret, "tls13 key", ret_key->key, sizeof ret_key->key) &&
                   expand(secret, "tls13 iv", ret_key->iv, sizeof ret_key->iv)
               ? 0
               : -EPROTO;
}

void tcp_tls_forget(struct tcp_tls *tls)
{
    OPENSSL_cleanse(tls, sizeof *tls);
}

/* ---- handshakes ---- */

int tcp_tls_new(struct ssl_ctx_st **ret_context)
{
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (!context)
        return -ENOMEM;
    if (!SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") ||
        !SSL_CTX_set_num_tickets(context, 0) ||
        !SSL_CTX_set_session_id_context(context, (const unsigned char *)identity,
                                        sizeof identity - 1)) {
        SSL_CTX_free(context);
        return -EIO;
    }
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context,
                        SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_psk_use_session_callback(context, use_key);
    SSL_CTX_set_psk_find_session_callback(context, find_key);
    SSL_CTX_set_keylog_callback(context, take_secret);
    *ret_context = context;
    return 0;
}

struct ssl_st *tcp_tls_session(struct ssl_ctx_st *context, bool accept, struct tcp_tls *tls)
{
    SSL *ssl = SSL_new(context);
    if (!ssl)
        return NULL;
    SSL_set_app_data(ssl, tls);
    if (accept)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    return ssl;
}
