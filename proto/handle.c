#include "proto/handle.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "proto/siphash.h"

enum { CHECK_OFFSET = offsetof(struct handle, check) };
static_assert(CHECK_OFFSET == 12, "wire format");
static_assert(offsetof(struct handle, incarnation) == 16, "wire format");
static_assert(offsetof(struct handle, length_bytes) == 56, "wire format");

/* CRC-32C (Castagnoli), reflected, four bits at a time: each put of a plan has a handle. */
static uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t count)
{
    static const uint32_t of_bits[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        crc = (crc >> 4) ^ of_bits[crc & 15];
        crc = (crc >> 4) ^ of_bits[crc & 15];
    }
    return ~crc;
}

static uint32_t check_of(const uint8_t bytes[HANDLE_BYTES])
{
    size_t behind = CHECK_OFFSET + sizeof(uint32_t);
    uint32_t crc = crc32c(0, bytes, CHECK_OFFSET);
    return crc32c(crc, bytes + behind, HANDLE_BYTES - behind);
}

/* Converts between host and little-endian byte order; its own inverse. */
static void swap(struct handle *handle)
{
    handle->magic = htole32(handle->magic);
    handle->version = htole16(handle->version);
    handle->flags = htole16(handle->flags);
    handle->node = htole32(handle->node);
    handle->check = htole32(handle->check);
    handle->incarnation = htole64(handle->incarnation);
    handle->region = htole64(handle->region);
    handle->key[0] = htole64(handle->key[0]);
    handle->key[1] = htole64(handle->key[1]);
    handle->offset_bytes = htole64(handle->offset_bytes);
    handle->length_bytes = htole64(handle->length_bytes);
}

void handle_encode(const struct handle *handle, uint8_t ret_bytes[HANDLE_BYTES])
{
    struct handle wire = *handle;
    wire.magic = HANDLE_MAGIC;
    wire.version = HANDLE_VERSION;
    swap(&wire);
    memcpy(ret_bytes, &wire, HANDLE_BYTES);
    uint32_t check = htole32(check_of(ret_bytes));
    memcpy(ret_bytes + CHECK_OFFSET, &check, sizeof(check));
}

static void key_of(const struct handle *handle, const uint64_t secret[2], uint64_t ret_key[2])
{
    const uint64_t message[] = {htole64((uint64_t)HANDLE_VERSION << 32 | handle->node),
                                htole64(handle->incarnation), htole64(handle->region),
                                htole64(handle->offset_bytes), htole64(handle->length_bytes)};
    siphash_128(secret, message, sizeof(message), ret_key);
}

void handle_sign(struct handle *handle, const uint64_t secret[2])
{
    key_of(handle, secret, handle->key);
}

bool handle_is_signed(const struct handle *handle, const uint64_t secret[2])
{
    uint64_t key[2];
    key_of(handle, secret, key);
    return ((key[0] ^ handle->key[0]) | (key[1] ^ handle->key[1])) == 0;
}

int handle_decode(const uint8_t bytes[HANDLE_BYTES], struct handle *ret_handle)
{
    struct handle handle;
    memcpy(&handle, bytes, HANDLE_BYTES);
    swap(&handle);
    /* The check is at the same offset in every version, which distinguishes a corrupt handle from
     * one of another version. */
    if (handle.magic != HANDLE_MAGIC || handle.check != check_of(bytes))
        return -EINVAL;
    if (handle.version != HANDLE_VERSION)
        return -EPROTO;
    if (handle.flags != 0)
        return -EINVAL;
    uint64_t end;
    if (__builtin_add_overflow(handle.offset_bytes, handle.length_bytes, &end))
        return -EOVERFLOW;
    *ret_handle = handle;
    return 0;
}

const char *handle_fault(const uint8_t bytes[HANDLE_BYTES])
{
    static const uint8_t unset[HANDLE_BYTES];
    return memcmp(bytes, unset, HANDLE_BYTES) == 0
               ? "is not set (64 zero bytes): get one from tca_region_handle() in the process that "
                 "owns the region"
               : "is not a handle, or was corrupted in transit: get it from its owner again, all "
                 "64 bytes";
}
