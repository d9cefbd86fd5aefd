#include "proto/handle.h"

#include <criterion/criterion.h>
#include <errno.h>

static const struct handle sample = {
    .node = 7,
    .incarnation = 0x0102030405060708,
    .region = 42,
    .key = {0x1111111111111111, 0x2222222222222222},
    .offset_bytes = 4096,
    .length_bytes = 1 << 20,
};

Test(handle, there_and_back)
{
    uint8_t bytes[HANDLE_BYTES];
    struct handle back;
    handle_encode(&sample, bytes);
    cr_assert_eq(handle_decode(bytes, &back), 0);
    cr_assert_eq(back.node, sample.node);
    cr_assert_eq(back.incarnation, sample.incarnation);
    cr_assert_eq(back.region, sample.region);
    cr_assert_eq(back.key[0], sample.key[0]);
    cr_assert_eq(back.key[1], sample.key[1]);
    cr_assert_eq(back.offset_bytes, sample.offset_bytes);
    cr_assert_eq(back.length_bytes, sample.length_bytes);
}

/* The bytes of another machine: little endian, CRC-32C. Checked with an independent
 * implementation. */
Test(handle, bytes_stay)
{
    uint8_t bytes[HANDLE_BYTES];
    handle_encode(&sample, bytes);
    static const uint8_t front[] = {0x54, 0x43, 0x41, 0x48, 2, 0, 0, 0, 7, 0, 0, 0, 0x0c,
                                    0xc4, 0x4d, 0x0d, 8,    7, 6, 5, 4, 3, 2, 1, 42};
    cr_assert_arr_eq(bytes, front, sizeof(front));
}

Test(handle, every_garbled_bit_is_seen)
{
    uint8_t bytes[HANDLE_BYTES];
    struct handle back;
    handle_encode(&sample, bytes);
    for (unsigned bit = 0; bit < HANDLE_BYTES * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        cr_assert_eq(handle_decode(bytes, &back), -EINVAL, "bit %u", bit);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    cr_assert_eq(handle_decode(bytes, &back), 0);
}

Test(handle, zeros_are_none)
{
    uint8_t bytes[HANDLE_BYTES] = {0};
    struct handle back;
    cr_assert_eq(handle_decode(bytes, &back), -EINVAL);
}

/* Finds the checksum of changed bytes by trying; slow and simple. */
static void check_again(uint8_t bytes[HANDLE_BYTES])
{
    uint32_t crc = UINT32_MAX;
    for (unsigned bit = 0; bit < HANDLE_BYTES * 8; bit++) {
        if (bit / 8 >= 12 && bit / 8 < 16)
            continue;
        uint32_t in = (bytes[bit / 8] >> bit % 8 & 1u) ^ (crc & 1);
        crc = (crc >> 1) ^ (in ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    for (unsigned i = 0; i < 4; i++)
        bytes[12 + i] = (uint8_t)(crc >> 8 * i);
}

Test(handle, another_version)
{
    uint8_t bytes[HANDLE_BYTES];
    struct handle back;
    handle_encode(&sample, bytes);
    bytes[4]++;
    check_again(bytes);
    cr_assert_eq(handle_decode(bytes, &back), -EPROTO);
}

Test(handle, unknown_flags)
{
    uint8_t bytes[HANDLE_BYTES];
    struct handle back;
    handle_encode(&sample, bytes);
    bytes[6] = 1;
    check_again(bytes);
    cr_assert_eq(handle_decode(bytes, &back), -EINVAL);
}

static const uint64_t secret[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

Test(handle, signed_for_what_it_names)
{
    struct handle good = sample;
    handle_sign(&good, secret);
    cr_assert(handle_is_signed(&good, secret));
    cr_assert(!handle_is_signed(&good, (const uint64_t[2]){secret[0], secret[1] ^ 1}));
    struct handle forged[8];
    for (size_t i = 0; i < sizeof(forged) / sizeof(*forged); i++)
        forged[i] = good;
    forged[0].node ^= 1;
    forged[1].incarnation ^= 1;
    forged[2].region ^= 1;
    forged[3].offset_bytes = 0;
    forged[4].length_bytes += 1;
    forged[5].length_bytes -= 1; /* only the owner can sign a narrower part, too */
    forged[6].key[0] ^= 1ull << 63;
    forged[7].key[1] ^= 1;
    for (size_t i = 0; i < sizeof(forged) / sizeof(*forged); i++)
        cr_assert(!handle_is_signed(&forged[i], secret), "%zu", i);
}

/* The bytes of another machine, and of a daemon that was built elsewhere. */
Test(handle, signature_stays)
{
    struct handle handle = sample;
    handle_sign(&handle, secret);
    cr_assert_eq(handle.key[0], 0x3492404229f6384f, "%#lx", (unsigned long)handle.key[0]);
    cr_assert_eq(handle.key[1], 0xdf758459a93f97df, "%#lx", (unsigned long)handle.key[1]);
}

Test(handle, part_that_wraps_around)
{
    uint8_t bytes[HANDLE_BYTES];
    struct handle handle = sample, back = {.node = 99};
    handle.offset_bytes = UINT64_MAX - 15;
    handle.length_bytes = 15;
    handle_encode(&handle, bytes);
    cr_assert_eq(handle_decode(bytes, &back), 0);
    back.node = 99;
    handle.length_bytes = 16;
    handle_encode(&handle, bytes);
    cr_assert_eq(handle_decode(bytes, &back), -EOVERFLOW);
    cr_assert_eq(back.node, 99, "written on success only");
}
