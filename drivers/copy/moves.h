/* Moves of a few bytes, for the kernels. Compiled for each instruction set; the compiler splits
 * vectors that are wider than the processor's. */
#pragma once

#include <stdint.h>
#include <string.h>

#define VECTOR(bytes) __attribute__((vector_size(bytes), aligned(1), may_alias))
typedef uint8_t word1 __attribute__((may_alias));
typedef uint16_t word2 __attribute__((aligned(1), may_alias));
typedef uint32_t word4 __attribute__((aligned(1), may_alias));
typedef uint64_t word8 __attribute__((aligned(1), may_alias));
typedef uint64_t word16 VECTOR(16);
#ifdef __AVX2__
typedef uint64_t word32 VECTOR(32);
#else
typedef struct {
    word16 low, high;
} __attribute__((may_alias)) word32;
#endif
typedef struct {
    word32 low, high;
} __attribute__((may_alias)) word64;

#define LOAD(width, from)       (*(const word##width *)(from))
#define STORE(width, to, value) (*(word##width *)(to) = (value))
/* By a variable: the compiler copies a structure in memory by smaller vectors. */
#define MOVE(width, to, from)                                                                      \
    do {                                                                                           \
        word##width moved_ = LOAD(width, from);                                                    \
        STORE(width, to, moved_);                                                                  \
    } while (0)

/* width <= bytes <= 2 * width: two moves that overlap in the middle. */
#define MOVE_PAIR(width, to, from, bytes)                                                          \
    do {                                                                                           \
        word##width head_ = LOAD(width, from), tail_ = LOAD(width, (from) + (bytes) - (width));    \
        STORE(width, to, head_);                                                                   \
        STORE(width, (to) + (bytes) - (width), tail_);                                             \
    } while (0)

/* Moves that are too short for a function call. */
static inline void move_bytes(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    if (bytes >= 64) {
        uint64_t at = 0;
        word64 tail = LOAD(64, from + bytes - 64);
        for (; at + 64 < bytes; at += 64)
            MOVE(64, to + at, from + at);
        STORE(64, to + bytes - 64, tail);
    } else if (bytes >= 32) {
        MOVE_PAIR(32, to, from, bytes);
    } else if (bytes >= 16) {
        MOVE_PAIR(16, to, from, bytes);
    } else if (bytes >= 8) {
        MOVE_PAIR(8, to, from, bytes);
    } else if (bytes >= 4) {
        MOVE_PAIR(4, to, from, bytes);
    } else if (bytes >= 2) {
        MOVE_PAIR(2, to, from, bytes);
    } else if (bytes == 1) {
        MOVE(1, to, from);
    }
}
