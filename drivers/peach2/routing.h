/*
 * How a sub-cluster is cabled, and what that makes of the routing registers. Pure functions.
 *
 * A ring of any number of boards (E of each to W of the next), or two rings of as many, joined by
 * rungs over S. HA-PACS/TCA cables (nodes from 1, as in its papers) ring A 1-3-5-7-15-13-11-9-(1),
 * ring B 2-4-6-8-16-14-12-10-(2), rungs (2k-1, 2k): folded, so that no cable is long. Our nodes
 * count from 0; 2 x 4 is folded in the same way.
 *
 * While all cables are in, a packet crosses the rung first and then goes round its ring the shorter
 * way: no ring is left for a rung, so with the boards' bubble rule nothing can wait in a circle.
 * With a cable missing it follows the spanning tree of what is left: longer, but a tree has no
 * circles either. (Of one ring, the tree is all that is left of it.) While some boards go by the
 * one and some by the other, and for what was sent meanwhile, neither is true: packets that make
 * turns which today's routes do not make, do not wait in a port (see struct peach2_route).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/peach2/registers.h"

struct peach2_end { /* of a cable */
    uint8_t node, port;
};

enum { PEACH2_NO_NODE = 0xff };

struct peach2_topology {
    unsigned nodes;
    unsigned rings;                                    /* 1 or 2 */
    struct peach2_end far[PEACH2_NODES][PEACH2_PORTS]; /* node PEACH2_NO_NODE: no cable */
};

/* rings 0: two where there are 8 or 16 nodes, else one. 0, or -EINVAL (none, more than
 * PEACH2_NODES, or no such shape). */
int peach2_topology_init(struct peach2_topology *topology, unsigned nodes, unsigned rings);

/* Which ports each node says are up: bit 1 << port. A cable is in when both its ends say so. */
struct peach2_links {
    uint8_t up[PEACH2_NODES];
};
void peach2_links_all(const struct peach2_topology *topology, struct peach2_links *ret_links);
bool peach2_links_whole(const struct peach2_topology *topology, const struct peach2_links *links);

/* The port by which packets of `node` for each node leave: PEACH2_N for itself, PEACH2_DISCARD
 * where no way leads. */
void peach2_exits(const struct peach2_topology *topology, const struct peach2_links *links,
                  unsigned node, uint8_t ret_ports[PEACH2_NODES]);
/* How many cables a packet crosses that goes by these ways; 0: it is there, PEACH2_NO_NODE: no way
 * leads. */
unsigned peach2_hops(const struct peach2_topology *topology, const struct peach2_links *links,
                     unsigned from, unsigned to);
/* The ways as contents of the routing registers. whole: all cables are in. */
void peach2_routes(const uint8_t ports[PEACH2_NODES], bool whole,
                   struct peach2_route ret_routes[PEACH2_ROUTES]);
