/* The type map of a layout apart from its program: bounds, alignment and element types, and how to
 * combine those of its parts. */
#pragma once

#include "proto/layout_builder.h"

struct type {
    bool empty; /* no elements and no marks: the bounds are undefined */
    bool marked;
    int64_t lb, ub;
    uint32_t alignment;
    uint64_t signature;
};

static const struct type type_nothing = {.empty = true, .alignment = 1};

struct type type_of(const struct layout *layout);
/* Extends the bounds to `count` > 0 copies, stride apart, the first moved by offset. 0 or
 * -EOVERFLOW. */
int type_spread(struct type *type, int64_t offset_bytes, uint64_t count, int64_t stride_bytes);
/* Joins bounds and alignment. If only one of the two has marks, its bounds win. */
void type_join(struct type *sum, const struct type *part);

/* The signature of `count` consecutive copies of `size` bytes, and of one part after another. */
uint64_t signature_repeat(uint64_t signature, uint64_t size_bytes, uint64_t count);
uint64_t signature_append(uint64_t signature, uint64_t behind, uint64_t behind_bytes);

/* Makes the layout unless r, the result of adding its parts, is negative. Always releases the
 * builder. */
int layout_finish(struct builder *b, int r, const struct type *type, struct layout **ret);
