/* A pair of instances of the driver that DRIVER names, in this process; for a driver that only
 * reaches its own process (INSTANCES 1), both ends are one instance. The functions use Criterion's
 * assertions. */
#pragma once

#include "tests/unit/drivers/kit.h"

enum { GUARD = 4096 };

struct world {
    struct side sides[2];
    struct side branch; /* BRANCHED 1: of the first, which sends */
    struct side *from, *to;
    struct driver_peer *peer;
    struct driver_peer *back; /* of drivers whose connections need both ends */
};

extern struct world world;

/* Each with a region of so many bytes. */
void open_world(uint64_t segment_bytes, size_t region_bytes);
void close_world(void);

/* A put of one shape into another, of the two halves of one region (or of two). */
struct transfer {
    struct layout *source, *target;
    struct driver_landing *landing;
    struct driver_put *put;
    struct driver_put_info info;
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    struct op op;
};

/* landing_new() at the receiver, for the sender. */
int land(struct driver_landing_args *args, struct driver_landing **ret_landing, uint8_t *ret_blob,
         size_t *ret_blob_bytes);
/* NULL shapes: a notification alone. Returns the result of put_prepare(). */
int prepare(struct transfer *transfer, const struct shape *source, uint64_t source_offset,
            const struct shape *target, uint64_t target_offset, bool notify, uint64_t token);
/* A put whose starts move parts, with a notification. */
int prepare_parts(struct transfer *transfer, const struct shape *source, uint64_t source_offset,
                  const struct shape *target, uint64_t target_offset, uint64_t token);
void start_part(struct transfer *transfer, const struct driver_part *part);
void release(struct transfer *transfer);
void start(struct transfer *transfer);
