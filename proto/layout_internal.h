/* Internal to the implementation of layout.h. */
#pragma once

#include "proto/layout.h"

static inline const struct layout_pair *layout_pairs(const struct layout *layout)
{
    return (const struct layout_pair *)&layout->ops[layout->op_count];
}

/* Size, blocks, bounds and depth of a sequence of operations; all 0 if empty. */
struct layout_sum {
    uint64_t size_bytes;
    uint64_t block_count;
    int64_t lower_bytes;
    int64_t upper_bytes;
    uint16_t depth;
};

/* Checks operations and sums them up, in linear time. Returns 0, -EINVAL (structure), -E2BIG
 * (depth) or -EOVERFLOW; on failure, *ret_why is a static text. */
int layout_sum(const struct layout_op *ops, uint32_t op_count, const struct layout_pair *pairs,
               uint32_t pair_count, struct layout_sum *ret, const char **ret_why);

/* Whether the alignment and the bounds of the type map are valid. */
bool layout_type_valid(const struct layout *layout);
