/*
 * TLS of the tcp driver: keys as RFC 8448 has them, records that OpenSSL understands and that
 * nobody else can have sealed; whose records they are, the kernel's or ours; a key that is used up.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "drivers/tcp/config.h"
#include "drivers/tcp/tcp.h"
#include "drivers/tcp/tcp_tls.h"
#include "tests/unit/drivers/kit.h"

static const uint8_t secret[TCP_SECRET_BYTES] = "known to both";

/* ---- keys ---- */

/* Section 3, "{server} derive write traffic keys for handshake data". */
Test(tcp_tls, keys_of_rfc_8448)
{
    static const uint8_t key[] = {0x3f, 0xce, 0x51, 0x60, 0x09, 0xc2, 0x17, 0x27,
                                  0xd0, 0xf2, 0xe4, 0xe8, 0x6e, 0xe4, 0x03, 0xbc},
                         iv[] = {0x5d, 0x31, 0x3e, 0xb2, 0x67, 0x12,
                                 0x76, 0xee, 0x13, 0x00, 0x0b, 0x30};
    struct tcp_tls tls = {.traffic[TCP_TRAFFIC_SERVER] = {0xb6, 0x7b, 0x7d, 0x69, 0x0c, 0xc1, 0x6c,
                                                          0x4e, 0x75, 0xe5, 0x42, 0x13, 0xcb, 0x2d,
                                                          0x37, 0xb4, 0xe9, 0xc9, 0x12, 0xbc, 0xde,
                                                          0xd9, 0x10, 0x5d, 0x42, 0xbe, 0xfd, 0x59,
                                                          0xd3, 0x91, 0xad, 0x38},
                          .known[TCP_TRAFFIC_SERVER] = true};
    struct tcp_key found;
    cr_assert(tcp_tls_key(&tls, TCP_TRAFFIC_SERVER, &found) == 0);
    cr_assert(memcmp(found.key, key, sizeof(key)) == 0 && memcmp(found.iv, iv, sizeof(iv)) == 0);
    cr_assert(tcp_tls_key(&tls, TCP_TRAFFIC_CLIENT, &found) == -EPROTO);
    tcp_tls_forget(&tls);
    cr_assert(tcp_tls_key(&tls, TCP_TRAFFIC_SERVER, &found) == -EPROTO);
}

/* ---- records ---- */

/* One end is OpenSSL's. */
struct pair {
    SSL_CTX *context;
    struct tcp_tls tls[2];
    SSL *ssl[2];
    struct tcp_record sends, receives; /* of end 0, which accepts */
};

static void pair_open(struct pair *pair)
{
    BIO *bios[2];
    struct tcp_key sends, receives;
    *pair = (struct pair){.tls = {{.secret = secret}, {.secret = secret}}};
    cr_assert(tcp_tls_new(&pair->context) == 0);
    cr_assert(BIO_new_bio_pair(&bios[0], 1 << 17, &bios[1], 1 << 17));
    for (int i = 0; i < 2; i++) {
        pair->ssl[i] = tcp_tls_session(pair->context, i == 0, &pair->tls[i]);
        cr_assert_not_null(pair->ssl[i]);
        SSL_set_bio(pair->ssl[i], bios[i], bios[i]);
    }
    for (int turn = 0; turn < 5; turn++)
        SSL_do_handshake(pair->ssl[turn % 2]);
    cr_assert(SSL_is_init_finished(pair->ssl[0]) && SSL_is_init_finished(pair->ssl[1]));
    cr_assert(tcp_tls_key(&pair->tls[0], TCP_TRAFFIC_SERVER, &sends) == 0 &&
              tcp_tls_key(&pair->tls[0], TCP_TRAFFIC_CLIENT, &receives) == 0);
    cr_assert(tcp_record_init(&pair->sends, &sends, true) == 0 &&
              tcp_record_init(&pair->receives, &receives, false) == 0);
}

static void pair_close(struct pair *pair)
{
    tcp_record_deinit(&pair->sends);
    tcp_record_deinit(&pair->receives);
    SSL_free(pair->ssl[0]);
    SSL_free(pair->ssl[1]);
    SSL_CTX_free(pair->context);
}

/* The record that OpenSSL makes of it. */
static size_t openssl_seals(struct pair *pair, const uint8_t *data, size_t bytes, uint8_t *ret)
{
    cr_assert(SSL_write(pair->ssl[1], data, (int)bytes) == (int)bytes);
    const int sealed = BIO_read(SSL_get_rbio(pair->ssl[0]), ret, TCP_SEALED_BYTES);
    cr_assert(sealed > 0 && tcp_record_sealed(ret, (size_t)sealed) == sealed);
    return (size_t)sealed;
}

static ssize_t opened(struct pair *pair, const uint8_t *sealed, size_t bytes, uint8_t *ret)
{
    const struct iovec part = {ret, TCP_RECORD_BYTES};
    return tcp_record_unseal(&pair->receives, sealed, bytes,
                             &(struct tcp_cursor){.parts = &part, .count = 1});
}

/* From and to parts of all kinds, the first of them begun already. */
static struct tcp_cursor scattered(uint8_t *memory, size_t bytes, struct iovec parts[4])
{
    const size_t tiny = bytes > 2 ? 1 : 0, first = (bytes - tiny) / 3;
    parts[0] = (struct iovec){memory, 5 + first};
    parts[1] = (struct iovec){memory + 100 + first, 0};
    parts[2] = (struct iovec){memory + 200 + first, tiny};
    parts[3] = (struct iovec){memory + 300 + first, bytes - first - tiny};
    return (struct tcp_cursor){.parts = parts, .count = 4, .skip = 5};
}

static void gather(struct tcp_cursor cursor, uint8_t *ret)
{
    const uint8_t *part;
    size_t length;
    for (; (part = tcp_cursor_next(&cursor, SIZE_MAX, &length)); ret += length)
        memcpy(ret, part, length);
}

Test(tcp_tls, records_of_openssl)
{
    static const size_t sizes[] = {1, 2, 15, 16, 17, 1000, 16383, TCP_RECORD_BYTES};
    static uint8_t data[TCP_RECORD_BYTES], sealed[TCP_SEALED_BYTES], from[17000], to[17000],
        back[TCP_RECORD_BYTES];
    struct iovec parts[4];
    struct pair pair;
    pair_open(&pair);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t bytes = sizes[i];
        fill(from, sizeof(from), (uint32_t)i);
        gather(scattered(from, bytes, parts), data);
        /* ours, which OpenSSL opens */
        struct tcp_cursor cursor = scattered(from, bytes, parts);
        ssize_t n = tcp_record_seal(&pair.sends, &cursor, sealed);
        cr_assert(n == (ssize_t)(bytes + TCP_RECORD_EXTRA_BYTES));
        cr_assert(tcp_record_sealed(sealed, (size_t)n) == n);
        cr_assert(BIO_write(SSL_get_wbio(pair.ssl[0]), sealed, (int)n) == n);
        cr_assert(SSL_read(pair.ssl[1], back, sizeof(back)) == (int)bytes);
        cr_assert(memcmp(back, data, bytes) == 0);
        /* and the other way */
        const size_t length = openssl_seals(&pair, data, bytes, sealed);
        memset(back, 0, sizeof(back));
        cursor = scattered(to, bytes, parts);
        cr_assert(tcp_record_unseal(&pair.receives, sealed, length, &cursor) == (ssize_t)bytes);
        gather(scattered(to, bytes, parts), back);
        cr_assert(memcmp(back, data, bytes) == 0);
    }
    pair_close(&pair);
}

/* Longer ones are cut. */
Test(tcp_tls, several_records)
{
    static uint8_t data[40000], sealed[TCP_SEALED_BYTES];
    const struct iovec part = {data, sizeof(data)};
    struct tcp_cursor cursor = {.parts = &part, .count = 1};
    struct pair pair;
    pair_open(&pair);
    const size_t last = sizeof(data) - 2 * TCP_RECORD_BYTES;
    cr_assert(tcp_record_seal(&pair.sends, &cursor, sealed) == TCP_SEALED_BYTES);
    cr_assert(tcp_record_seal(&pair.sends, &cursor, sealed) == TCP_SEALED_BYTES);
    cr_assert(tcp_record_seal(&pair.sends, &cursor, sealed) ==
              (ssize_t)(last + TCP_RECORD_EXTRA_BYTES));
    pair_close(&pair);
}

/* Any bit, another order, twice, of another type. */
Test(tcp_tls, forged_records)
{
    static uint8_t data[64], good[2][TCP_SEALED_BYTES], bad[TCP_SEALED_BYTES],
        back[TCP_RECORD_BYTES];
    struct pair pair;
    pair_open(&pair);
    const size_t bytes = openssl_seals(&pair, data, sizeof(data), good[0]);
    pair_close(&pair);
    for (size_t bit = 0; bit < 8 * bytes; bit += bit < 40 ? 1 : 7) {
        pair_open(&pair);
        openssl_seals(&pair, data, sizeof(data), bad);
        bad[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert(tcp_record_sealed(bad, bytes) != (ssize_t)bytes ||
                  opened(&pair, bad, bytes, back) == -EPROTO);
        pair_close(&pair);
    }
    pair_open(&pair);
    for (int i = 0; i < 2; i++)
        openssl_seals(&pair, data, sizeof(data), good[i]);
    cr_assert(opened(&pair, good[1], bytes, back) == -EPROTO); /* number 0 is expected */
    pair_close(&pair);
    pair_open(&pair);
    openssl_seals(&pair, data, sizeof(data), good[0]);
    cr_assert(opened(&pair, good[0], bytes, back) == sizeof(data));
    cr_assert(opened(&pair, good[0], bytes, back) == -EPROTO);
    pair_close(&pair);
    pair_open(&pair);
    cr_assert(SSL_key_update(pair.ssl[1], SSL_KEY_UPDATE_NOT_REQUESTED) &&
              SSL_do_handshake(pair.ssl[1]) == 1);
    const int update = BIO_read(SSL_get_rbio(pair.ssl[0]), bad, sizeof(bad));
    cr_assert(update > 0 && tcp_record_sealed(bad, (size_t)update) == update);
    cr_assert(opened(&pair, bad, (size_t)update, back) == -EPROTO);
    pair_close(&pair);
}

Test(tcp_tls, heads_of_records)
{
    uint8_t head[TCP_RECORD_HEAD_BYTES] = {23, 3, 3, 0, 18};
    cr_assert(tcp_record_sealed(head, 4) == 0);
    cr_assert(tcp_record_sealed(head, 5) == 23);
    head[4] = 17; /* no data */
    cr_assert(tcp_record_sealed(head, 5) == -EPROTO);
    head[3] = 0x40, head[4] = 17; /* all that one may have, and one byte more */
    cr_assert(tcp_record_sealed(head, 5) == TCP_SEALED_BYTES);
    head[4] = 18;
    cr_assert(tcp_record_sealed(head, 5) == -EPROTO);
}

/* ---- whose records they are ---- */

Test(tcp_tls, a_socket_that_the_kernel_cannot_encrypt)
{
    static const struct tcp_key key;
    int ends[2];
    char byte = 'a';
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    cr_assert(tcp_kernel_seal(ends[0], &key, &key) == -EOPNOTSUPP);
    cr_assert(send(ends[0], &byte, 1, 0) == 1 && recv(ends[1], &byte, 1, 0) == 1);
    close(ends[0]);
    close(ends[1]);
}

/* As the kernel says, in its first network namespace; others do not have the file. */
static void check_kernel(bool found)
{
    char text[256] = "";
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_available_ulp", "r");
    if (!file)
        return;
    cr_assert_not_null(fgets(text, sizeof(text), file));
    fclose(file);
    cr_assert(found == (strstr(text, "tls") != NULL));
}

static void check_caps(const struct tcp_config *own, bool kernel, const char *detail)
{
    const struct driver_config config = {.own = own};
    struct driver_caps caps;
    cr_assert(tcp_probe(&config, &caps) == 0);
    cr_assert(caps.kernel_tls == kernel);
    cr_assert_str_eq(caps.detail, detail);
}

Test(tcp_tls, said)
{
    const bool kernel = tcp_kernel_tls();
    check_kernel(kernel);
    check_caps(&(struct tcp_config){0}, kernel,
               kernel ? "TCP, TLS 1.3 by the kernel" : "TCP, TLS 1.3");
    check_caps(&(struct tcp_config){.user_space = true}, false, "TCP, TLS 1.3");
    check_caps(&(struct tcp_config){.plain = true}, kernel, "TCP, in clear");
}

/* ---- a key that is used up ---- */

/* The connection is replaced by one with another key, in the middle of a put, which arrives
 * once. */
Test(tcp_tls, key_used_up, .timeout = 60)
{
    enum { BYTES = 2 << 20 };
    struct side sender, receiver;
    struct driver_peer *peer;
    struct driver_landing *landing;
    struct driver_put *put;
    struct driver_put_info info;
    uint8_t address[ADDRESS_MAX_BYTES], blob[LANDING_MAX_BYTES];
    struct layout *layout;
    cr_assert(layout_contiguous(BYTES, &layout) == 0);
    cr_assert(side_open(&sender, "tcp", 0, BYTES) == 0);
    cr_assert(side_open(&receiver, "tcp", 0, BYTES) == 0);
    const struct driver_ops *ops = sender.driver->ops;
    struct driver_landing_args target = {
        .region = receiver.region, .layout = layout, .notify = true};
    struct driver_put_args args = {
        .region = sender.region, .landing = blob, .layout = layout, .target_layout = layout};
    cr_assert(ops->landing_new(receiver.driver, &target, &landing, blob, &args.landing_bytes) == 0);
    const int address_bytes = ops->address(receiver.driver, address);
    cr_assert(connect_to(sender.driver, address, (size_t)address_bytes, &peer) == 0);
    args.peer = peer;
    cr_assert(ops->put_prepare(sender.driver, &args, &put, &info) == 0);
    const struct tcp_sender *puts = &((struct tcp_peer *)peer)->sender;
    for (uint32_t turn = 0; turn < 3; turn++) {
        struct op op;
        op_init(&op);
        fill(sender.memory, BYTES, turn);
        receiver.notified_count = 0;
        if (turn == 1)
            puts->connection->records =
                TCP_KEY_RECORDS - 40; /* of the 128 and more that it takes */
        cr_assert(post(&sender, &receiver, put, &op) == 0);
        cr_assert(pump_until(&sender, &receiver, &op.done, 1));
        pump_rounds(&sender, &receiver, 100);
        cr_assert(op.status == 0 && receiver.notified_count == 1);
        cr_assert(memcmp(receiver.memory, sender.memory, BYTES) == 0);
        cr_assert(puts->connection->records > 0 &&
                  puts->connection->records < 1000); /* another one */
    }
    ops->put_release(sender.driver, put);
    ops->peer_disconnect(sender.driver, peer);
    ops->landing_free(receiver.driver, landing);
    side_close(&sender);
    side_close(&receiver);
    free(layout);
}
