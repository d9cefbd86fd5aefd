#include "daemon/plans/stripes.h"

#include <stdbool.h>

/* The duration at which the shares of the chosen rails add up to the put. */
static double duration_of(const struct stripe *stripes, unsigned count, const bool *chosen,
                          uint64_t bytes)
{
    double whole = (double)bytes, rate = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!chosen[i])
            continue;
        whole += stripes[i].latency_ns * stripes[i].bytes_per_ns;
        rate += stripes[i].bytes_per_ns;
    }
    return whole / rate;
}

static double share_of(const struct stripe *stripe, double duration_ns)
{
    return (duration_ns - stripe->latency_ns) * stripe->bytes_per_ns;
}

/* The chosen rail with the smallest share, if that is too small; count: none. */
static unsigned find_idle(const struct stripe *stripes, unsigned count, const bool *chosen,
                          double duration_ns)
{
    unsigned found = count;
    for (unsigned i = 1; i < count; i++) {
        const double share = share_of(&stripes[i], duration_ns);
        if (chosen[i] && share < STRIPE_BYTES_MIN &&
            (found == count || share < share_of(&stripes[found], duration_ns)))
            found = i;
    }
    return found;
}

static double confirmed_ns(const struct stripe *stripes, unsigned count, const bool *chosen)
{
    double most = 0;
    for (unsigned i = 1; i < count; i++)
        if (chosen[i] && stripes[i].latency_ns > most)
            most = stripes[i].latency_ns;
    return 2 * most;
}

void stripes_divide(struct stripe *stripes, unsigned count, uint64_t bytes)
{
    bool chosen[STRIPES_MAX];
    uint64_t left = bytes;
    for (unsigned i = 0; i < count; i++) {
        stripes[i].bytes = 0;
        chosen[i] = true;
    }
    double duration = duration_of(stripes, count, chosen, bytes);
    for (unsigned idle; (idle = find_idle(stripes, count, chosen, duration)) < count;) {
        chosen[idle] = false;
        duration = duration_of(stripes, count, chosen, bytes);
    }
    const double alone = stripes[0].latency_ns + (double)bytes / stripes[0].bytes_per_ns;
    const bool pays = duration + confirmed_ns(stripes, count, chosen) < alone &&
                      share_of(&stripes[0], duration) >= STRIPE_BYTES_MIN;
    for (unsigned i = 1; pays && i < count; i++) {
        if (!chosen[i])
            continue;
        stripes[i].bytes =
            (uint64_t)share_of(&stripes[i], duration) / STRIPE_ALIGN_BYTES * STRIPE_ALIGN_BYTES;
        left -= stripes[i].bytes;
    }
    stripes[0].bytes = left;
}
