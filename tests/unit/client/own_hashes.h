/* Counts how often something is hashed (--wrap=siphash_128). */
#pragma once

#include "proto/siphash.h"

static unsigned hashes;

void __real_siphash_128(const uint64_t key[2], const void *data, size_t bytes,
                        uint64_t ret_hash[2]);
void __wrap_siphash_128(const uint64_t key[2], const void *data, size_t bytes,
                        uint64_t ret_hash[2]);
void __wrap_siphash_128(const uint64_t key[2], const void *data, size_t bytes, uint64_t ret_hash[2])
{
    hashes++;
    __real_siphash_128(key, data, bytes, ret_hash);
}
