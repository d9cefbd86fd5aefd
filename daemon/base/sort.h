/* Sorts measured times, for a median or another quantile. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void sort_ns(int64_t *ns, size_t count);
