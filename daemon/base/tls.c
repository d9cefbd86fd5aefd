#include "daemon/base/tls.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/secret.h"

enum { PSK_BYTES = 32 };

static const char identity[] = "tcad";
/* Binds the derived key to this purpose. */
static const char label[] = "tcad cluster key, TLS 1.3 external PSK, version 1";
static const unsigned char cipher_id[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

struct tls {
    SSL_CTX *context;
    unsigned char psk[PSK_BYTES];
};

/* ---- the key ---- */

static int derive(const unsigned char *key, size_t bytes, unsigned char ret_psk[static PSK_BYTES],
                  char *text, size_t text_bytes)
{
    unsigned ret_bytes = PSK_BYTES;
    if (!HMAC(EVP_sha256(), label, sizeof(label) - 1, key, bytes, ret_psk, &ret_bytes)) {
        snprintf(text, text_bytes, "OpenSSL does not offer HMAC with SHA-256");
        return -EIO;
    }
    return 0;
}

static int read_key(const char *path, unsigned char ret_psk[static PSK_BYTES], char *text,
                    size_t text_bytes)
{
    unsigned char key[SECRET_MAX_BYTES];
    char why[160];
    size_t bytes = 0;

    int r = config_secret_read(path, key, &bytes, why, sizeof(why));
    if (r < 0)
        snprintf(text, text_bytes, "the key file %s %s%s", path, why,
                 r == -ENOENT
                     ? " (make one with (umask 077; openssl rand -hex 32 > FILE), the same "
                       "for all nodes)"
                     : "");
    else
        r = derive(key, bytes, ret_psk, text, text_bytes);
    OPENSSL_cleanse(key, sizeof(key));
    return r;
}

/* ---- the pre-shared key in the handshake ---- */

static SSL_SESSION *psk_session(SSL *ssl)
{
    struct tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
    SSL_SESSION *session = SSL_SESSION_new();

    if (session && cipher && SSL_SESSION_set1_master_key(session, tls->psk, sizeof(tls->psk)) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) &&
        SSL_SESSION_set1_id_context(session, (const unsigned char *)identity, sizeof(identity) - 1))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

/* Callback of the connecting side. */
static int use_psk(SSL *ssl, const EVP_MD *digest, const unsigned char **ret_id,
                   size_t *ret_id_bytes, SSL_SESSION **ret_session)
{
    *ret_session = psk_session(ssl);
    *ret_id = (const unsigned char *)identity;
    *ret_id_bytes = sizeof(identity) - 1;
    return *ret_session != NULL; /* there is one cipher suite, so its digest always matches */
}

/* Callback of the accepting side. */
static int find_psk(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **ret_session)
{
    *ret_session = NULL;
    if (id_bytes != sizeof(identity) - 1 || memcmp(id, identity, id_bytes) != 0)
        return 1; /* continues without a key and fails with an alert, as there is no certificate */
    *ret_session = psk_session(ssl);
    return *ret_session != NULL;
}

static int configure(SSL_CTX *context)
{
    if (!SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") ||
        !SSL_CTX_set_num_tickets(context, 0) ||
        !SSL_CTX_set_session_id_context(context, (const unsigned char *)identity,
                                        sizeof(identity) - 1))
        return -EIO;
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context,
                        SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1); /* one system call for a record, instead of two */
    /* No certificate is trusted: only the key authenticates. */
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_psk_use_session_callback(context, use_psk);
    SSL_CTX_set_psk_find_session_callback(context, find_psk);
    return 0;
}

int tls_secret(const struct tls *tls, const char *purpose, uint64_t ret_secret[2])
{
    unsigned char hash[PSK_BYTES];
    unsigned bytes = sizeof(hash);
    if (!HMAC(EVP_sha256(), tls->psk, sizeof(tls->psk), (const unsigned char *)purpose,
              strlen(purpose), hash, &bytes))
        return -EIO;
    memcpy(ret_secret, hash, 2 * sizeof(ret_secret[0]));
    return 0;
}

int tls_new(const char *key_file, char *text, size_t text_bytes, struct tls **ret_tls)
{
    struct tls *tls = calloc(1, sizeof(*tls));
    if (!tls) {
        snprintf(text, text_bytes, "out of memory");
        return -ENOMEM;
    }
    int r = read_key(key_file, tls->psk, text, text_bytes);
    if (r == 0) {
        tls->context = SSL_CTX_new(TLS_method());
        r = tls->context ? configure(tls->context) : -ENOMEM;
        if (r < 0)
            snprintf(text, text_bytes,
                     "OpenSSL does not offer TLS 1.3 with TLS_AES_128_GCM_SHA256");
    }
    if (r < 0) {
        tls_free(tls);
        return r;
    }
    SSL_CTX_set_app_data(tls->context, tls);
    *ret_tls = tls;
    return 0;
}

struct tls *tls_free(struct tls *tls)
{
    if (!tls)
        return NULL;
    SSL_CTX_free(tls->context);
    OPENSSL_cleanse(tls->psk, sizeof(tls->psk));
    free(tls);
    return NULL;
}

/* ---- for streams ---- */

struct ssl_st *tls_session_new(struct tls *tls, bool accept, int fd)
{
    SSL *session = SSL_new(tls->context);
    if (!session || !SSL_set_fd(session, fd))
        return tls_session_free(session);
    if (accept)
        SSL_set_accept_state(session);
    else
        SSL_set_connect_state(session);
    return session;
}

struct ssl_st *tls_session_free(struct ssl_st *session)
{
    SSL_free(session);
    return NULL;
}

/* What to tell the operator, and the corresponding negative errno. */
static int explain(unsigned long error, const char **ret_text)
{
    if (ERR_SYSTEM_ERROR(error)) {
        *ret_text = "connection lost";
        return -ECONNRESET;
    }
    switch (ERR_GET_REASON(error)) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
        *ret_text = "the cluster keys differ: compare key_file of both nodes";
        return -EACCES;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_RECORD_LENGTH_MISMATCH:
        *ret_text = "it does not use TLS: compare control.security of both nodes";
        return -EPROTO;
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        *ret_text = "it uses TLS without a cluster key, unlike tcad";
        return -EACCES;
    default:
        *ret_text = ERR_reason_error_string(error);
        if (!*ret_text)
            *ret_text = "the TLS layer failed";
        return -EPROTO;
    }
}

static struct tls_result failed(int error, const char *text)
{
    return (struct tls_result){
        .what = TLS_FAILED, .error = error, .text = text ? text : "connection lost"};
}

/* r: of an operation before which the thread's queue of errors was empty. ready: the handshake is
 * complete. */
static struct tls_result result_of(const SSL *session, int r, size_t bytes, bool ready)
{
    const int socket_error = errno;
    const char *text;
    int error;
    switch (SSL_get_error(session, r)) {
    case SSL_ERROR_NONE:
        return (struct tls_result){.what = TLS_DONE, .bytes = bytes};
    case SSL_ERROR_WANT_READ:
        return (struct tls_result){.what = TLS_WAITS_TO_READ};
    case SSL_ERROR_WANT_WRITE:
        return (struct tls_result){.what = TLS_WAITS_TO_WRITE};
    case SSL_ERROR_ZERO_RETURN:
        return (struct tls_result){.what = TLS_ENDED};
    case SSL_ERROR_SYSCALL:
        return socket_error ? failed(-socket_error, strerrordesc_np(socket_error))
                            : failed(-ECONNRESET, NULL);
    default:
        error = explain(ERR_get_error(), &text);
        /* What breaks TLS after the handshake is not the other side's doing. */
        return failed(ready ? -ECONNRESET : error, text);
    }
}

struct tls_result tls_handshake(struct ssl_st *session)
{
    ERR_clear_error();
    const struct tls_result result = result_of(session, SSL_do_handshake(session), 0, false);
    /* true for handshakes with a pre-shared key; session resumption is disabled */
    if (result.what == TLS_DONE && !SSL_session_reused(session))
        return failed(-EACCES, "it did not authenticate with the cluster key");
    return result;
}

struct tls_result tls_read(struct ssl_st *session, void *ret_bytes, size_t room)
{
    size_t bytes = 0;
    ERR_clear_error();
    int r = SSL_read_ex(session, ret_bytes, room, &bytes);
    return result_of(session, r, bytes, true);
}

struct tls_result tls_write(struct ssl_st *session, const void *bytes, size_t count)
{
    size_t written = 0;
    ERR_clear_error();
    int r = SSL_write_ex(session, bytes, count, &written);
    return result_of(session, r, written, true);
}

bool tls_has_data(const struct ssl_st *session)
{
    return SSL_has_pending(session);
}
