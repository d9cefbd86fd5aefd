/* What the benchmark of the copy kernels copies. */
#pragma once

#include "proto/layout.h"

struct pattern {
    char name[32];
    struct layout *target, *source;
};

/* The next pattern into *ret_pattern: false behind the last. Pattern i is the same in every run. */
bool pattern_new(unsigned index, struct pattern *ret_pattern);
void pattern_free(struct pattern *pattern);
