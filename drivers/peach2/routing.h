/*
 * The cabling of a sub-cluster and the resulting content of the routing registers. Pure functions.
 *
 * A sub-cluster is one ring of boards (E of each to W of the next), or two rings of equal size
 * joined by rungs over S. HA-PACS/TCA (nodes numbered from 1, as in its papers) has ring A
 * 1-3-5-7-15-13-11-9-(1), ring B 2-4-6-8-16-14-12-10-(2) and rungs (2k-1, 2k), folded to keep
 * cables short. Here nodes are numbered from 0; 2 x 4 is folded in the same way.
 *
 * While all cables are plugged in, a packet first crosses the rung and then takes the shorter
 * direction around its ring. It never leaves a ring for a rung, so with the boards' bubble flow
 * control there are no cyclic waits. With a cable missing, packets follow a spanning tree of the
 * remaining cables: longer paths, but a tree has no cycles either. (Of one ring, the tree is the
 * rest of the ring.) During a change of routes, neither holds: so packets that make turns which the
 * current routes do not make do not wait in a port (see struct peach2_route).
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
    struct peach2_end far[PEACH2_NODES][PEACH2_PORTS]; /* PEACH2_NO_NODE: no cable */
};

/* rings: 1, 2, or 0 (2 for 8 or 16 nodes, else 1). Returns 0 or -EINVAL (no node, more than
 * PEACH2_NODES, or an impossible shape). */
int peach2_topology_init(struct peach2_topology *topology, unsigned nodes, unsigned rings);

/* The ports that each node reports as up: bit 1 << port. A cable is plugged in if both ends report
 * it. */
struct peach2_links {
    uint8_t up[PEACH2_NODES];
};
void peach2_links_all(const struct peach2_topology *topology, struct peach2_links *ret_links);
bool peach2_links_whole(const struct peach2_topology *topology, const struct peach2_links *links);

/* The port by which packets of `node` leave for each node: PEACH2_N for itself, PEACH2_DISCARD for
 * unreachable nodes. */
void peach2_exits(const struct peach2_topology *topology, const struct peach2_links *links,
                  unsigned node, uint8_t ret_ports[PEACH2_NODES]);
/* The number of cables on the path; 0: from == to; PEACH2_NO_NODE: unreachable. */
unsigned peach2_hops(const struct peach2_topology *topology, const struct peach2_links *links,
                     unsigned from, unsigned to);
/* The content of the routing registers for these exit ports. whole: all cables are plugged in. */
void peach2_routes(const uint8_t ports[PEACH2_NODES], bool whole,
                   struct peach2_route ret_routes[PEACH2_ROUTES]);
