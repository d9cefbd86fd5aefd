/*
 * Which way to copy a put that the receiver may share in. Two ways are good for what, after measurement:
 *
 *   HALF  costs by the line: those of the target that this process stores to are in the receiver's cache, and each must be had
 *         from there, which takes the longer the farther the two processors are from each other.
 *   RING  costs more at once and less by the line: the packed bytes go past the caches into the slots, whatever is near or far,
 *         and each process touches its own memory only, however the bytes are scattered there.
 *
 * The distance is measured while plans run (lane_probe()): processes move. The rest comes from the node's calibration.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/layout.h"

/* What a calibration finds. Times are in ns, one way, until the receiver has read what it got. */
struct way_costs {
    double half_base_ns;
    double half_line;      /* of the distance, for each line of the target */
    double ring_base_ns;
    double ring_line_ns;   /* for each line of packed bytes */
    double ring_block_ns;  /* for each block, of the side that has more */
};

/* Before a calibration: of a small EPYC machine. */
extern const struct way_costs way_costs_default;

/* The distance, in ns, up to which HALF is the better way: 0 never, UINT32_MAX always. */
uint32_t way_half_up_to_ns(const struct way_costs *costs, const struct layout *target, const struct layout *source);

/* Whether sharing may pay at all, wherever the receiver is. */
bool way_share_pays(const struct layout *target, const struct layout *source);
