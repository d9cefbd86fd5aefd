/* Plans that carry out a collective operation, for modules of this library that are built on
 * tca.h: what tcactl plan explain shows of them, and committing several of them at once. */
#pragma once

#include <stdbool.h>

#include "client/include/tca.h"
#include "proto/limits.h"

struct collective_candidate {
    const char *algorithm;
    uint64_t predicted_ns;
    uint64_t segment_bytes; /* UINT64_MAX: one piece */
};

struct collective {
    const char *operation, *algorithm;
    bool requested; /* the program named the algorithm */
    uint32_t ranks, root;
    /* Ranks of a node, and nodes of a sub-cluster, where these follow one another and tcactl
     * simulate has the operation; else 0. */
    uint32_t per_node, per_subcluster;
    uint64_t bytes;           /* of the whole, or of each block */
    uint64_t segment_bytes;   /* as above */
    uint32_t candidate_count; /* 0: its cost cannot be predicted */
    struct collective_candidate candidates[COLLECTIVE_CANDIDATES_MAX];
};

/* The description must remain valid until the plan is committed. */
void plan_describe_collective(struct tca_plan *plan, const struct collective *collective);

/* tca_plan_commit() with the default time-out in two halves, so that tcad works on several plans at
 * once. After plan_commit_begin() has returned 0, plan_commit_end() must follow before any other
 * call for the plan, also when other plans fail. */
int plan_commit_begin(struct tca_plan *plan);
int plan_commit_end(struct tca_plan *plan);
