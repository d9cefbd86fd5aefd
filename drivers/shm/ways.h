/*
 * Chooses the copy mode of a put whose copying the receiver can share. The expensive operation is a
 * store to a line that another core has last read: that core's copy must be invalidated first,
 * which takes longer the farther apart the two cores are. Measurements show:
 *
 *   RING  is best in nearly all cases: the receiver hands the slots' lines back (lane.c), and each
 *         process touches only its own memory, however scattered. The cost per line hardly depends
 *         on the distance.
 *   HALF  is better near, for data that leaves the inner caches between uses, in blocks of a line
 *         or more; and for transposes at any distance, which in pieces would fetch each line many
 *         times. Far, the sender must get back each line of its source that the receiver has read.
 *   PUSH  with streaming stores is better far, for large puts of large blocks, and needs no help.
 *
 * The distance is measured while plans run (lane_probe()), because processes migrate. The other
 * parameters come from the node's calibration.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/lane.h"
#include "proto/layout.h"

/* The result of a calibration with a large contiguous put, one-way. */
struct way_costs {
    double half_line;    /* HALF: cost per line, as a fraction of the distance */
    double ring_line_ns; /* RING: cost per line */
};

/* Used before a calibration; measured on a small EPYC machine. */
extern const struct way_costs way_costs_default;

/* The fields of struct way_costs, with their names and valid ranges. */
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

/* Whether a value, or all values, are within the valid ranges. Check values from outside. */
bool way_cost_valid(unsigned field, double value);
bool way_costs_valid(const struct way_costs *costs);

/* `near` is the best mode up to a distance of up_to_ns, `far` beyond it. They may be equal. */
struct way_choice {
    enum way near, far;
    uint32_t up_to_ns;
};
struct way_choice way_choose(const struct way_costs *costs, const struct layout *target,
                             const struct layout *source);

/* Whether a push uses streaming stores, unless its copy mode says otherwise: for large puts in large
 * blocks only, because each block may open a memory page. */
bool way_streams(const struct layout *target, const struct layout *source);

/* Whether sharing can pay off at any distance. */
bool way_share_pays(const struct layout *target, const struct layout *source);

/* How one start copies. Modes differ in time only: every start may use another one. */
struct copy_mode {
    enum way way;         /* WAY_NONE: chosen at each start, by the distance */
    bool stream;          /* PUSH, HALF: the sender's stores bypass the caches */
    uint32_t piece_bytes; /* RING: staged per slot, at most LANE_SLOT_BYTES */
};
/* The one for a way that was asked for. */
struct copy_mode copy_mode_of(enum way way, const struct layout *target,
                              const struct layout *source);
bool copy_mode_equal(const struct copy_mode *a, const struct copy_mode *b);

/* The modes worth a trial for these layouts, in no order; returns how many. `mapped`: the receiver
 * has the source mapped, so it can copy from there. */
enum { COPY_MODES_MAX = 7 };
unsigned copy_mode_candidates(const struct layout *target, const struct layout *source, bool mapped,
                              struct copy_mode ret_modes[COPY_MODES_MAX]);

/* The measurements of a calibration: WAY_LARGE_BYTES contiguous bytes, until the receiver has read
 * them. */
enum { WAY_LARGE_BYTES = 512 << 10 };
struct way_samples {
    double distance_ns;
    double touch_ns; /* share without copying: writing the source, reading the target */
    double half_ns, ring_ns;
};

/* Computes the costs from these samples. 0, or -ERANGE: they are inconsistent. */
int way_costs_fit(const struct way_samples *samples, struct way_costs *ret_costs);
