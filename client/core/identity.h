/* Which group this process belongs to, and its rank there. */
#pragma once

#include "client/include/tca.h"
#include "proto/limits.h"

struct identity {
    char group[NAME_MAX_BYTES]; /* empty: a group of one */
    uint32_t rank;
    uint32_t size;
};

/* From the arguments, else TCA_GROUP, TCA_RANK and TCA_SIZE, else what a launcher says, else alone.
 * -EINVAL. */
int identity_find(const struct tca_open_args *args, struct identity *ret_identity);
