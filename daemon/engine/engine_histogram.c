/* How long the starts of a plan took, in quarters of powers of two. */
#include "daemon/engine/engine.h"

void engine_histogram_add(struct engine_histogram *histogram, uint64_t value)
{
    /* bucket = 4 * log2(value) + the next two bits */
    unsigned log = value ? 63 - (unsigned)__builtin_clzll(value) : 0;
    unsigned fine = log >= 2 ? (unsigned)(value >> (log - 2)) & 3 : 0;
    unsigned at = log * 4 + fine;
    if (at >= sizeof(histogram->at) / sizeof(histogram->at[0]))
        at = sizeof(histogram->at) / sizeof(histogram->at[0]) - 1;
    atomic_store_explicit(&histogram->at[at],
                          atomic_load_explicit(&histogram->at[at], memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

uint64_t engine_histogram_quantile(const struct engine_histogram *histogram, double share)
{
    enum { BUCKETS = sizeof(histogram->at) / sizeof(histogram->at[0]) };
    uint64_t total = 0, below = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        total += atomic_load_explicit(&histogram->at[i], memory_order_relaxed);
    if (total == 0)
        return 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        below += atomic_load_explicit(&histogram->at[i], memory_order_relaxed);
        if ((double)below >= share * (double)total) {
            uint64_t octave = 1ull << (i / 4); /* the bucket's middle */
            return octave + octave * (i % 4) / 4 + octave / 8;
        }
    }
    return 0;
}
