/*
 * A handle names memory anywhere in the cluster: 64 bytes of plain data, valid in any process,
 * copied by any means. It is a capability: a process that holds it and runs as the region's user
 * may put into that memory until the region is freed. It is valid only for the part that it names:
 * its key is a keyed hash of the other fields, with a secret known only to the region's node and to
 * the process that owns the region. Either can make handles of parts without asking the other.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HANDLE_BYTES = 64,
    HANDLE_MAGIC = 0x48414354, /* "TCAH" */
    HANDLE_VERSION = 2,        /* 1: the key did not depend on the part */
};

/* The layout of the 64 bytes, little-endian. A daemon never reuses a region id, and each start of a
 * daemon draws a random incarnation: together they are the handle's generation. */
struct handle {
    uint32_t magic;
    uint16_t version;
    uint16_t flags; /* 0 */
    uint32_t node;  /* node id of the owner */
    uint32_t check; /* CRC-32C of the other 60 bytes: distinguishes corruption from forgery */
    /* The next two name the region and must stay adjacent. */
    uint64_t incarnation;
    uint64_t region;
    uint64_t key[2];       /* set by handle_sign() */
    uint64_t offset_bytes; /* start of the named part in the region */
    uint64_t length_bytes; /* of the named part */
};
static_assert(sizeof(struct handle) == HANDLE_BYTES, "a handle is 64 bytes");

/* Why handle_decode() refused these bytes, as a static text that continues "the handle ...". */
const char *handle_fault(const uint8_t bytes[HANDLE_BYTES]);

/* Writes the 64 bytes. Sets magic, version and check. */
void handle_encode(const struct handle *handle, uint8_t ret_bytes[HANDLE_BYTES]);

/* Sets the key. `secret` is the region's random secret. */
void handle_sign(struct handle *handle, const uint64_t secret[2]);
/* Whether the key matches. Runs in constant time. */
bool handle_is_signed(const struct handle *handle, const uint64_t secret[2]);

/* Returns 0, -EINVAL (not a handle, or corrupt), -EPROTO (another version) or -EOVERFLOW (offset +
 * length overflows). */
int handle_decode(const uint8_t bytes[HANDLE_BYTES], struct handle *ret_handle);
