/* TLS records that the kernel seals and opens (CONFIG_TLS): a write takes data from where it lies, a
 * read brings it to where it belongs. */
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/tcp/tcp_tls.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#ifndef TLS_RX_EXPECT_NO_PAD
#define TLS_RX_EXPECT_NO_PAD 4
#endif

static int give_key(int fd, int direction, const struct tcp_key *key)
{
    struct tls12_crypto_info_aes_gcm_128 info = {
        .info = {.version = TLS_1_3_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128}};
    memcpy(info.key, key->key, sizeof info.key);
    memcpy(info.salt, key->iv, sizeof info.salt);
    memcpy(info.iv, key->iv + sizeof info.salt, sizeof info.iv);
    const int r = setsockopt(fd, SOL_TLS, direction, &info, sizeof info) < 0 ? -errno : 0;
    OPENSSL_cleanse(&info, sizeof info);
    return r;
}

int tcp_kernel_seal(int fd, const struct tcp_key *sends, const struct tcp_key *receives)
{
    const int one = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls") < 0)
        return -EOPNOTSUPP;
    int r = give_key(fd, TLS_RX, receives);
    if (r == 0)
        r = give_key(fd, TLS_TX, sends);
    if (r == 0) /* Linux 6.0: opens records where their data belongs. Ours have no padding */
        setsockopt(fd, SOL_TLS, TLS_RX_EXPECT_NO_PAD, &one, sizeof one);
    return r;
}

/* On a connection to ourselves, because it takes one. */
static bool try_loopback(void)
{
    static const struct tcp_key key;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
              end = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool good =
        listener >= 0 && end >= 0 && bind(listener, (const struct sockaddr *)&at, sizeof at) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &bytes) == 0 &&
        connect(end, (const struct sockaddr *)&at, sizeof at) == 0 &&
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
