/* Descriptors that go as one put. */
#pragma once

#include "client/compat/program.h"

struct joint {
    size_t count;                   /* descriptors: 0 when there is nothing to put */
    struct tca_region *source;      /* that all of them put from */
    uint64_t low_bytes, high_bytes; /* of the target's memory: what they touch lies between */
};

/* Begins with a descriptor that has data. */
tcaresult joint_begin(const struct transfer *transfer, struct joint *ret_joint);
/* Whether the one that follows in the chain joined. */
bool joint_extend(struct joint *joint, const struct transfer *transfer);
/* The put of joint->count descriptors from `transfers` on. */
tcaresult joint_put(const struct joint *joint, const struct transfer *transfers,
                    struct tca_plan *plan);
