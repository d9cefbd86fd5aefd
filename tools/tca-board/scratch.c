/* Scratchpads: a few independent words that neighbours read from each other, in any order. */
#include "tools/tca-board/board.h"

void scratch_write(struct board *board, struct port *port)
{
    for (unsigned i = 0; i < PEACH2_NODES; i++)
        atomic_store_explicit(&port->out->scratch[i],
                              atomic_load_explicit(&board->bar0->scratch[i], memory_order_relaxed),
                              memory_order_relaxed);
    /* release: pairs with the neighbour's acquire */
    atomic_fetch_add_explicit(&port->out->scratch_version, 1, memory_order_release);
    port->sent = true;
}

static unsigned read_from(struct board *board, unsigned index)
{
    struct port *port = &board->ports[index];
    uint32_t version = atomic_load_explicit(&port->in->scratch_version, memory_order_acquire);
    if (version == port->scratch_version)
        return 0;
    port->scratch_version = version;
    for (unsigned i = 0; i < PEACH2_NODES; i++)
        atomic_store_explicit(&board->bar0->heard[index][i],
                              atomic_load_explicit(&port->in->scratch[i], memory_order_relaxed),
                              memory_order_relaxed);
    board_cause(board, PEACH2_CAUSE_SCRATCH);
    return 1;
}

unsigned scratch_run(struct board *board)
{
    unsigned moved = 0;
    uint32_t version = atomic_load_explicit(&board->bar0->scratch_version, memory_order_acquire);
    for (unsigned i = PEACH2_E; i < PEACH2_PORTS; i++) {
        if (!board->ports[i].up)
            continue;
        if (version != board->scratch_version)
            scratch_write(board, &board->ports[i]);
        moved += read_from(board, i);
    }
    moved += version != board->scratch_version;
    board->scratch_version = version;
    return moved;
}
