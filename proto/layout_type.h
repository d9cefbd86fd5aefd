/* What a layout is besides its program: bounds and element types, and how those of parts go
 * together. */
#pragma once

#include "proto/layout_builder.h"

struct type {
    bool empty; /* no element and no mark: bounds mean nothing */
    bool marked;
    int64_t lb, ub;
    uint32_t alignment;
    uint64_t signature;
};

static const struct type type_nothing = {.empty = true, .alignment = 1};

struct type type_of(const struct layout *layout);
/* The bounds of `count` > 0 copies, stride apart, the first moved by offset. 0 or -EOVERFLOW. */
int type_spread(struct type *type, int64_t offset_bytes, uint64_t count, int64_t stride_bytes);
/* Bounds and alignment of both together: where one has marks, only they count. */
void type_join(struct type *sum, const struct type *part);

/* Of `count` copies of `size` bytes, one after the other. */
uint64_t signature_repeat(uint64_t signature, uint64_t size_bytes, uint64_t count);
uint64_t signature_append(uint64_t signature, uint64_t behind, uint64_t behind_bytes);

/* Makes the layout (layout_build.c), unless r says that adding to it failed. Releases the builder
 * in any case. */
int layout_finish(struct builder *b, int r, const struct type *type, struct layout **ret);
