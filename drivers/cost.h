/*
 * The cost model: what a put will take on a rail and seat, from parameters that were measured on this machine and never from
 * constants. A rail that was not calibrated has no parameters and is not chosen by the model.
 *
 *   t = latency + descriptors * per_descriptor + blocks * per_block + bytes / bandwidth(bytes)   [+ the gather, if it gathers]
 *
 * Where the way leads over cables from device to device, latency is that to a neighbour, and each further cable costs hop_ns.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/shm/ways.h"
#include "proto/layout.h"
#include "proto/segment.h"

struct cost_parameters {
    bool valid;
    double latency_ns;         /* start to seen at the other end, 8 bytes */
    double hop_ns;             /* each further device on the way; 0: there are none */
    double descriptor_ns;      /* each further descriptor */
    double block_ns;           /* each block of a non-contiguous layout, on either side */
    double small_bytes_per_ns; /* pieces that fit in a cache (64 KiB) */
    double large_bytes_per_ns; /* pieces that do not (4 MiB) */
};

struct cost_table {
    struct cost_parameters at[RAIL_COUNT][SEAT_COUNT];
    bool ways_valid;       /* measured: */
    struct way_costs ways; /* how a put in the client's seat is copied */
};

/* The measured ones, or the defaults. */
const struct way_costs *cost_ways(const struct cost_table *table);

struct cost_question {
    uint64_t bytes;
    uint64_t blocks; /* of the finer of the two layouts */
    uint32_t descriptors;
    unsigned hops; /* cables on the way; 0: the rail knows of none */
};

/* Nanoseconds; UINT64_MAX when the parameters are not valid. */
uint64_t cost_predict(const struct cost_parameters *parameters,
                      const struct cost_question *question);

/* The table as text (key = value lines, with a header that names host, processor and date) and
 * back. Reading: 0, -ENOENT, -EINVAL with *ret_why (static) and the line. Writing is atomic
 * (rename); -EEXIST: what is there is no regular file. */
int cost_read(const char *path, struct cost_table *ret_table, const char **ret_why,
              unsigned *ret_line);
int cost_write(const char *path, const struct cost_table *table);
