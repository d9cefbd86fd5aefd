/* Measured times in order, for a median or another share of them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void sort_ns(int64_t *ns, size_t count);
