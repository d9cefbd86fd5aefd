/*
 * What earlier trials of routes have found (trial_route.h), in the user's wisdom: by chain, the
 * rail of those that put between the same layouts to the same nodes; of a plan that can put over
 * pairs, the seat.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "client/core/wisdom.h"
#include "proto/limits.h"

struct tca;
struct tca_plan;

enum {
    WHOLE_PLAN = PLAN_CHAINS_MAX, /* instead of a chain: all of them */
};

/* Of a plan. Initialise with {0}. */
struct route_keys {
    uint64_t keys[PLAN_CHAINS_MAX + 1][2];
    bool made[PLAN_CHAINS_MAX + 1];
};

/* Made when it is needed: layouts can be long, and most plans have nothing to try. */
const uint64_t *route_key(const struct tca_plan *plan, struct route_keys *keys, uint32_t chain);
/* Both have been made. */
static inline bool route_keys_same(const struct route_keys *keys, uint32_t chain, uint32_t other)
{
    return memcmp(keys->keys[chain], keys->keys[other], sizeof(keys->keys[0])) == 0;
}
/* An entry without key and result: what is shown of the puts. */
struct wisdom_entry route_describe(const struct tca_plan *plan, uint32_t chain);
/* NULL: nothing is known. Owned by the session's wisdom. */
const struct wisdom_entry *route_look_up(const struct tca_plan *plan, struct route_keys *keys,
                                         uint32_t chain);
/* Identifies a choice of rails, one bit each. */
uint32_t route_hash_rails(const struct tca *session, uint32_t rails);
