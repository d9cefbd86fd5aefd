/* The list of a group's members: one per group and node, for all that use it there. */
#pragma once

#include "proto/member.h"

struct members {
    unsigned uses;
    uint32_t size;
    struct group_member list[]; /* [size], by rank */
};

/* All zero, used once. NULL: out of memory. */
struct members *members_new(uint32_t size);
struct members *members_use(struct members *members);
/* The last use frees it. Returns NULL, which is a no-op, too. */
struct members *members_unuse(struct members *members);

/* What a list takes. */
static inline uint64_t members_bytes(uint32_t size)
{
    return sizeof(struct members) + size * sizeof(struct group_member);
}
