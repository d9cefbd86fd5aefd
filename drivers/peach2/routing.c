#include "drivers/peach2/routing.h"

#include <errno.h>
#include <string.h>

static void cable(struct peach2_topology *topology, unsigned a, unsigned a_port, unsigned b,
                  unsigned b_port)
{
    topology->far[a][a_port] = (struct peach2_end){.node = (uint8_t)b, .port = (uint8_t)b_port};
    topology->far[b][b_port] = (struct peach2_end){.node = (uint8_t)a, .port = (uint8_t)a_port};
}

/* The pair of nodes in a column of two folded rings. */
static unsigned pair_in_column(unsigned columns, unsigned column)
{
    return column < columns / 2 ? column : columns - 1 - (column - columns / 2);
}

int peach2_topology_init(struct peach2_topology *topology, unsigned nodes, unsigned rings)
{
    if (rings == 0)
        rings = nodes == 8 || nodes == 16 ? 2 : 1;
    if (nodes == 0 || nodes > PEACH2_NODES || rings > 2 || (rings == 2 && (nodes % 4 != 0)))
        return -EINVAL;
    *topology = (struct peach2_topology){.nodes = nodes, .rings = rings};
    memset(topology->far, PEACH2_NO_NODE, sizeof(topology->far));
    const unsigned columns = nodes / rings;
    for (unsigned ring = 0; ring < rings; ring++) {
        for (unsigned column = 0; columns > 1 && column < columns; column++) {
            unsigned next = (column + 1) % columns;
            unsigned from = rings == 1 ? column : 2 * pair_in_column(columns, column) + ring;
            unsigned to = rings == 1 ? next : 2 * pair_in_column(columns, next) + ring;
            cable(topology, from, PEACH2_E, to, PEACH2_W);
        }
    }
    for (unsigned node = 0; rings == 2 && node < nodes; node += 2)
        cable(topology, node, PEACH2_S, node + 1, PEACH2_S);
    return 0;
}

void peach2_links_all(const struct peach2_topology *topology, struct peach2_links *ret_links)
{
    *ret_links = (struct peach2_links){0};
    for (unsigned node = 0; node < topology->nodes; node++)
        for (unsigned port = PEACH2_E; port < PEACH2_PORTS; port++)
            if (topology->far[node][port].node != PEACH2_NO_NODE)
                ret_links->up[node] |= (uint8_t)(1 << port);
}

/* The node at the other end, or PEACH2_NO_NODE: no cable, or it is unplugged. */
static unsigned neighbour(const struct peach2_topology *topology, const struct peach2_links *links,
                          unsigned node, unsigned port)
{
    struct peach2_end far = topology->far[node][port];
    if (far.node == PEACH2_NO_NODE || !(links->up[node] & 1 << port) ||
        !(links->up[far.node] & 1 << far.port))
        return PEACH2_NO_NODE;
    return far.node;
}

bool peach2_links_whole(const struct peach2_topology *topology, const struct peach2_links *links)
{
    struct peach2_links all;
    peach2_links_all(topology, &all);
    for (unsigned node = 0; node < topology->nodes; node++)
        if ((links->up[node] & all.up[node]) != all.up[node])
            return false;
    return true;
}

/* ---- all cables plugged in ---- */

/* Hops from one node to another along E; PEACH2_NODES: not in the same ring. */
static unsigned distance_east(const struct peach2_topology *topology, unsigned from, unsigned to)
{
    unsigned steps = 0;
    for (unsigned at = from; at != to; at = topology->far[at][PEACH2_E].node)
        if (++steps >= topology->nodes / topology->rings)
            return PEACH2_NODES;
    return steps;
}

static unsigned exit_in_whole(const struct peach2_topology *topology, unsigned from, unsigned to)
{
    if (from == to)
        return PEACH2_N;
    unsigned east = distance_east(topology, from, to);
    if (east == PEACH2_NODES)
        return PEACH2_S;
    return 2 * east <= topology->nodes / topology->rings ? PEACH2_E : PEACH2_W;
}

/* ---- some cables unplugged ---- */

struct tree {
    uint8_t parent[PEACH2_NODES]; /* PEACH2_NO_NODE: a root */
    uint8_t port[PEACH2_NODES];   /* of the parent, to this node */
    uint8_t up[PEACH2_NODES];     /* of this node, to the parent */
    bool known[PEACH2_NODES];
};

/* Grows a breadth-first tree. Deterministic, so that all nodes compute the same trees. */
static void grow(const struct peach2_topology *topology, const struct peach2_links *links,
                 unsigned root, struct tree *tree)
{
    uint8_t queue[PEACH2_NODES];
    unsigned first = 0, last = 0;
    tree->known[root] = true;
    tree->parent[root] = PEACH2_NO_NODE;
    queue[last++] = (uint8_t)root;
    while (first < last) {
        unsigned at = queue[first++];
        for (unsigned port = PEACH2_E; port < PEACH2_PORTS; port++) {
            unsigned next = neighbour(topology, links, at, port);
            if (next == PEACH2_NO_NODE || tree->known[next])
                continue;
            tree->known[next] = true;
            tree->parent[next] = (uint8_t)at;
            tree->port[next] = (uint8_t)port;
            tree->up[next] = topology->far[at][port].port;
            queue[last++] = (uint8_t)next;
        }
    }
}

static unsigned root_of(const struct tree *tree, unsigned node)
{
    while (tree->parent[node] != PEACH2_NO_NODE)
        node = tree->parent[node];
    return node;
}

static unsigned exit_in_tree(const struct tree *tree, unsigned from, unsigned to)
{
    if (from == to)
        return PEACH2_N;
    if (root_of(tree, from) != root_of(tree, to))
        return PEACH2_DISCARD;
    for (unsigned at = to; tree->parent[at] != PEACH2_NO_NODE; at = tree->parent[at])
        if (tree->parent[at] == from)
            return tree->port[at]; /* down, towards `to` */
    return tree->up[from];
}

void peach2_exits(const struct peach2_topology *topology, const struct peach2_links *links,
                  unsigned node, uint8_t ret_ports[PEACH2_NODES])
{
    struct tree tree = {0};
    bool whole = peach2_links_whole(topology, links);
    for (unsigned root = 0; !whole && root < topology->nodes; root++)
        if (!tree.known[root])
            grow(topology, links, root, &tree);
    for (unsigned to = 0; to < PEACH2_NODES; to++)
        ret_ports[to] = to >= topology->nodes ? PEACH2_DISCARD
                        : whole               ? (uint8_t)exit_in_whole(topology, node, to)
                                              : (uint8_t)exit_in_tree(&tree, node, to);
}

unsigned peach2_hops(const struct peach2_topology *topology, const struct peach2_links *links,
                     unsigned from, unsigned to)
{
    uint8_t ports[PEACH2_NODES];
    unsigned hops = 0;
    for (unsigned at = from; at != to; hops++) {
        peach2_exits(topology, links, at, ports);
        if (ports[to] == PEACH2_DISCARD)
            return PEACH2_NO_NODE;
        at = topology->far[at][ports[to]].node;
    }
    return hops;
}

/* A packet does not leave a complete ring for a rung, and does not turn back. */
static uint32_t turns_to(unsigned port, bool whole)
{
    const uint32_t all = (1 << PEACH2_PORTS) - 1;
    return whole && port == PEACH2_S ? 1 << PEACH2_N : all & ~(1u << port);
}

void peach2_routes(const uint8_t ports[PEACH2_NODES], bool whole,
                   struct peach2_route ret_routes[PEACH2_ROUTES])
{
    memset(ret_routes, 0, PEACH2_ROUTES * sizeof(ret_routes[0]));
    for (unsigned node = 0; node < PEACH2_NODES; node++)
        ret_routes[node] = (struct peach2_route){
            .base = peach2_global(node, 0),
            .mask = PEACH2_WINDOW_MASK,
            .port = ports[node],
            .turns = ports[node] < PEACH2_PORTS ? turns_to(ports[node], whole) : 0};
}
