/* Ranges of bytes, each of a step, to be found by the bytes. All are known beforehand; each is
 * added and removed in log n. */
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
    struct order_range *ranges; /* by space and low */
    uint32_t *places;           /* of each step; UINT32_MAX: it has no range */
    uint64_t *highest; /* a tree: the greatest `high` of the ranges below that were added */
};

/* Takes the ranges over, also when it fails (-ENOMEM). At most one per step, steps from 0. */
int order_index_init(struct order_index *index, struct order_range *ranges, uint32_t count,
                     uint32_t step_count);
void order_index_deinit(struct order_index *index);

/* The range of this step, if it has one. */
void order_index_add(struct order_index *index, uint32_t step);
void order_index_remove(struct order_index *index, uint32_t step);

/* Goes through the added ranges that overlap: the place of the next one from `from` on (0 first,
 * then behind the last), or UINT32_MAX. */
uint32_t order_index_next(const struct order_index *index, const struct order_range *range,
                          uint32_t from);
