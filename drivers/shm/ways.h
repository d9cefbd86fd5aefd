/*
 * Which way to copy a put that the receiver may share in. Which way is good for what, after measurement:
 *
 *   PUSH  past the caches is the best for large puts of large blocks, whatever is near or far, and needs no help. Else it costs by
 *         the line: those of the target are in the receiver's cache, and each must be had from there, which takes the longer the
 *         farther the two processors are from each other.
 *   HALF  costs as much by the line, for the sender must have back the lines of its source that the receiver has read. It halves what
 *         many small blocks cost.
 *   RING  costs more at once and less by the line: the packed bytes go past the caches into the slots, whatever is near or far,
 *         and each process touches its own memory only, however the bytes are scattered there.
 *
 * The distance is measured while plans run (lane_probe()): processes move. The rest comes from the node's calibration.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/lane.h"
#include "proto/layout.h"

/* What a calibration finds. Times are in ns, one way, until the receiver has read what it got. */
struct way_costs {
    double half_base_ns;
    double half_line;      /* of the distance, for each line of the target; of a push, too */
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

/* Near the receiver `near` is the best way, beyond a distance of up_to_ns (0: always, UINT32_MAX: never) RING is. */
struct way_choice {
    enum way near; /* PUSH or HALF */
    uint32_t up_to_ns;
};
struct way_choice way_choose(const struct way_costs *costs, const struct layout *target, const struct layout *source);

/* Whether a push goes past the caches: what is large, and in large blocks, for each of them may open a page of memory. */
bool way_streams(const struct layout *target, const struct layout *source);

/* Whether sharing may pay at all, wherever the receiver is. */
bool way_share_pays(const struct layout *target, const struct layout *source);

/* What a calibration measures: one way, while each writes what it sends and reads what it gets. */
enum {
    WAY_SHORT_BYTES = 2 << 10,
    WAY_LONG_BYTES = 16 << 10, /* stored through the caches */
    WAY_BLOCKS = 1024, /* of 8 bytes, at a stride of a line */
};
struct way_samples {
    double distance_ns;
    double half_short_ns, half_long_ns; /* contiguous */
    double ring_short_ns, ring_long_ns, ring_blocks_ns;
};

/* The costs that explain these samples: 0, or -ERANGE, when none do. */
int way_costs_fit(const struct way_samples *samples, struct way_costs *ret_costs);
