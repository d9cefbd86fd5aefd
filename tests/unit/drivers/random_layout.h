/* Random layouts, and the offset of each of their bytes, computed independently of the layout. */
#pragma once

#include <stdint.h>

#include "proto/layout.h"
#include "tests/unit/proto/random.h"

struct random_layout {
    struct layout *layout;
    int64_t *places; /* of byte i in packed order; layout->size_bytes of them */
};

/* `bytes` bytes (> 0) in loops, lists and blocks side by side. No two have one offset, unless
 * may_overlap. */
struct random_layout random_layout_new(struct random *random, uint32_t bytes, bool may_overlap);
void random_layout_free(struct random_layout *layout);
