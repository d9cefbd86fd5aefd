/*
 * A handle names memory anywhere in the cluster: 64 bytes of plain data, valid in any process,
 * copied by any means. It is a capability: whoever holds it (and runs as the region's user) may put
 * into that memory until it is freed. It is good for the part that it names and for no more: its key
 * is a keyed hash of what it names, with a secret that only the region's node and the process that
 * owns the region know. These two make handles of parts, without asking anybody.
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

/* As it lies in the 64 bytes, little endian. Region ids are never used again while a daemon lives,
 * and every life of a daemon has its own random incarnation: together they are the handle's
 * generation. */
struct handle {
    uint32_t magic;
    uint16_t version;
    uint16_t flags; /* 0 */
    uint32_t node;  /* node id of the owner */
    uint32_t check; /* CRC-32C of the other 60 bytes: tells a garbled handle from a forged one */
    /* These two name the region, and stay together: */
    uint64_t incarnation;
    uint64_t region;
    uint64_t key[2];       /* handle_sign() */
    uint64_t offset_bytes; /* start of the named part in the region */
    uint64_t length_bytes; /* of the named part */
};
static_assert(sizeof(struct handle) == HANDLE_BYTES, "a handle is 64 bytes");

/* Why handle_decode() refused them: static. */
const char *handle_fault(const uint8_t bytes[HANDLE_BYTES]);

/* Writes the 64 bytes; magic, version and check are filled in here. */
void handle_encode(const struct handle *handle, uint8_t ret_bytes[HANDLE_BYTES]);

/* The key for what the handle names. The secret is random, and the region's. */
void handle_sign(struct handle *handle, const uint64_t secret[2]);
/* Whether its key is that. Takes as long whatever is wrong with it. */
bool handle_is_signed(const struct handle *handle, const uint64_t secret[2]);

/* 0, or -EINVAL (not a handle, or garbled), -EPROTO (of another version), -EOVERFLOW (part wraps
 * around). */
int handle_decode(const uint8_t bytes[HANDLE_BYTES], struct handle *ret_handle);
