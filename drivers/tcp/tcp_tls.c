/* Secrets: random numbers, signatures, the handshake of TLS 1.3 and the keys that it ends with,
 * which the kernel is given if it encrypts (CONFIG_TLS): then a write takes data from where it
 * lies, and a read brings it to where it belongs. */
#include "drivers/tcp/tcp_tls.h"

#include <assert.h>
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/tcp/tcp.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#ifndef TLS_RX_EXPECT_NO_PAD
#define TLS_RX_EXPECT_NO_PAD 4
#endif

/* ---- random numbers and signatures ---- */

int tcp_random(void *bytes, size_t count)
{
    return getrandom(bytes, count, 0) == (ssize_t)count ? 0 : -EIO;
}

/* Of two parts and a letter, so that no message can stand for another. */
static struct tcp_signature sign(const uint8_t secret[TCP_SECRET_BYTES], char letter,
                                 const void *first, size_t first_bytes, const void *second,
                                 size_t second_bytes)
{
    uint8_t text[1 + TCP_SECRET_BYTES + sizeof(struct tcp_hello)];
    struct tcp_signature signature = {0};
    unsigned bytes = sizeof(signature.bytes);
    assert(1 + first_bytes + second_bytes <= sizeof(text));
    text[0] = (uint8_t)letter;
    memcpy(text + 1, first, first_bytes);
    memcpy(text + 1 + first_bytes, second, second_bytes);
    if (!HMAC(EVP_sha256(), secret, TCP_SECRET_BYTES, text, 1 + first_bytes + second_bytes,
              signature.bytes, &bytes))
        tcp_random(signature.bytes, sizeof(signature.bytes)); /* fits nothing */
    return signature;
}

struct tcp_signature tcp_sign_hello(const uint8_t secret[TCP_SECRET_BYTES],
                                    const uint8_t challenge[TCP_SECRET_BYTES],
                                    const struct tcp_hello *hello)
{
    return sign(secret, 'H', challenge, TCP_SECRET_BYTES, hello,
                offsetof(struct tcp_hello, by_listener));
}

struct tcp_signature tcp_sign_welcome(const uint8_t secret[TCP_SECRET_BYTES],
                                      const uint8_t nonce[TCP_SECRET_BYTES],
                                      const struct tcp_welcome *welcome)
{
    return sign(secret, 'W', nonce, TCP_SECRET_BYTES, welcome,
                offsetof(struct tcp_welcome, by_listener));
}

struct tcp_signature tcp_sign_pair(const uint8_t secret[TCP_SECRET_BYTES],
                                   const struct tcp_pair_hello *hello)
{
    return sign(secret, 'P', hello, 0, hello, offsetof(struct tcp_pair_hello, by_secret));
}

bool tcp_signed(const uint8_t by[TCP_SECRET_BYTES], const struct tcp_signature *signature)
{
    return CRYPTO_memcmp(by, signature->bytes, TCP_SECRET_BYTES) == 0;
}

/* ---- the session ---- */

static const char identity[] = "tcad tcp";
static const char label[] = "tcad tcp rail, TLS 1.3 external PSK, version 1";
static const unsigned char cipher_id[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

static SSL_SESSION *session_of(SSL *ssl)
{
    const struct tcp_tls *tls = SSL_get_app_data(ssl);
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
    uint8_t key[TCP_SECRET_BYTES];
    unsigned bytes = sizeof(key);
    SSL_SESSION *session = SSL_SESSION_new();
    const bool good =
        session && cipher &&
        HMAC(EVP_sha256(), label, sizeof(label) - 1, tls->secret, TCP_SECRET_BYTES, key, &bytes) &&
        SSL_SESSION_set1_master_key(session, key, sizeof(key)) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) &&
        SSL_SESSION_set1_id_context(session, (const unsigned char *)identity, sizeof(identity) - 1);
    OPENSSL_cleanse(key, sizeof(key));
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
    *ret_id_bytes = sizeof(identity) - 1;
    return *ret_session != NULL;
}

static int find_key(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **ret_session)
{
    *ret_session = NULL;
    if (id_bytes != sizeof(identity) - 1 || memcmp(id, identity, id_bytes) != 0)
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
    unsigned hash_bytes = sizeof(hash);
    assert(4 + length + 1 <= sizeof(info) && bytes <= sizeof(hash));
    info[0] = 0;
    info[1] = (uint8_t)bytes;
    info[2] = (uint8_t)length;
    memcpy(info + 3, name, length);
    info[3 + length] = 0; /* of the context */
    info[4 + length] = 1; /* the first block of HKDF */
    const bool good =
        HMAC(EVP_sha256(), secret, TCP_SECRET_BYTES, info, 5 + length, hash, &hash_bytes) != NULL;
    memcpy(ret, hash, bytes);
    OPENSSL_cleanse(hash, sizeof(hash));
    return good;
}

int tcp_tls_key(const struct tcp_tls *tls, enum tcp_traffic traffic, struct tcp_key *ret_key)
{
    const uint8_t *secret = tls->traffic[traffic];
    return tls->known[traffic] && expand(secret, "tls13 key", ret_key->key, sizeof(ret_key->key)) &&
                   expand(secret, "tls13 iv", ret_key->iv, sizeof(ret_key->iv))
               ? 0
               : -EPROTO;
}

void tcp_tls_forget(struct tcp_tls *tls)
{
    OPENSSL_cleanse(tls, sizeof(*tls));
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
                                        sizeof(identity) - 1)) {
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

/* ---- the kernel ---- */

static int give_key(int fd, int direction, const struct tcp_key *key)
{
    struct tls12_crypto_info_aes_gcm_128 info = {
        .info = {.version = TLS_1_3_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128}};
    memcpy(info.key, key->key, sizeof(info.key));
    memcpy(info.salt, key->iv, sizeof(info.salt));
    memcpy(info.iv, key->iv + sizeof(info.salt), sizeof(info.iv));
    const int r = setsockopt(fd, SOL_TLS, direction, &info, sizeof(info)) < 0 ? -errno : 0;
    OPENSSL_cleanse(&info, sizeof(info));
    return r;
}

int tcp_kernel_seal(int fd, const struct tcp_key *sends, const struct tcp_key *receives)
{
    const int one = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) < 0)
        return -EOPNOTSUPP;
    int r = give_key(fd, TLS_RX, receives);
    if (r == 0)
        r = give_key(fd, TLS_TX, sends);
    if (r == 0) /* Linux 6.0: opens records where their data belongs. Ours have no padding */
        setsockopt(fd, SOL_TLS, TLS_RX_EXPECT_NO_PAD, &one, sizeof(one));
    return r;
}

/* On a connection to ourselves, because it takes one. */
static bool try_loopback(void)
{
    static const struct tcp_key key;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
              end = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool good = listener >= 0 && end >= 0 &&
                      bind(listener, (const struct sockaddr *)&at, sizeof(at)) == 0 &&
                      listen(listener, 1) == 0 &&
                      getsockname(listener, (struct sockaddr *)&at, &bytes) == 0 &&
                      connect(end, (const struct sockaddr *)&at, sizeof(at)) == 0 &&
                      tcp_kernel_seal(end, &key, &key) == 0;
    if (listener >= 0)
        close(listener);
    if (end >= 0)
        close(end);
    return good;
}

static bool found;

static void find(void)
{
    found = try_loopback();
}

bool tcp_kernel_tls(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return found;
}
