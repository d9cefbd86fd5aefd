/* Layouts that are compiled on the worker instead of the engine. */
#pragma once

#include <stdbool.h>

#include "proto/layout.h"

/* An operation, or a block of a list, takes about 40 ns. */
enum { LAYOUT_LONG = 8192 };

static inline bool layout_is_long(const struct layout *layout)
{
    return layout && (uint64_t)layout->op_count + layout->pair_count >= LAYOUT_LONG;
}
