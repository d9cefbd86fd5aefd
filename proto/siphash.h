/* SipHash-2-4 with 128-bit output (Aumasson, Bernstein 2012), a keyed hash of short messages.
 * Implemented here so that libtca does not load libcrypto into every program. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The result is the 16-byte output of the reference implementation, as two little-endian
 * numbers. */
void siphash_128(const uint64_t key[2], const void *message, size_t message_bytes,
                 uint64_t ret_hash[2]);
