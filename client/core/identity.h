/* The group of this process, and its rank. */
#pragma once

#include "client/include/tca.h"
#include "proto/limits.h"

struct identity {
    char group[NAME_MAX_BYTES]; /* empty: a group of one */
    uint32_t rank;
    uint32_t size;
    uint32_t local_size; /* ranks of the group on this node; 0: unknown */
};

/* From the arguments, else from TCA_GROUP, TCA_RANK and TCA_SIZE, else from the launcher's
 * variables, else a group of one. -EINVAL. */
int identity_find(const struct tca_open_args *args, struct identity *ret_identity);
