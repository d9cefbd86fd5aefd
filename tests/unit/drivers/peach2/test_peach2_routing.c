/* The routing registers of complete and damaged sub-clusters, followed packet by packet. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "drivers/peach2/routing.h"
#include "proto/wait.h"
#include "tests/unit/drivers/peach2/rig.h"

static struct peach2_topology topology;
static struct peach2_links links;

static void make(unsigned nodes, unsigned rings)
{
    cr_assert(peach2_topology_init(&topology, nodes, rings) == 0);
    peach2_links_all(&topology, &links);
}

static void cut(unsigned node, unsigned port)
{
    links.up[node] &= (uint8_t) ~(1 << port);
}

/* As a board does it. */
static struct peach2_route look_up(const struct peach2_route *routes, uint64_t address)
{
    for (unsigned i = 0; i < PEACH2_ROUTES; i++)
        if (routes[i].mask != 0 && (address & routes[i].mask) == routes[i].base)
            return routes[i];
    return (struct peach2_route){.port = PEACH2_DISCARD};
}

static bool plugged(unsigned node, unsigned port)
{
    struct peach2_end far = topology.far[node][port];
    return far.node != PEACH2_NO_NODE && links.up[node] & 1 << port &&
           links.up[far.node] & 1 << far.port;
}

/* The number of hops, or -1: it does not arrive. Packets on current routes make only allowed
 * turns. */
static int walk(unsigned from, unsigned to)
{
    int hops = 0;
    unsigned in = PEACH2_N;
    for (unsigned at = from;; hops++) {
        uint8_t ports[PEACH2_NODES];
        struct peach2_route routes[PEACH2_ROUTES];
        peach2_exits(&topology, &links, at, ports);
        peach2_routes(ports, peach2_links_whole(&topology, &links), routes);
        const struct peach2_route route = look_up(routes, peach2_global(to, 0x123456780));
        if (route.port == PEACH2_N)
            return at == to ? hops : -1;
        if (route.port >= PEACH2_PORTS || !plugged(at, route.port) || hops > PEACH2_HOPS_MAX)
            return -1;
        cr_assert(route.turns & 1 << in, "%u to %u, at %u", from, to, at);
        cr_assert(!(route.turns & 1 << route.port), "%u to %u turns back at %u", from, to, at);
        in = topology.far[at][route.port].port;
        at = topology.far[at][route.port].node;
    }
}

/* The fewest links there are, or -1. */
static int shortest(unsigned from, unsigned to)
{
    int distance[PEACH2_NODES];
    for (unsigned i = 0; i < PEACH2_NODES; i++)
        distance[i] = i == from ? 0 : -1;
    for (int round = 0; round < PEACH2_NODES; round++)
        for (unsigned node = 0; node < topology.nodes; node++)
            for (unsigned port = PEACH2_E; port < PEACH2_PORTS && distance[node] == round; port++)
                if (plugged(node, port) && distance[topology.far[node][port].node] < 0)
                    distance[topology.far[node][port].node] = round + 1;
    return distance[to];
}

static void check_all_pairs(bool shortest_too)
{
    for (unsigned from = 0; from < topology.nodes; from++) {
        for (unsigned to = 0; to < topology.nodes; to++) {
            int fewest = shortest(from, to), hops = walk(from, to);
            cr_assert((fewest < 0) == (hops < 0), "%u to %u: %d, could be %d", from, to, hops,
                      fewest);
            cr_assert_eq(peach2_hops(&topology, &links, from, to),
                         hops < 0 ? PEACH2_NO_NODE : (unsigned)hops);
            if (shortest_too)
                cr_assert(hops == fewest, "%u to %u: %d, could be %d", from, to, hops, fewest);
        }
    }
}

/* Nodes from 1, as the papers count: one ring of the odd ones, one of the even ones behind them. */
static void check_cables(const unsigned *ring, unsigned count)
{
    make(2 * count, 0);
    cr_assert(topology.rings == 2);
    for (unsigned second = 0; second < 2; second++)
        for (unsigned i = 0; i < count; i++) {
            unsigned node = ring[i] - 1 + second, next = ring[(i + 1) % count] - 1 + second;
            cr_assert(topology.far[node][PEACH2_E].node == next &&
                      topology.far[node][PEACH2_E].port == PEACH2_W);
            cr_assert(topology.far[next][PEACH2_W].node == node &&
                      topology.far[next][PEACH2_W].port == PEACH2_E);
        }
    for (unsigned k = 1; k <= count; k++) {
        cr_assert(topology.far[2 * k - 2][PEACH2_S].node == 2 * k - 1);
        cr_assert(topology.far[2 * k - 1][PEACH2_S].node == 2 * k - 2);
    }
}

Test(peach2_routing, the_cables_of_ha_pacs)
{
    static const unsigned sixteen[] = {1, 3, 5, 7, 15, 13, 11, 9}, eight[] = {1, 3, 7, 5};
    check_cables(sixteen, 8);
    check_cables(eight, 4);
    make(5, 0);
    cr_assert(topology.rings == 1);
}

Test(peach2_routing, whole_shapes_take_the_shortest_way)
{
    for (unsigned nodes = 1; nodes <= 16; nodes++) {
        make(nodes, 1);
        check_all_pairs(true);
    }
    make(8, 2);
    check_all_pairs(true);
    make(16, 2);
    check_all_pairs(true);
}

/* In a complete sub-cluster, no packet leaves a ring for a rung, which prevents cyclic waits. A
 * packet that does so on the earlier routes of a tree does not wait in the ring. */
Test(peach2_routing, a_rung_is_crossed_first)
{
    make(16, 2);
    for (unsigned at = 0; at < 16; at++) {
        uint8_t ports[PEACH2_NODES];
        struct peach2_route routes[PEACH2_ROUTES];
        peach2_exits(&topology, &links, at, ports);
        peach2_routes(ports, true, routes);
        cr_assert_eq(look_up(routes, peach2_global(at ^ 1, 0)).port, PEACH2_S);
        cr_assert_eq(look_up(routes, peach2_global(at ^ 1, 0)).turns, 1u << PEACH2_N);
    }
    for (unsigned from = 0; from < 16; from++)
        for (unsigned to = 0; to < 16; to++) {
            bool in_ring = false;
            for (unsigned at = from; at != to;) {
                uint8_t ports[PEACH2_NODES];
                peach2_exits(&topology, &links, at, ports);
                cr_assert(!(in_ring && ports[to] == PEACH2_S));
                in_ring |= ports[to] != PEACH2_S;
                at = topology.far[at][ports[to]].node;
            }
        }
}

Test(peach2_routing, any_cable_pulled)
{
    static const unsigned shapes[][2] = {{2, 1}, {3, 1}, {8, 1}, {16, 1}, {8, 2}, {16, 2}};
    for (unsigned shape = 0; shape < sizeof(shapes) / sizeof(shapes[0]); shape++) {
        make(shapes[shape][0], shapes[shape][1]);
        for (unsigned node = 0; node < topology.nodes; node++)
            for (unsigned port = PEACH2_E; port < PEACH2_PORTS; port++) {
                peach2_links_all(&topology, &links);
                cut(node, port);
                check_all_pairs(false);
            }
    }
}

Test(peach2_routing, any_two_cables_or_any_board_gone)
{
    make(16, 2);
    for (unsigned a = 0; a < 16 * PEACH2_PORTS; a++)
        for (unsigned b = 0; b < a; b++) {
            peach2_links_all(&topology, &links);
            cut(a / PEACH2_PORTS, a % PEACH2_PORTS);
            cut(b / PEACH2_PORTS, b % PEACH2_PORTS);
            check_all_pairs(false);
        }
    for (unsigned dead = 0; dead < 16; dead++) {
        peach2_links_all(&topology, &links);
        links.up[dead] = 0;
        check_all_pairs(false);
    }
}

/* ---- sixteen boards ---- */

enum { MEMORY = 4096, LENGTH = 192, PACKETS = 2 /* the data, and the notification */ };

static struct rig rig;
static uint64_t expected_in[PEACH2_NODES][PEACH2_PORTS], expected_out[PEACH2_NODES][PEACH2_PORTS];

/* The exit port by the board's registers, as the board reads them. */
static unsigned port_in_registers(unsigned node, uint64_t address)
{
    return look_up(rig.boards[node].bar0->routes, address).port;
}

/* Follows the registers from board to board and counts packets. Returns the number of hops. */
static int follow(unsigned from, unsigned to, uint64_t address)
{
    int hops = 0;
    expected_out[from][PEACH2_N] += PACKETS;
    for (unsigned at = from; at != to; hops++) {
        unsigned port = port_in_registers(at, address);
        cr_assert(port > PEACH2_N && port < PEACH2_PORTS && hops < PEACH2_NODES, "%u to %u at %u",
                  from, to, at);
        struct peach2_end far = rig.topology.far[at][port];
        expected_out[at][port] += PACKETS;
        expected_in[far.node][far.port] += PACKETS;
        at = far.node;
    }
    cr_assert(port_in_registers(to, address) == PEACH2_N);
    expected_in[to][PEACH2_N] += PACKETS;
    return hops;
}

/* Boards update their counters when they are idle. */
static void wait_counts(unsigned from, unsigned to)
{
    for (unsigned node = 0; node < PEACH2_NODES; node++)
        for (unsigned port = PEACH2_N; port < PEACH2_PORTS; port++) {
            const struct peach2_port_registers *counts = &rig.boards[node].bar0->ports[port];
            uint64_t since_ns = clock_now_ns();
            while (atomic_load(&counts->packets_out) != expected_out[node][port] ||
                   atomic_load(&counts->packets_in) != expected_in[node][port])
                cr_assert(clock_now_ns() - since_ns < UINT64_C(30000000000),
                          "%u to %u: port %u of %u has passed %lu, %lu", from, to, port, node,
                          (unsigned long)atomic_load(&counts->packets_in),
                          (unsigned long)atomic_load(&counts->packets_out));
        }
}

static void send_across(unsigned from, unsigned to)
{
    struct rig_board *board = &rig.boards[from], *far = &rig.boards[to];
    const uint64_t target = peach2_global(to, RIG_BUS + MEMORY / 2);
    uint64_t notify[2];
    for (unsigned i = 0; i < LENGTH; i++)
        board->memory[i] = (uint8_t)(16 * from + to + i);
    board->bar0->descriptors[0] = (struct peach2_descriptor){.source = RIG_BUS,
                                                             .destination = target,
                                                             .length = LENGTH,
                                                             .flags = PEACH2_END | PEACH2_NOTIFY,
                                                             .notify = {from, to}};
    rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
    cr_assert(rig_notified(far, from, notify) && notify[0] == from && notify[1] == to);
    cr_assert(memcmp(far->memory + MEMORY / 2, board->memory, LENGTH) == 0);
}

/* For every pair, the path in the registers is the shortest, and the counters of all ports show
 * that data took this path only. */
Test(peach2_routing, all_pairs_of_sixteen, .timeout = 200)
{
    make(16, 2);
    rig_open(&rig, 16, 2, MEMORY);
    for (unsigned from = 0; from < 16; from++)
        for (unsigned to = 0; to < 16; to++) {
            cr_assert(follow(from, to, peach2_global(to, RIG_BUS)) == shortest(from, to));
            send_across(from, to);
            wait_counts(from, to);
        }
    rig_close(&rig);
}

Test(peach2_routing, no_such_shape)
{
    cr_assert(peach2_topology_init(&topology, 0, 0) == -EINVAL);
    cr_assert(peach2_topology_init(&topology, 17, 0) == -EINVAL);
    cr_assert(peach2_topology_init(&topology, 6, 2) == -EINVAL);
    cr_assert(peach2_topology_init(&topology, 8, 3) == -EINVAL);
}
