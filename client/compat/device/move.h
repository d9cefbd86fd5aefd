/* What a start does with device memory, before its plan is started: both directions between device
 * memory and what plans can put from. */
#pragma once

#include "client/compat/device/device.h"
#include "client/compat/memory.h"
#include "client/compat/program.h"

struct remote;

struct move {
    uint64_t width_bytes, height;
    struct cuda_side from, to; /* `to` of no address: the target's process copies it there */
    struct cuda_place *place;  /* NULL: no device memory on this side */
    void *packed;          /* tca_alloc()'s, that a plan puts from; NULL: goes into device memory */
    struct remote *remote; /* that it goes into */
    struct reference target; /* device memory of another process */
    uint64_t target_offset_bytes;
};

/* From device memory to memory of this process, packed, for a plan to put from. */
tcaresult move_out(const struct transfer *transfer, const struct allocation *source,
                   uint64_t source_offset_bytes, struct move *ret_move);
/* Into device memory, wherever it is. target_own: when it is this process's. */
tcaresult move_in(const struct transfer *transfer, const struct allocation *source,
                  uint64_t source_offset_bytes, const struct allocation *target_own,
                  struct move *ret_move);
tcaresult move_run(const struct move *move);
void move_deinit(struct move *move);
