/* Shared by the files of layout.h only. */
#pragma once

#include "proto/layout.h"

static inline const struct layout_pair *layout_pairs(const struct layout *layout)
{
    return (const struct layout_pair *)&layout->ops[layout->op_count];
}

/* What operations yield together; all 0 for none. */
struct layout_sum {
    uint64_t size_bytes;
    uint64_t block_count;
    int64_t lower_bytes;
    int64_t upper_bytes;
    uint16_t depth;
};

/* Checks operations and sums them up, in time linear in their number. 0, -EINVAL (shape), -E2BIG
 * (depth), -EOVERFLOW; *ret_why is then a static text. */
int layout_sum(const struct layout_op *ops, uint32_t op_count, const struct layout_pair *pairs,
               uint32_t pair_count, struct layout_sum *ret, const char **ret_why);

/* Whether alignment and bounds of the type map are possible ones. */
bool layout_type_valid(const struct layout *layout);
