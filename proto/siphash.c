#include "proto/siphash.h"

#include <endian.h>
#include <string.h>

struct state {
    uint64_t v[4];
};

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void rounds(struct state *s, unsigned count)
{
    uint64_t *v = s->v;
    while (count-- > 0) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

static void take(struct state *s, uint64_t word)
{
    s->v[3] ^= word;
    rounds(s, 2);
    s->v[0] ^= word;
}

static uint64_t finish(struct state *s)
{
    rounds(s, 4);
    return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

void siphash_128(const uint64_t key[2], const void *message, size_t message_bytes,
                 uint64_t ret_hash[2])
{
    struct state s = {{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d ^ 0xee,
                       key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573}};
    const uint8_t *at = message;
    uint64_t word;
    size_t left = message_bytes;
    for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        take(&s, le64toh(word));
    }
    word = 0;
    if (left > 0)
        memcpy(&word, at, left);
    take(&s, le64toh(word) | (uint64_t)message_bytes << 56);
    s.v[2] ^= 0xee;
    ret_hash[0] = finish(&s);
    s.v[1] ^= 0xdd;
    ret_hash[1] = finish(&s);
}
