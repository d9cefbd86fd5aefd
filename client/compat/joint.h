/* Consecutive descriptors that are merged into one put. */
#pragma once

#include "client/compat/program.h"

struct joint {
    size_t count;                   /* descriptors; 0: no data */
    struct tca_region *source;      /* of all of them */
    uint64_t low_bytes, high_bytes; /* bounds of what they write in the target's memory */
};

/* Starts with a descriptor that has data. */
tcaresult joint_begin(const struct transfer *transfer, struct joint *ret_joint);
/* Adds the next descriptor of the chain if possible. Returns whether it was added. */
bool joint_extend(struct joint *joint, const struct transfer *transfer);
/* Adds the put of the first joint->count descriptors of `transfers` to the plan. */
tcaresult joint_put(const struct joint *joint, const struct transfer *transfers,
                    struct tca_plan *plan);
