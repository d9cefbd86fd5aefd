/*
 * Which way to copy a put that the receiver may share in. Two ways are good for what, after measurement:
 *
 *   HALF  costs by the line: those of the target that this process stores to are in the receiver's cache, and each must be had
 *         from there, which takes the longer the farther the two processors are from each other.
 *   RING  costs more at once and less by the line: the packed bytes go past the caches into the slots, whatever is near or far,
 *         and each process touches its own memory only, however the bytes are scattered there.
 *
 * The distance is measured while plans run (lane_publish_probing()): processes move. The rest comes from the node's calibration.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
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

/* Each of them, by name, with what it can be at all. */
enum { WAY_COST_FIELDS = 5 };
struct way_cost_field {
    const char *name;
    size_t offset; /* of the double in struct way_costs */
    double least, most;
};
extern const struct way_cost_field way_cost_fields[WAY_COST_FIELDS];

static inline double *way_cost_at(struct way_costs *costs, unsigned field)
{
    return (double *)((char *)costs + way_cost_fields[field].offset);
}

/* Whether this number can be of that field, and whether all of them can be right: to be asked by whoever got them from elsewhere. */
bool way_cost_valid(unsigned field, double value);
bool way_costs_valid(const struct way_costs *costs);

/* The distance, in ns, up to which HALF is the better way: 0 never, UINT32_MAX always. */
uint32_t way_half_up_to_ns(const struct way_costs *costs, const struct layout *target, const struct layout *source);

/* Whether sharing may pay at all, wherever the receiver is. */
bool way_share_pays(const struct layout *target, const struct layout *source);

/* What a calibration measures: one way, while each writes what it sends and reads what it gets. */
enum {
    WAY_SHORT_BYTES = 2 << 10,
    WAY_LONG_BYTES = 64 << 10,
    WAY_BLOCKS = 1024, /* of 8 bytes, at a stride of a line */
};
struct way_samples {
    double distance_ns;
    double half_short_ns, half_long_ns; /* contiguous */
    double ring_short_ns, ring_long_ns, ring_blocks_ns;
};

/* The costs that explain these samples: 0, or -ERANGE, when none do. */
int way_costs_fit(const struct way_samples *samples, struct way_costs *ret_costs);
