/* TLS 1.3 with a key that both ends derive from the listener's secret. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <string.h>

#include "drivers/tcp/tcp.h"

static const char identity[] = "tcad tcp";
static const char label[] = "tcad tcp rail, TLS 1.3 external PSK, version 1";
static const unsigned char cipher_id[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

static SSL_SESSION *session_of(SSL *ssl)
{
    const uint8_t *secret = SSL_get_app_data(ssl);
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
    uint8_t key[TCP_SECRET_BYTES];
    unsigned bytes = sizeof key;
    SSL_SESSION *session = SSL_SESSION_new();
    const bool good =
        session && cipher &&
        HMAC(EVP_sha256(), label, sizeof label - 1, secret, TCP_SECRET_BYTES, key, &bytes) &&
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
    *ret_context = context;
    return 0;
}

struct ssl_st *tcp_tls_session(struct ssl_ctx_st *context, bool accept,
                               const uint8_t secret[TCP_SECRET_BYTES])
{
    SSL *ssl = SSL_new(context);
    if (!ssl)
        return NULL;
    SSL_set_app_data(ssl, (void *)secret);
    if (accept)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    return ssl;
}
