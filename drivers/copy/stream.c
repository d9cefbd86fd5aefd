/* Contiguous bytes past the caches. */
#include "drivers/copy/moves.h"
#include "drivers/copy/variant.h"

#ifdef __x86_64__
#include <immintrin.h>

#if defined(__AVX512F__)
#define STREAM(to, from) _mm512_stream_si512((void *)(to), _mm512_loadu_si512(from))
#define STREAM_BYTES     64
#elif defined(__AVX2__)
#define STREAM(to, from)                                                                           \
    _mm256_stream_si256((__m256i *)(to), _mm256_loadu_si256((const __m256i *)(from)))
#define STREAM_BYTES 32
#else
#define STREAM(to, from) _mm_stream_si128((__m128i *)(to), _mm_loadu_si128((const __m128i *)(from)))
#define STREAM_BYTES     16
#endif

void copy_stream(uint8_t *target, const uint8_t *source, uint64_t bytes)
{
    uint64_t head = -(uintptr_t)target % 64;
    if (bytes < 64 + head) {
        memmove(target, source, bytes);
        return;
    }
    memmove(target, source, head);
    uint64_t lines = (bytes - head) / 64 * 64;
    for (uint64_t at = head; at < head + lines; at += 64)
        for (uint64_t part = 0; part < 64; part += STREAM_BYTES)
            STREAM(target + at + part, source + at + part);
    memmove(target + head + lines, source + head + lines, bytes - head - lines);
    _mm_sfence(); /* such stores are not ordered with what follows: a notification, say */
}
#else
void copy_stream(uint8_t *target, const uint8_t *source, uint64_t bytes)
{
    memmove(target, source, bytes);
}
#endif
