/* What a start does with device memory before it starts its plan: copies between device memory and
 * memory that plans can put from. */
#pragma once

#include "client/compat/device/device.h"
#include "client/compat/memory.h"
#include "client/compat/program.h"

struct remote;

struct move {
    uint64_t width_bytes, height;
    struct cuda_side from, to; /* to.address 0: the target's process copies it */
    struct cuda_place *place;  /* NULL: no device memory of this process */
    void *packed; /* from tca_alloc(), the source of a put; NULL: the target is device memory */
    struct remote *remote;   /* the target, if mapped */
    struct reference target; /* device memory of another process */
    uint64_t target_offset_bytes;
};

/* A move from device memory to packed memory of this process, the source of a put. */
tcaresult move_out(const struct transfer *transfer, const struct allocation *source,
                   uint64_t source_offset_bytes, struct move *ret_move);
/* A move into device memory of any process. target_own: of this process. */
tcaresult move_in(const struct transfer *transfer, const struct allocation *source,
                  uint64_t source_offset_bytes, const struct allocation *target_own,
                  struct move *ret_move);
tcaresult move_run(const struct move *move);
void move_deinit(struct move *move);
