/*
 * The cost model predicts the duration of a put on a rail and seat from parameters measured on this
 * machine, never from constants. It does not choose a rail that was not calibrated.
 *
 *   t = put(bytes) + blocks * per_block
 *
 * put() is measured at a few sizes, as no two parameters describe caches, copy modes and protocols.
 * In a network without switches, it is the time to a neighbour, and each further cable costs
 * hop_ns.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/layout.h"
#include "proto/segment.h"

/* Sizes of puts that are measured: each four times the one before, 64 bytes to 4 MiB. */
enum { COST_SIZES = 9, COST_64_KIB = 5, COST_4_MIB = COST_SIZES - 1 };
static inline uint64_t cost_size_bytes(unsigned size)
{
    return UINT64_C(64) << 2 * size;
}

struct cost_parameters {
    bool valid;
    double put_ns[COST_SIZES]; /* from the start to visibility at the target; ascending */
    double hop_ns;             /* each further cable of the path; 0: not applicable */
    double block_ns;           /* each block of the finer of the two layouts */
};

/* Of a put of nearly nothing. */
static inline double cost_latency_ns(const struct cost_parameters *parameters)
{
    return parameters->put_ns[0];
}
/* For each byte of a put of this size beyond those. */
static inline double cost_byte_ns(const struct cost_parameters *parameters, unsigned size)
{
    return (parameters->put_ns[size] - parameters->put_ns[0]) / (double)cost_size_bytes(size);
}

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

/* Whether a candidate with this predicted cost may turn out to be better than the one that costs
 * best_ns: it is not several times slower, or nothing is known about it. */
bool cost_worth_trying(uint64_t predicted_ns, uint64_t best_ns);

/* Reads and writes the table as text: key = value lines after a header with host, processor and
 * date. cost_read() reads the parameters of the rails that the table names, ignores those of other
 * rails, and leaves the table as it is on failure. It returns 0, -ENOENT or another error of
 * fopen(), -ENOMEM, or -EINVAL with a static text in *ret_why and the line number. cost_write()
 * replaces the file atomically; -EEXIST: the path is not a regular file. */
int cost_read(const char *path, struct cost_table *table, const char **ret_why, unsigned *ret_line);
int cost_write(const char *path, const struct cost_table *table);
