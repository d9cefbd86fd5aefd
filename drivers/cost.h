/*
 * The cost model predicts the duration of a put on a rail and seat from parameters measured on this
 * machine, never from constants. It does not choose a rail that was not calibrated.
 *
 *   t = latency + blocks * per_block + bytes / bandwidth(bytes)
 *
 * In a network without switches, latency is that to a neighbour, and each further cable costs
 * hop_ns.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/layout.h"
#include "proto/segment.h"

struct cost_parameters {
    bool valid;
    double latency_ns;         /* from the start to visibility at the target, 8 bytes */
    double hop_ns;             /* each further cable of the path; 0: not applicable */
    double block_ns;           /* each block of the finer of the two layouts */
    double small_bytes_per_ns; /* pieces that fit in a cache (64 KiB) */
    double large_bytes_per_ns; /* pieces that do not (4 MiB) */
};

struct cost_rail {
    char name[RAIL_NAME_MAX_BYTES]; /* "": no such rail */
    struct cost_parameters at[SEAT_COUNT];
};

struct cost_table {
    /* How good the measurement is; 0: unknown. */
    double load;   /* for each processor, when it began (proto/load.h) */
    double spread; /* the widest: upper by lower quartile of the times of one kind of put */
    struct cost_rail rails[RAIL_SLOTS]; /* by the daemon's index; names are unique */
};

struct cost_transfer {
    uint64_t bytes;
    uint64_t blocks; /* of the finer of the two layouts */
    unsigned hops;   /* cables on the path; 0: not applicable */
};

/* In nanoseconds; UINT64_MAX if the parameters are not valid. */
uint64_t cost_predict(const struct cost_parameters *parameters,
                      const struct cost_transfer *transfer);

/* Whether a candidate with this predicted cost may turn out to be better than the one that costs best_ns:
 * it is not several times slower, or nothing is known about it. */
bool cost_worth_trying(uint64_t predicted_ns, uint64_t best_ns);

/* Reads and writes the table as text: key = value lines after a header with host, processor and
 * date. cost_read() reads the parameters of the rails that the table names, ignores those of other
 * rails, and leaves the table as it is on failure. It returns 0, -ENOENT or another error of fopen(), -ENOMEM, or -EINVAL with a
 * static text in *ret_why and the line number. cost_write() replaces the file atomically; -EEXIST:
 * the path is not a regular file. */
int cost_read(const char *path, struct cost_table *table, const char **ret_why, unsigned *ret_line);
int cost_write(const char *path, const struct cost_table *table);
