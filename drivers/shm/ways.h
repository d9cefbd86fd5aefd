/*
 * Which way to copy a put that the receiver may share in. What is dear is to store to a line that another processor has read last: that
 * one must be told first, which takes the longer the farther the two are from each other. After measurement:
 *
 *   RING  is the best nearly everywhere: the receiver hands the lines of the slots back (lane.c), and each process touches its own
 *         memory only, however the bytes are scattered there. What a line costs hardly depends on the distance.
 *   HALF  is better near, for what has left the nearer caches before it is touched again, in blocks of a line or more; and for transposes
 *         anywhere, which in pieces would have each line again and again. Far, the sender must have back each line of its source that the receiver has read.
 *   PUSH  past the caches is better far, for large puts of large blocks, and needs no help.
 *
 * The distance is measured while plans run (lane_probe()): processes move. The rest comes from the node's calibration.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/lane.h"
#include "proto/layout.h"

/* What a calibration finds: of a large contiguous put, one way. */
struct way_costs {
    double half_line;    /* of the distance, for each line */
    double ring_line_ns; /* for each line */
};

/* Before a calibration: of a small EPYC machine. */
extern const struct way_costs way_costs_default;

/* Each of them, by name, with what it can be at all. */
enum { WAY_COST_FIELDS = 2 };
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

/* Whether this number can be of that field, and whether all of them can be right: to be asked by
 * whoever got them from elsewhere. */
bool way_cost_valid(unsigned field, double value);
bool way_costs_valid(const struct way_costs *costs);

/* Up to a distance of up_to_ns `near` is the best way, beyond it `far`. They may be the same. */
struct way_choice {
    enum way near, far;
    uint32_t up_to_ns;
};
struct way_choice way_choose(const struct way_costs *costs, const struct layout *target,
                             const struct layout *source);

/* Whether a push goes past the caches: what is large, and in large blocks, for each of them may
 * open a page of memory. */
bool way_streams(const struct layout *target, const struct layout *source);

/* Whether sharing may pay at all, wherever the receiver is. */
bool way_share_pays(const struct layout *target, const struct layout *source);

/* What a calibration measures: WAY_LARGE_BYTES, contiguous, until the receiver has read what it
 * got. */
enum { WAY_LARGE_BYTES = 512 << 10 };
struct way_samples {
    double distance_ns;
    double touch_ns; /* of each way the part that is no copying: to write what is sent, to read what
                        has come */
    double half_ns, ring_ns;
};

/* The costs that explain these samples: 0, or -ERANGE, when none do. */
int way_costs_fit(const struct way_samples *samples, struct way_costs *ret_costs);
