/* The list of a group's members: the same bytes in the daemon and in its clients. */
#pragma once

#include <stdint.h>

/* The session that is a rank of the group. */
struct group_member {
    uint32_t node;
    uint32_t subcluster; /* the lowest node of the node's sub-cluster */
    uint64_t session;    /* of that node; never 0 */
};
