/* Random splits, the same ones at all ranks: what tests know of a group without asking tcad. */
#pragma once

#include <stdint.h>

#include "tests/unit/proto/random.h"

enum { WORLD_RANKS_MAX = 32 };

/* The ranks of a group: those of the session, in order. */
struct world {
    uint32_t size, ranks[WORLD_RANKS_MAX];
};

/* All ranks of a session. */
struct world world_all(uint32_t size);
/* The rank in the group of a rank of the session; the group's size: it is not in it. */
uint32_t world_place(const struct world *world, uint32_t rank);
/* A split of `parent`, one of `session_size` ranks, into up to three groups and some ranks without
 * one. Takes as many numbers from `random` at all ranks of the session. Returns the colour of a
 * rank of the session; TCA_GROUP_NONE, and no ranks: it gets no group. */
uint32_t world_split(const struct world *parent, uint32_t session_size, uint32_t rank,
                     struct random *random, struct world *ret_own, int32_t *ret_key);
