/* The collective operation that a plan carries out, as its client says: for display only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

struct plan_collective_candidate {
    char algorithm[NAME_MAX_BYTES];
    uint64_t predicted_ns, segment_bytes;
};

struct plan_collective {
    char operation[NAME_MAX_BYTES], algorithm[NAME_MAX_BYTES];
    bool requested;
    uint32_t ranks, root, per_node, per_subcluster;
    uint64_t bytes, segment_bytes;
    uint32_t candidate_count;
    struct plan_collective_candidate candidates[COLLECTIVE_CANDIDATES_MAX];
};
