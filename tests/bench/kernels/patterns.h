/* What the benchmark of the copy kernels copies: simple shapes, and what the programs of
 * tests/bench/ddt do. */
#pragma once

#include "proto/layout.h"

struct kernel_pattern {
    char name[32];
    struct layout *target, *source;
};

/* The next pattern into *ret_pattern: false behind the last. Pattern i is the same in every run. */
bool kernel_pattern_new(unsigned index, struct kernel_pattern *ret_pattern);
void kernel_pattern_free(struct kernel_pattern *pattern);
