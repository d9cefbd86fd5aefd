/* Sorting numbers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Measured times, for a median or another quantile. */
void sort_ns(int64_t *ns, size_t count);
/* Each number once. Returns how many there are then. */
size_t sort_unique(uint32_t *numbers, size_t count);
