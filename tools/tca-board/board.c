/* Shared by all parts of the board: causes and interrupts, memory, routes, reset. */
#include <string.h>
#include <sys/eventfd.h>

#include "tools/tca-board/board.h"

void board_cause(struct board *board, uint32_t bits)
{
    struct peach2_registers *bar0 = board->bar0;
    /* If the bits are already set, the driver has been or will be interrupted for them. The fence
     * orders earlier stores for this cause before the load: a driver clears the bit before it reads
     * them. */
    atomic_thread_fence(memory_order_seq_cst);
    if ((atomic_load_explicit(&bar0->cause, memory_order_relaxed) & bits) != bits)
        atomic_fetch_or(&bar0->cause, bits);
    /* The mask may have changed before the exchange: interrupt in any case, as registers.h
     * requires. */
    if ((atomic_load_explicit(&bar0->mask, memory_order_relaxed) & bits) &&
        atomic_exchange(&bar0->mask, 0) != 0)
        eventfd_write(board->interrupt_fd, 1);
}

void board_discard(struct board *board, uint32_t cause)
{
    atomic_fetch_add_explicit(&board->bar0->discarded, 1, memory_order_relaxed);
    board_cause(board, cause);
}

uint8_t *board_memory(struct board *board, uint64_t bus, uint64_t length_bytes, bool write)
{
    if (bus < PEACH2_INTERNAL)
        return iommu_find(&board->iommu, bus, length_bytes);
    uint64_t offset = bus - PEACH2_INTERNAL;
    const uint64_t memory_end = PEACH2_AT_MEMORY + PEACH2_INTERNAL_NOTIFY_BYTES;
    if (offset >= PEACH2_AT_MEMORY && offset < memory_end && length_bytes <= memory_end - offset)
        return board->bar0->memory + (offset - PEACH2_AT_MEMORY);
    const uint64_t slots_end = sizeof(board->bar0->descriptors);
    if (!write && offset < slots_end && length_bytes <= slots_end - offset)
        return (uint8_t *)board->bar0->descriptors + offset;
    return NULL;
}

static void take_rings(struct board *board)
{
    uint64_t base = board->bar0->notify_base;
    uint32_t entries = board->bar0->notify_entries;
    if (base == board->notify_base && entries == board->notify_entries)
        return;
    board->notify_base = base;
    board->notify_entries = entries > 65536 || (entries & (entries - 1)) ? 0 : entries;
    memset(board->notify_serial, 0, sizeof(board->notify_serial));
}

void board_take_commit(struct board *board)
{
    /* acquire: pairs with the driver's release; the routes are complete */
    uint32_t commit = atomic_load_explicit(&board->bar0->commit, memory_order_acquire);
    if (commit == board->commit)
        return;
    memcpy(board->routes, board->bar0->routes, sizeof(board->routes));
    take_rings(board);
    board->commit = commit;
    atomic_store_explicit(&board->bar0->committed, commit, memory_order_release);
}

static void show_port(struct peach2_port_registers *registers, const struct port *port)
{
    atomic_store_explicit(&registers->up, port->up, memory_order_relaxed);
    atomic_store_explicit(&registers->node, port->node, memory_order_relaxed);
    atomic_store_explicit(&registers->far_port, port->far_port, memory_order_relaxed);
    atomic_store_explicit(&registers->changes, port->changes, memory_order_relaxed);
    atomic_store_explicit(&registers->packets_in, port->packets_in, memory_order_relaxed);
    atomic_store_explicit(&registers->bytes_in, port->bytes_in, memory_order_relaxed);
    atomic_store_explicit(&registers->packets_out, port->packets_out, memory_order_relaxed);
    atomic_store_explicit(&registers->bytes_out, port->bytes_out, memory_order_relaxed);
    atomic_store_explicit(&registers->stalls, port->stalls, memory_order_relaxed);
}

void board_show(struct board *board)
{
    board->bar0->magic = PEACH2_MAGIC;
    board->bar0->version = PEACH2_VERSION;
    board->bar0->node = board->node;
    board->bar0->boot = board->boot;
    for (unsigned i = 0; i < PEACH2_PORTS; i++)
        show_port(&board->bar0->ports[i], &board->ports[i]);
}

/* No driver is attached. Routes stay, so that the neighbours' packets are still forwarded. */
void board_reset(struct board *board)
{
    struct peach2_registers *bar0 = board->bar0;
    atomic_store(&bar0->mask, 0);
    atomic_store(&bar0->admitted, 0);
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++) {
        channel_reset(board, i);
        atomic_store(&bar0->channels[i].control, 0);
    }
    /* Stored lines of BAR 2 are complete and still sent. */
    iommu_clear(&board->iommu);
    board->notify_base = 0;
    board->notify_entries = 0;
    bar0->notify_base = 0;
    bar0->notify_entries = 0;
    board_show(board);
}
