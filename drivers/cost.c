#include "drivers/cost.h"

#include <math.h>

enum {
    SMALL_BYTES = 64 << 10,
    LARGE_BYTES = 4 << 20
}; /* put sizes with which the two bandwidths are measured */

enum { HOPELESS = 4 }; /* times the best predicted cost; predictions are wrong by less */

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
                      const struct cost_transfer *transfer)
{
    if (!parameters->valid)
        return UINT64_MAX;
    double transfer_ns = 0;
    if (transfer->bytes > 0)
        transfer_ns = (double)transfer->bytes / bytes_per_ns(parameters, transfer->bytes);
    if (transfer->blocks > 1)
        transfer_ns += (double)transfer->blocks * parameters->block_ns;

    const unsigned further_hops = transfer->hops > 1 ? transfer->hops - 1 : 0;
    double total_ns = parameters->latency_ns + further_hops * parameters->hop_ns + transfer_ns;
    return total_ns < 0x1p63 ? (uint64_t)llround(total_ns) : UINT64_MAX - 1;
}

bool cost_worth_trying(uint64_t predicted_ns, uint64_t best_ns)
{
    return predicted_ns == UINT64_MAX || predicted_ns / HOPELESS <= best_ns;
}
