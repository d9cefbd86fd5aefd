/* SipHash-2-4 with 128 bits of output (Aumasson, Bernstein 2012): a keyed hash of short messages.
 * Here and not out of libcrypto because libtca, which every program loads, needs nothing else of
 * that. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The result is the 16 bytes of the reference implementation, read as two little-endian numbers. */
void siphash_128(const uint64_t key[2], const void *message, size_t message_bytes,
                 uint64_t ret_hash[2]);
