/*
 * Counts errors reported by the board, for display. Failed puts also carry their error (fault.h),
 * but discarded packets may be from any node.
 */
#include <stdio.h>

#include "drivers/peach2/peach2.h"

void peach2_fault_stopped(struct peach2 *peach2, unsigned channel, uint32_t error)
{
    /* An unknown error counts as number 0. */
    atomic_fetch_add_explicit(&peach2->shown_stops[channel][error < PEACH2_ERRORS ? error : 0], 1,
                              memory_order_relaxed);
}

void peach2_fault_discarded(struct peach2 *peach2, uint32_t causes)
{
    for (unsigned bit = 16; bit < 32 && causes >> bit != 0; bit++) /* discards start at bit 16 */
        if (causes & 1u << bit && peach2_discard_text(1u << bit))
            atomic_fetch_add_explicit(&peach2->shown_discards[bit], 1, memory_order_relaxed);
}

unsigned peach2_faults(const struct driver *driver, struct driver_fault *ret_faults, unsigned max)
{
    const struct peach2 *peach2 = (const struct peach2 *)driver;
    unsigned count = 0;
    for (unsigned i = 0; i < PEACH2_CHANNELS * PEACH2_ERRORS && count < max; i++) {
        const unsigned channel = i / PEACH2_ERRORS, error = i % PEACH2_ERRORS;
        struct driver_fault *fault = &ret_faults[count];
        fault->count =
            atomic_load_explicit(&peach2->shown_stops[channel][error], memory_order_relaxed);
        if (fault->count == 0)
            continue;
        snprintf(fault->text, sizeof(fault->text), "channel %u stopped: %s", channel,
                 peach2_error_text(error));
        count++;
    }
    for (unsigned bit = 0; bit < 32 && count < max; bit++) {
        struct driver_fault *fault = &ret_faults[count];
        fault->count = atomic_load_explicit(&peach2->shown_discards[bit], memory_order_relaxed);
        if (fault->count == 0)
            continue;
        snprintf(fault->text, sizeof(fault->text), "packets discarded %s",
                 peach2_discard_text(1u << bit));
        count++;
    }
    return count;
}
