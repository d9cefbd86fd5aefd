/*
 * What moving data costs by how far it goes, as the nodes of a group have measured it. Of all
 * nodes, the greatest of each number counts, so that all ranks of a group have the same numbers and
 * choose the same algorithms.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/tca.pb-c.h"

enum reach {
    REACH_NODE = 0,        /* to a process of the node, in the client's seat */
    REACH_NODE_DAEMON = 1, /* the same in the daemon's seat */
    REACH_SUBCLUSTER = 2,  /* to another node of the sub-cluster */
    REACH_CLUSTER = 3,     /* to any other node */
    REACH_COUNT = 4,
};

/* All zero: not measured. */
struct reach_cost {
    uint32_t latency_ns;   /* from the end of the sender's work to visibility at the target */
    uint32_t overhead_ns;  /* the sender's work for each put or notification */
    uint32_t small_kib_ns; /* 1024 bytes of a put of up to 64 KiB; at least 1 */
    uint32_t large_kib_ns; /* the same of 4 MiB and more */
};

struct reach_costs {
    struct reach_cost at[REACH_COUNT];
};

static inline bool reach_is_measured(const struct reach_cost *cost)
{
    return cost->small_kib_ns > 0;
}

/* As part of a message, which points to `list`. */
struct reach_message {
    Tca__ReachCost costs[REACH_COUNT];
    Tca__ReachCost *list[REACH_COUNT];
};

void reach_pack(const struct reach_costs *costs, struct reach_message *ret_message);
/* Replaces each number by that of the message if the latter is greater. Ignores what a message of
 * another daemon has too many of. */
void reach_worsen(struct reach_costs *costs, size_t count, Tca__ReachCost *const *list);
