/* Layouts that are compiled on the worker instead of the engine. */
#pragma once

#include <stdbool.h>

#include "proto/layout.h"

/* A block of a list takes about 40 ns. */
enum { LAYOUT_LONG = 8192 };

static inline bool layout_is_long(const struct layout *layout)
{
    return layout && layout->pair_count >= LAYOUT_LONG;
}
