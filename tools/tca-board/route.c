/* Routes packets: the routing registers, and the rules of the ring. */
#include <string.h>

#include "proto/wait.h"
#include "tools/tca-board/board.h"

static const struct peach2_route *find(const struct board *board, uint64_t address)
{
    for (unsigned i = 0; i < PEACH2_ROUTES; i++) {
        const struct peach2_route *route = &board->routes[i];
        if (route->mask != 0 && (address & route->mask) == route->base)
            return route;
    }
    return NULL;
}

unsigned board_route(const struct board *board, uint64_t address)
{
    if ((address & ~(PEACH2_NODE_MASK | PEACH2_OFFSET_MASK)) != PEACH2_GLOBAL)
        return PEACH2_DISCARD;
    const struct peach2_route *route = find(board, address);
    return route && route->port < PEACH2_PORTS ? route->port : PEACH2_DISCARD;
}

/* Whether a packet's route has changed in transit: see struct peach2_route. */
static bool strays(const struct board *board, uint64_t address, unsigned in)
{
    const struct peach2_route *route = find(board, address);
    return in != PEACH2_N && route && !(route->turns & 1u << in);
}

/* A packet that continues in the ring of E and W may take any slot; one that enters it must leave
 * one free. A packet held from an unplugged cable is not in the ring. */
static uint32_t slots_needed(const struct board *board, unsigned in, unsigned out)
{
    bool straight = (in == PEACH2_E && out == PEACH2_W) || (in == PEACH2_W && out == PEACH2_E);
    return straight && !board->ports[in].has_held ? 1 : 2;
}

static bool hold_over(struct board *board, const struct port *port)
{
    uint64_t hold_ms = atomic_load_explicit(&board->bar0->hold_ms, memory_order_relaxed);
    if (hold_ms > PEACH2_HOLD_MAX_MS)
        hold_ms = PEACH2_HOLD_MAX_MS;
    return clock_now_ns() - port->down_ns > 1000000 * hold_ms;
}

static bool forward(struct board *board, const struct packet_header *header, const uint8_t *payload,
                    unsigned in, unsigned out)
{
    struct port *port = &board->ports[out];
    if (header->hops == 0) {
        board_discard(board, PEACH2_CAUSE_HOPS);
        return true;
    }
    if (!port->up) {
        if (!hold_over(board, port))
            return false;
        board_discard(board, PEACH2_CAUSE_HELD);
        return true;
    }
    struct packet *slot = link_slot(port, slots_needed(board, in, out));
    if (!slot) {
        port->stalls++;
        return strays(board, header->address, in) && replay_push(board, header, payload, false);
    }
    slot->header = *header;
    slot->header.hops--;
    memcpy(slot->payload, payload, header->length);
    link_publish(port);
    port->packets_out++;
    port->bytes_out += header->length;
    return true;
}

bool board_emit(struct board *board, struct packet_header *header, const uint8_t *payload)
{
    unsigned node = board_counted(header->address) ? peach2_node_of(header->address) : PEACH2_NODES;
    header->epoch = atomic_load_explicit(&board->bar0->epoch, memory_order_relaxed);
    header->node = (uint8_t)board->node;
    header->hops = PEACH2_HOPS_MAX;
    if (node < PEACH2_NODES)
        header->number = board->number_sent[node];
    if (!board_send(board, header, payload, PEACH2_N, false))
        return false;
    if (node < PEACH2_NODES)
        board->number_sent[node]++;
    board->ports[PEACH2_N].packets_out++;
    board->ports[PEACH2_N].bytes_out += header->length;
    return true;
}

bool board_send(struct board *board, const struct packet_header *header, const uint8_t *payload,
                unsigned in, bool replay)
{
    unsigned node = peach2_node_of(header->address);
    if (board->replay_count > 0 && !replay && node < PEACH2_NODES && board->replays[node].count > 0)
        return in != PEACH2_N && replay_push(board, header, payload, false);
    unsigned out = board_route(board, header->address);
    if (out == PEACH2_N) {
        board_land(board, header, payload, in);
        return true;
    }
    if (out >= PEACH2_PORTS) {
        board_discard(board, PEACH2_CAUSE_UNROUTED);
        return true;
    }
    return forward(board, header, payload, in, out);
}
