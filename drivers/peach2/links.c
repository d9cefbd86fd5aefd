/*
 * The state of all cables. Each driver writes the state of its own ports, and the states that it
 * has read in its neighbours' scratchpads, to its board's scratchpad. So changes spread from
 * neighbour to neighbour without routes, bypass all traffic, and cannot be lost; all drivers then
 * compute the same routes. Packets in flight during a change may be lost or overtaken: the boards
 * detect it (see accept_epoch), and the senders resync.
 *
 * A row of the scratchpad combines the time of its node's last change (nanoseconds, without the
 * lowest eight bits) with the ports that are up: a greater row is newer.
 */
#include <string.h>
#include <time.h>

#include "drivers/peach2/peach2.h"

enum { ROW_PORTS = 0xff };

static uint8_t own_ports(const struct peach2 *peach2)
{
    uint8_t up = 0;
    for (unsigned port = PEACH2_E; port < PEACH2_PORTS; port++)
        if (atomic_load(&peach2->device.bar0->ports[port].up))
            up |= (uint8_t)(1 << port);
    return up;
}

/* Greater than any previous row of this node, also before a restart. */
static uint64_t own_row(const struct peach2 *peach2)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t time =
        ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) & ~(uint64_t)ROW_PORTS;
    uint64_t last = peach2->rows[peach2->device.node] & ~(uint64_t)ROW_PORTS;
    return (time > last ? time : last + ROW_PORTS + 1) | own_ports(peach2);
}

static void publish_rows(struct peach2 *peach2)
{
    struct peach2_registers *bar0 = peach2->device.bar0;
    for (unsigned node = 0; node < PEACH2_NODES; node++)
        atomic_store_explicit(&bar0->scratch[node], peach2->rows[node], memory_order_relaxed);
    atomic_fetch_add_explicit(&bar0->scratch_version, 1,
                              memory_order_release); /* pairs with the board's acquire */
    peach2_device_ring(&peach2->device);
}

static void show(struct peach2 *peach2, bool gone)
{
    uint32_t reach = 0;
    for (unsigned node = 0; node < peach2->topology.nodes; node++) {
        bool own = node == peach2->device.node;
        atomic_store_explicit(&peach2->shown_up[node], own && gone ? 0 : peach2->links.up[node],
                              memory_order_relaxed);
        unsigned hops = peach2_hops(&peach2->topology, &peach2->links, peach2->device.node, node);
        atomic_store_explicit(&peach2->shown_hops[node],
                              gone || hops == PEACH2_NO_NODE ? 0 : (uint8_t)hops,
                              memory_order_relaxed);
        reach |= (uint32_t)(!gone && peach2->exits[node] != PEACH2_DISCARD) << node;
    }
    atomic_store_explicit(&peach2->shown_reach, reach, memory_order_relaxed);
}

void peach2_links_none(struct peach2 *peach2)
{
    show(peach2, true);
}

void peach2_links_start(struct peach2 *peach2)
{
    const unsigned node = peach2->device.node;
    peach2->rows[node] = own_row(peach2);
    peach2->links.up[node] = (uint8_t)peach2->rows[node];
    peach2_exits(&peach2->topology, &peach2->links, node, peach2->exits);
    peach2->whole = peach2_links_whole(&peach2->topology, &peach2->links);
    show(peach2, false);
    publish_rows(peach2);
}

/* Commits the new routes. Then resets the channels, which resyncs the peers with puts in flight,
 * and resyncs unreachable peers, which are not sent requests. */
static void reroute(struct peach2 *peach2)
{
    uint8_t exits[PEACH2_NODES];
    peach2_exits(&peach2->topology, &peach2->links, peach2->device.node, exits);
    const bool whole = peach2_links_whole(&peach2->topology, &peach2->links);
    const bool same_exits = memcmp(exits, peach2->exits, sizeof(exits)) == 0;
    if (same_exits && whole == peach2->whole)
        return;
    memcpy(peach2->exits, exits, sizeof(exits));
    peach2->whole = whole;
    peach2_routes(exits, whole, peach2->device.bar0->routes);
    if (peach2_device_commit(&peach2->device) < 0) {
        peach2_board_lost(peach2);
        return;
    }
    if (same_exits)
        return;
    peach2_channels_reset(peach2);
    for (struct peer *peer = peach2->peers; peer; peer = peer->next)
        if (peer->state == PEER_OPEN && exits[peer->address.node] == PEACH2_DISCARD)
            peach2_peer_sync(peach2, peer);
}

static bool look_at_own(struct peach2 *peach2)
{
    const unsigned node = peach2->device.node;
    if (own_ports(peach2) == peach2->links.up[node])
        return false;
    peach2->rows[node] = own_row(peach2);
    return true;
}

static bool look_at_neighbour(struct peach2 *peach2, unsigned port)
{
    bool changed = false;
    for (unsigned node = 0; node < peach2->topology.nodes; node++) {
        uint64_t row =
            atomic_load_explicit(&peach2->device.bar0->heard[port][node], memory_order_relaxed);
        if (node == peach2->device.node || row <= peach2->rows[node])
            continue;
        peach2->rows[node] = row;
        changed = true;
    }
    return changed;
}

void peach2_links_look(struct peach2 *peach2)
{
    bool changed = look_at_own(peach2);
    for (unsigned port = PEACH2_E; port < PEACH2_PORTS; port++)
        changed |= look_at_neighbour(peach2, port);
    if (!changed)
        return;
    for (unsigned node = 0; node < peach2->topology.nodes; node++)
        if (peach2->rows[node] > 0)
            peach2->links.up[node] = (uint8_t)peach2->rows[node];
    publish_rows(peach2);
    reroute(peach2);
    show(peach2, peach2->gone);
}

/* ---- for display ---- */

unsigned peach2_place(const struct driver *driver)
{
    return ((const struct peach2 *)driver)->device.node;
}

bool peach2_reaches(const struct driver *driver, unsigned place)
{
    const struct peach2 *peach2 = (const struct peach2 *)driver;
    return place < peach2->topology.nodes &&
           atomic_load_explicit(&peach2->shown_reach, memory_order_relaxed) >> place & 1;
}

unsigned peach2_hops_to(const struct driver *driver, unsigned place)
{
    const struct peach2 *peach2 = (const struct peach2 *)driver;
    return place < peach2->topology.nodes
               ? atomic_load_explicit(&peach2->shown_hops[place], memory_order_relaxed)
               : 0;
}

static bool says_up(const struct peach2 *peach2, struct peach2_end end)
{
    return atomic_load_explicit(&peach2->shown_up[end.node], memory_order_relaxed) >> end.port & 1;
}

unsigned peach2_cables(const struct driver *driver, struct driver_cable *ret_cables, unsigned max)
{
    static const char names[] = "NEWS"; /* by enum peach2_port */
    const struct peach2 *peach2 = (const struct peach2 *)driver;
    unsigned count = 0;
    for (uint8_t node = 0; node < peach2->topology.nodes; node++) {
        for (uint8_t port = PEACH2_E; port < PEACH2_PORTS && count < max; port++) {
            struct peach2_end end = {node, port}, far = peach2->topology.far[node][port];
            if (far.node == PEACH2_NO_NODE || port == PEACH2_W ||
                (port == PEACH2_S && far.node < node))
                continue; /* no cable, or listed from its other end */
            ret_cables[count++] = (struct driver_cable){
                .places = {node, far.node},
                .ports = {names[port], names[far.port]},
                .in = says_up(peach2, end) && says_up(peach2, far),
            };
        }
    }
    return count;
}
