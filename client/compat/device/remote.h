/* Device memory of another process of this node, mapped here by its exported descriptor. */
#pragma once

#include "client/compat/device/device.h"

struct remote {
    uint32_t rank;
    uint64_t number; /* there */
    struct cuda_memory cuda;
    unsigned users;
    struct remote *next;
};

/* For the GPU of `place` to put into. NULL: it cannot be had, and data have to go by the agent. */
struct remote *remote_take(const struct reference *target, struct cuda_place *place);
/* NULL is fine. */
void remote_give(struct remote *remote);
