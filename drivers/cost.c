#include "drivers/cost.h"

#include <math.h>

enum {
    SMALL_BYTES = 64 << 10,
    LARGE_BYTES = 4 << 20
}; /* put sizes with which the two bandwidths are measured */

/* Between the two sizes, interpolates the time per byte over the logarithm of the size. */
static double bytes_per_ns(const struct cost_parameters *parameters, uint64_t bytes)
{
    if (bytes <= SMALL_BYTES)
        return parameters->small_bytes_per_ns;
    if (bytes >= LARGE_BYTES)
        return parameters->large_bytes_per_ns;
    double share = log((double)bytes / SMALL_BYTES) / log((double)LARGE_BYTES / SMALL_BYTES);
    return 1 /
           ((1 - share) / parameters->small_bytes_per_ns + share / parameters->large_bytes_per_ns);
}

uint64_t cost_predict(const struct cost_parameters *parameters,
                      const struct cost_question *question)
{
    if (!parameters->valid)
        return UINT64_MAX;
    double transfer_ns = 0;
    if (question->bytes > 0)
        transfer_ns = (double)question->bytes / bytes_per_ns(parameters, question->bytes);
    if (question->blocks > 1)
        transfer_ns += (double)question->blocks * parameters->block_ns;

    double further = question->descriptors > 1 ? question->descriptors - 1 : 0,
           further_hops = question->hops > 1 ? question->hops - 1 : 0;
    double total_ns = parameters->latency_ns + further_hops * parameters->hop_ns +
                      further * parameters->descriptor_ns + transfer_ns;
    return total_ns < 0x1p63 ? (uint64_t)llround(total_ns) : UINT64_MAX - 1;
}
