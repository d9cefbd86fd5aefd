/* An index of byte ranges, one per step, for finding overlaps. All ranges are known beforehand;
 * adding and removing one takes log n. */
#pragma once

#include <stdint.h>

struct order_range {
    uint64_t space;
    uint64_t low, high;
    uint32_t step;
};

/* All zero: empty. */
struct order_index {
    uint32_t count;
    uint32_t leaves;            /* a power of two */
    struct order_range *ranges; /* sorted by space and low */
    uint32_t *places;           /* index of each step's range; UINT32_MAX: none */
    uint64_t *highest; /* a tree: the greatest `high` of the added ranges in each subtree */
};

/* Takes over the ranges, even on failure (-ENOMEM). At most one per step; steps count from 0. */
int order_index_init(struct order_index *index, struct order_range *ranges, uint32_t count,
                     uint32_t step_count);
void order_index_deinit(struct order_index *index);

/* Adds the range of this step, if it has one. */
void order_index_add(struct order_index *index, uint32_t step);
void order_index_remove(struct order_index *index, uint32_t step);

/* Finds the next added range that overlaps: its index, at least `from` (first 0, then the last result
 * + 1), or UINT32_MAX. */
uint32_t order_index_next(const struct order_index *index, const struct order_range *range,
                          uint32_t from);
