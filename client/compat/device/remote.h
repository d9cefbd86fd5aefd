/* Device memory of another process on this node, mapped through its exported descriptor. */
#pragma once

#include "client/compat/device/device.h"

struct remote {
    uint32_t rank;
    uint64_t number; /* in that process */
    struct cuda_memory cuda;
    unsigned users;
    struct remote *next;
};

/* Maps the target for the GPU of `place`. NULL: not possible, the data must go through the
 * agent. */
struct remote *remote_take(const struct reference *target, struct cuda_place *place);
/* Accepts NULL. */
void remote_give(struct remote *remote);
