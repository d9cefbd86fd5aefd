/* Packets over cables: the two rings of each port. link.h has the rules. */
#include <sys/eventfd.h>

#include "tools/tca-board/board.h"

struct packet *link_slot(struct port *port, uint32_t need)
{
    if (LINK_SLOTS - (port->out_tail - port->out_head) < need) {
        /* acquire: pairs with the receiver's release; it has consumed the slots */
        uint64_t head = atomic_load_explicit(&port->out->head, memory_order_acquire);
        if (port->out_tail - head <= LINK_SLOTS) /* else it is invalid */
            port->out_head = head;
        if (LINK_SLOTS - (port->out_tail - port->out_head) < need)
            return NULL;
    }
    return &port->out->slots[port->out_tail % LINK_SLOTS].packet;
}

static void show(struct port *port)
{
    port->out_shown = port->out_tail;
    /* release: pairs with the receiver's acquire; the packets are complete */
    atomic_store_explicit(&port->out->tail, port->out_tail, memory_order_release);
}

void link_publish(struct port *port)
{
    port->sent = true;
    if (++port->out_tail - port->out_shown >= BOARD_SHOW)
        show(port);
}

/* Claims the packet at in_head. False: there is none, or the cable is being unplugged. */
static bool claim(struct port *port)
{
    if (port->claimed)
        return true;
    if (port->in_head == port->in_tail)
        /* acquire: pairs with the sender's release; the packets are complete */
        port->in_tail = atomic_load_explicit(&port->in->tail, memory_order_acquire);
    if (port->in_tail - port->in_head > LINK_SLOTS) /* invalid */
        port->in_tail = port->in_head;
    if (port->in_tail == port->in_head)
        return false;
    uint64_t mine = port->in_head;
    if (!atomic_compare_exchange_strong_explicit(&port->in->claimed, &mine, mine + 1,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return false;
    port->claimed = true;
    port->claim = &port->in->slots[port->in_head % LINK_SLOTS].packet;
    return true;
}

/* A store to a line that another core has last read waits for that core; if that core has last
 * written it, such stores overlap (drivers/shm/lane.c). So write to each line of a slot after
 * reading it, before the neighbour stores to it again. */
static void take_lines(struct packet *packet, uint32_t length)
{
    for (uint32_t i = 0; i < sizeof(packet->header) + length; i += 64)
        ((uint8_t *)packet)[i] = 0;
}

/* Passes a received packet on. True: it was consumed. */
static bool pass_on(struct board *board, unsigned index, struct packet *packet)
{
    struct port *port = &board->ports[index];
    const struct packet_header header =
        packet->header; /* copied, because the neighbour could change it */
    if (header.length > PEACH2_PAYLOAD_MAX) {
        board_discard(board, PEACH2_CAUSE_MALFORMED);
        return true;
    }
    if (!board_send(board, &header, packet->payload, index, false))
        return false;
    take_lines(packet, header.length);
    port->packets_in++;
    port->bytes_in += header.length;
    return true;
}

unsigned link_run(struct board *board, unsigned index)
{
    struct port *port = &board->ports[index];
    unsigned moved = 0;
    if (port->has_held) {
        if (!pass_on(board, index, &port->held))
            return 0;
        port->has_held = false;
        moved++;
    }
    if (!port->up)
        return moved;
    uint64_t before = port->in_head;
    while (moved < BOARD_BURST && claim(port) && pass_on(board, index, port->claim)) {
        port->claimed = false;
        port->in_head++;
        moved++;
    }
    if (port->in_head != before) {
        atomic_store_explicit(&port->in->head, port->in_head, memory_order_release);
        port->taken = true;
    }
    return moved;
}

static void wake(struct port *port, _Atomic uint32_t *asleep)
{
    if (atomic_load_explicit(asleep, memory_order_relaxed) != 0 && atomic_exchange(asleep, 0) != 0)
        eventfd_write(port->bell_fd, 1);
}

void link_wake(struct port *port)
{
    if (!port->up || (!port->sent && !port->taken))
        return;
    if (port->out_shown != port->out_tail)
        show(port);
    atomic_thread_fence(
        memory_order_seq_cst); /* our tail and head before the loads: pairs with link_arm() */
    if (port->sent)
        wake(port, &port->out->armed);
    if (port->taken)
        wake(port, &port->in->starved);
    port->sent = port->taken = false;
}

void link_arm(struct port *port, bool armed)
{
    if (!port->up)
        return;
    bool full = LINK_SLOTS - (port->out_tail - port->out_head) < 2;
    atomic_store_explicit(&port->in->armed, armed, memory_order_relaxed);
    atomic_store_explicit(&port->out->starved, armed && full, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* before the last check: pairs with link_wake() */
}
