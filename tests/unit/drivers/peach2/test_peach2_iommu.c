/* What of the host's memory a board may touch, and when: at the edges, and while it is taken away.
 * And how the host is told: no interrupt is lost. */
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/peach2/rig.h"

enum { MEMORY = 1 << 20, LENT = (1 << 30) + 64, LENT_BYTES = 100 };

static struct rig rig;

static const struct peach2_descriptor plain = {
    .source = RIG_BUS, .length = 128, .flags = PEACH2_END | PEACH2_ACKNOWLEDGE};

/* 128 bytes from node 0 to that bus address of node 1: whether they have landed. */
static bool lands(uint64_t bus, uint32_t bytes)
{
    struct rig_board *board = &rig.boards[0], *far = &rig.boards[1];
    const uint64_t before = atomic_load(&far->bar0->discarded);
    atomic_fetch_and(&far->bar0->cause, ~(uint32_t)PEACH2_CAUSE_UNMAPPED);
    board->bar0->descriptors[0] = plain;
    board->bar0->descriptors[0].length = bytes;
    board->bar0->descriptors[0].destination = peach2_global(1, bus);
    rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
    cr_assert(rig_done(board, 0));
    const uint64_t lost = atomic_load(&far->bar0->discarded) - before;
    cr_assert((lost > 0) == !!(atomic_load(&far->bar0->cause) & PEACH2_CAUSE_UNMAPPED));
    return lost == 0;
}

/* Memory that is lent under another address, up to a byte in the middle of a packet. */
Test(peach2_iommu, edges, .timeout = 60)
{
    rig_open(&rig, 2, 1, MEMORY);
    struct rig_board *far = &rig.boards[1];
    const struct peach2_control lend = {
        .type = PEACH2_ALIAS, .address = LENT, .length = LENT_BYTES, .offset = RIG_BUS + 4096};
    cr_assert(rig_ask(far, &lend, -1) == 0);
    memset(rig.boards[0].memory, 7, 4096);
    cr_assert(lands(LENT, 96));
    cr_assert(lands(LENT + 96, 4));
    cr_assert(far->memory[4096] == 7 && far->memory[4096 + 99] == 7 && far->memory[4196] == 0);
    memset(far->memory, 0, 8192);
    cr_assert(!lands(LENT, 128));     /* over its end */
    cr_assert(!lands(LENT + 96, 8));  /* by 4 bytes */
    cr_assert(!lands(LENT + 112, 4)); /* behind it */
    cr_assert(!lands(LENT - 16, 16)); /* before it */
    cr_assert(!lands(LENT - 16, 32)); /* over its beginning */
    cr_assert(!lands(RIG_BUS - 16, 16));
    cr_assert(!lands(PEACH2_INTERNAL - 16, 16));
    for (unsigned i = 0; i < 8192; i++)
        cr_assert(far->memory[i] == 0, "byte %u was touched", i);
    rig_close(&rig);
}

/* Taken away while packets for it are on their way, again and again: once that is answered, nothing
 * lands there any more. */
Test(peach2_iommu, taken_away_under_way, .timeout = 60)
{
    rig_open(&rig, 2, 1, MEMORY);
    struct rig_board *board = &rig.boards[0], *far = &rig.boards[1];
    const struct peach2_control lend = {
        .type = PEACH2_ALIAS, .address = LENT, .length = MEMORY / 2, .offset = RIG_BUS};
    const struct peach2_control take = {.type = PEACH2_UNMAP, .address = LENT};
    memset(board->memory, 7, MEMORY / 2);
    board->bar0->descriptors[0] = plain;
    board->bar0->descriptors[0].length = MEMORY / 2;
    board->bar0->descriptors[0].destination = peach2_global(1, LENT);
    unsigned landed = 0;
    for (unsigned round = 0; round < 50; round++) {
        cr_assert(rig_ask(far, &lend, -1) == 0);
        for (unsigned i = 0; i < 8; i++)
            rig_command(board, i % PEACH2_CHANNELS, PEACH2_FETCH_INTERNAL, 0);
        usleep(20 * (round % 10));
        cr_assert(rig_ask(far, &take, -1) == 0);
        landed += far->memory[0] == 7;
        memset(far->memory, 0, MEMORY / 2);
        for (unsigned channel = 0; channel < PEACH2_CHANNELS; channel++)
            cr_assert(rig_done(board, channel));
        for (unsigned i = 0; i < MEMORY / 2; i += 64)
            cr_assert(far->memory[i] == 0, "round %u: something has landed later", round);
    }
    cr_assert(landed > 0, "it was always too early");
    cr_assert(atomic_load(&far->bar0->discarded) > 0, "it was always too late");
    cr_assert(atomic_load(&far->bar0->broken) == 0);
    cr_assert(lands(RIG_BUS, 128));
    rig_close(&rig);
}

/* Whenever the board takes the mask, it tells: also if it is stored anew at that moment. */
Test(peach2_iommu, no_interrupt_is_lost, .timeout = 60)
{
    rig_open(&rig, 2, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    struct pollfd told = {.fd = board->interrupt_fd, .events = POLLIN};
    eventfd_t ignored;
    unsigned interrupts = 0;
    for (unsigned channel = 0; channel < 2; channel++) {
        board->bar0->descriptors[channel] = plain;
        board->bar0->descriptors[channel].destination = peach2_global(0, RIG_BUS + 4096);
    }
    for (unsigned i = 0; i < 20000; i++) {
        const unsigned channel = i % 2;
        if (board->starts[channel] - atomic_load(&board->bar0->channels[channel].done) < 32)
            rig_command(board, channel, PEACH2_FETCH_INTERNAL, channel);
        bool taken = false;
        for (unsigned store = 0; store < 1000 && !taken; store++) {
            atomic_store(&board->bar0->mask, PEACH2_CAUSE_DONE << channel);
            atomic_store(&board->bar0->mask, PEACH2_CAUSE_DONE << !channel);
            taken = atomic_load(&board->bar0->mask) == 0;
        }
        if (!taken)
            continue;
        cr_assert(poll(&told, 1, 5000) == 1, "it has taken the mask and has not told");
        eventfd_read(board->interrupt_fd, &ignored);
        interrupts++;
    }
    cr_assert(interrupts > 0, "there was none");
    rig_close(&rig);
}
