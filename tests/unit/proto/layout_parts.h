/* Programs that the constructors would not make. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "proto/layout_internal.h"

/* A program from malloc() of these operations and pairs, with a correct header. NULL: they are
 * invalid. */
static inline struct layout *layout_of_parts(const struct layout_op *ops, uint32_t op_count,
                                             const struct layout_pair *pairs, uint32_t pair_count)
{
    struct layout_sum sum;
    const char *why;
    const size_t op_bytes = op_count * sizeof(*ops), pair_bytes = pair_count * sizeof(*pairs);
    if (layout_sum(ops, op_count, pairs, pair_count, &sum, &why) < 0)
        return NULL;
    struct layout *layout = malloc(sizeof(*layout) + op_bytes + pair_bytes);
    if (!layout)
        return NULL;
    *layout = (struct layout){.magic = LAYOUT_MAGIC,
                              .version = PROTO_VERSION,
                              .depth = sum.depth,
                              .op_count = op_count,
                              .pair_count = pair_count,
                              .size_bytes = sum.size_bytes,
                              .block_count = sum.block_count,
                              .lower_bytes = sum.lower_bytes,
                              .upper_bytes = sum.upper_bytes,
                              .lb_bytes = sum.lower_bytes,
                              .ub_bytes = sum.upper_bytes,
                              .alignment = 1};
    if (op_bytes > 0)
        memcpy(layout->ops, ops, op_bytes);
    if (pair_bytes > 0)
        memcpy(&layout->ops[op_count], pairs, pair_bytes);
    if (layout_check(layout, layout_bytes(layout), NULL) == 0)
        return layout;
    free(layout);
    return NULL;
}
