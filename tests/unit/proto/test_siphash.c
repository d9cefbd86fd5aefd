/* Compared with OpenSSL's implementation. */
#include "proto/siphash.h"

#include <criterion/criterion.h>
#include <endian.h>
#include <openssl/evp.h>
#include <string.h>

static const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

static void reference(const uint8_t *message, size_t message_bytes, uint64_t ret_hash[2])
{
    uint64_t wire_key[2] = {htole64(key[0]), htole64(key[1])};
    size_t length = 0;
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(mac);
    cr_assert_eq(EVP_MAC_init(context, (const uint8_t *)wire_key, sizeof(wire_key), NULL), 1);
    cr_assert_eq(EVP_MAC_update(context, message, message_bytes), 1);
    cr_assert_eq(EVP_MAC_final(context, (uint8_t *)ret_hash, &length, 16), 1);
    cr_assert_eq(length, 16);
    ret_hash[0] = le64toh(ret_hash[0]);
    ret_hash[1] = le64toh(ret_hash[1]);
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(mac);
}

Test(siphash, as_openssl_has_it)
{
    uint8_t message[100];
    for (size_t i = 0; i < sizeof(message); i++)
        message[i] = (uint8_t)i;
    for (size_t length = 0; length <= sizeof(message); length++) {
        uint64_t ours[2], theirs[2];
        siphash_128(key, message, length, ours);
        reference(message, length, theirs);
        cr_assert_arr_eq(ours, theirs, sizeof(ours), "%zu bytes", length);
    }
}

/* The first of the authors' published vectors (vectors_sip128). */
Test(siphash, as_its_authors_have_it)
{
    uint64_t hash[2];
    siphash_128(key, "", 0, hash);
    cr_assert_eq(hash[0], 0xe6a825ba047f81a3);
    cr_assert_eq(hash[1], 0x930255c71472f66d);
}
