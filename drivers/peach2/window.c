/*
 * The PIO window: collects bytes into lines, as a processor's write-combining buffers would.
 *
 * Only the driver uses it; clients cannot map it, for two reasons: a line can address any memory
 * mapped in the sub-cluster, and lines are not acknowledged, and lost in a resync. The driver
 * stores only data of its own puts, which it repeats until they are acknowledged. A client's store
 * is a small put of a plan, which uses the window if the hardware's alignment requires it.
 */
#include <string.h>

#include "drivers/peach2/peach2.h"

uint32_t peach2_window_room(const struct peach2 *peach2)
{
    const struct peach2_window *bar2 = peach2->device.bar2;
    /* acquire: pairs with the board's release; it has consumed those lines */
    uint32_t held = atomic_load_explicit(&bar2->tail, memory_order_relaxed) -
                    atomic_load_explicit(&bar2->head, memory_order_acquire);
    return held < PEACH2_PIO_LINES ? PEACH2_PIO_LINES - held : 0;
}

void peach2_window_push(struct peach2 *peach2)
{
    struct peach2_window *bar2 = peach2->device.bar2;
    if (peach2->line.mask == 0)
        return;
    uint32_t tail = atomic_load_explicit(&bar2->tail, memory_order_relaxed);
    bar2->lines[tail % PEACH2_PIO_LINES] = peach2->line;
    peach2->line.mask = 0;
    atomic_store_explicit(&bar2->tail, tail + 1,
                          memory_order_release); /* pairs with the board's acquire */
}

void peach2_window_store(struct peach2 *peach2, uint64_t address, const uint8_t *bytes,
                         uint32_t length)
{
    while (length > 0) {
        uint64_t line = address & ~(uint64_t)(PEACH2_PIO_BYTES - 1);
        uint32_t first = (uint32_t)(address - line);
        uint32_t piece = PEACH2_PIO_BYTES - first < length ? PEACH2_PIO_BYTES - first : length;
        uint64_t mask = piece == 64 ? ~UINT64_C(0) : ((UINT64_C(1) << piece) - 1) << first;
        if (peach2->line.mask != 0 && (peach2->line.address != line || (peach2->line.mask & mask)))
            peach2_window_push(peach2);
        peach2->line.address = line;
        peach2->line.mask |= mask;
        memcpy(peach2->line.bytes + first, bytes, piece);
        address += piece;
        bytes += piece;
        length -= piece;
    }
}
