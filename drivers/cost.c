#include "drivers/cost.h"

#include <math.h>

enum { HOPELESS = 4 }; /* times the best predicted cost; predictions are wrong by less */

/* On the straight line between two sizes; a longer put on that between the last two. */
static double put_ns(const struct cost_parameters *parameters, uint64_t bytes)
{
    const double *ns = parameters->put_ns;
    unsigned size = 1;
    if (bytes <= cost_size_bytes(0))
        return ns[0];
    while (size < COST_SIZES - 1 && bytes > cost_size_bytes(size))
        size++;
    const double from = (double)cost_size_bytes(size - 1), to = (double)cost_size_bytes(size);
    return ns[size - 1] + ((double)bytes - from) * (ns[size] - ns[size - 1]) / (to - from);
}

uint64_t cost_predict(const struct cost_parameters *parameters,
                      const struct cost_transfer *transfer)
{
    if (!parameters->valid)
        return UINT64_MAX;
    const unsigned further_hops = transfer->hops > 1 ? transfer->hops - 1 : 0;
    const double blocks = transfer->blocks > 1 ? (double)transfer->blocks : 0;
    const double total_ns = put_ns(parameters, transfer->bytes) +
                            further_hops * parameters->hop_ns + blocks * parameters->block_ns;
    return total_ns < 0x1p63 ? (uint64_t)llround(total_ns) : UINT64_MAX - 1;
}

bool cost_worth_trying(uint64_t predicted_ns, uint64_t best_ns)
{
    return predicted_ns == UINT64_MAX || predicted_ns / HOPELESS <= best_ns;
}
