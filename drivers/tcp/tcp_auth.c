/* Random numbers and signatures. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#include "drivers/tcp/tcp.h"

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
    unsigned bytes = sizeof signature.bytes;
    assert(1 + first_bytes + second_bytes <= sizeof text);
    text[0] = (uint8_t)letter;
    memcpy(text + 1, first, first_bytes);
    memcpy(text + 1 + first_bytes, second, second_bytes);
    if (!HMAC(EVP_sha256(), secret, TCP_SECRET_BYTES, text, 1 + first_bytes + second_bytes,
              signature.bytes, &bytes))
        tcp_random(signature.bytes, sizeof signature.bytes); /* fits nothing */
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
