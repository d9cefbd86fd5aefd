/* The host memory that a board may access: at the edges of mappings, and while they are removed.
 * And its interrupts: none is lost. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/unit/drivers/peach2/rig.h"

enum { MEMORY = 1 << 20, LENT = (1 << 30) + 64, LENT_BYTES = 100 };

static struct rig rig;

static const struct peach2_descriptor plain = {
    .source = RIG_BUS, .length = 128, .flags = PEACH2_END | PEACH2_ACKNOWLEDGE};

static void put(uint64_t bus, uint32_t bytes)
{
    struct rig_board *board = &rig.boards[0];
    board->bar0->descriptors[0] = plain;
    board->bar0->descriptors[0].length = bytes;
    board->bar0->descriptors[0].destination = peach2_global(1, bus);
    rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
    cr_assert(rig_done(board, 0));
}

/* So many bytes from node 0 to that bus address of node 1; where `mask` is not 0, those of a line
 * of BAR 2 that it has. Whether they have landed. */
static bool land(uint64_t bus, uint32_t bytes, uint64_t mask)
{
    const struct rig_board *far = &rig.boards[1];
    const uint64_t before = atomic_load(&far->bar0->discarded);
    atomic_fetch_and(&far->bar0->cause, ~(uint32_t)PEACH2_CAUSE_UNMAPPED);
    if (mask != 0)
        rig_pio(&rig.boards[0], peach2_global(1, bus), mask, rig.boards[0].memory);
    put(mask != 0 ? RIG_BUS + MEMORY / 2 : bus, mask != 0 ? 4 : bytes); /* behind the line */
    const uint64_t lost = atomic_load(&far->bar0->discarded) - before;
    cr_assert((lost > 0) == !!(atomic_load(&far->bar0->cause) & PEACH2_CAUSE_UNMAPPED));
    return lost == 0;
}

static bool lands(uint64_t bus, uint32_t bytes)
{
    return land(bus, bytes, 0);
}

static bool stores(uint64_t bus, uint64_t mask)
{
    return land(bus, 0, mask);
}

/* An alias that ends in the middle of a packet. */
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
    cr_assert(!stores(LENT + 64, UINT64_C(3) << 35)); /* over its end by a byte */
    cr_assert(!stores(LENT + 64, UINT64_C(1) << 36));
    for (unsigned i = 0; i < 8192; i++)
        cr_assert(far->memory[i] == 0, "byte %u was touched", i);
    cr_assert(stores(LENT + 64, UINT64_C(3) << 34) && far->memory[4096 + 99] == 7);
    cr_assert(far->memory[4096 + 97] == 0 && far->memory[4096 + 100] == 0);
    /* Internal memory, to its end; a descriptor may be read there, and not put. */
    const uint64_t end = PEACH2_AT_MEMORY + PEACH2_INTERNAL_NOTIFY_BYTES;
    cr_assert(lands(PEACH2_INTERNAL | (end - 16), 16) && !lands(PEACH2_INTERNAL | (end - 16), 32));
    cr_assert(lands(PEACH2_INTERNAL | PEACH2_AT_MEMORY, 16) &&
              !lands(PEACH2_INTERNAL | (PEACH2_AT_MEMORY - 16), 16));
    rig_close(&rig);
}

static int map(uint64_t address, uint64_t offset, uint64_t length, int fd)
{
    const struct peach2_control map = {
        .type = PEACH2_MAP, .address = address, .length = length, .offset = offset};
    return rig_ask(&rig.boards[1], &map, fd);
}

/* Mappings side by side, of parts of a file: each shows its own part, and neither data nor
 * a descriptor is fetched from two. Only the board's driver makes them. */
Test(peach2_iommu, side_by_side, .timeout = 60)
{
    enum { AT = 1 << 30, PAGE = 4096 };
    rig_open(&rig, 2, 1, MEMORY);
    struct rig_board *board = &rig.boards[1];
    memset(rig.boards[0].memory, 7, PAGE);
    cr_assert(map(AT + PAGE, 3 * PAGE, PAGE, board->memory_fd) == 0);
    cr_assert(map(AT, PAGE, PAGE, board->memory_fd) == 0);
    cr_assert(map(AT + 2 * PAGE, 2 * PAGE, PAGE, board->memory_fd) == 0);
    cr_assert_eq(map(AT + 16, 0, PAGE, board->memory_fd), -EINVAL);
    cr_assert_eq(map(AT + 8 * PAGE, 16, PAGE, board->memory_fd), -EINVAL);
    cr_assert(lands(AT + PAGE - 64, 64) && lands(AT + PAGE, 64));
    cr_assert(board->memory[2 * PAGE - 1] == 7 && board->memory[3 * PAGE] == 7);
    cr_assert(board->memory[2 * PAGE] == 0 && board->memory[0] == 0);
    const uint64_t over[] = {AT + PAGE - 48, AT + PAGE - 16, AT + 3 * PAGE - 32, AT + 8};
    for (unsigned i = 0; i < sizeof(over) / sizeof(over[0]); i++) {
        rig_command(board, 0, PEACH2_FETCH_HOST, over[i]);
        cr_assert_eq(rig_error(board, 0), PEACH2_BAD_FETCH);
        cr_assert_eq(atomic_load(&board->bar0->channels[0].error_at), over[i]);
        rig_abort(board, 0);
    }
    struct peach2_descriptor both = plain;
    both.source = AT + PAGE - 64;
    both.destination = peach2_global(0, RIG_BUS);
    board->bar0->descriptors[0] = both;
    rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
    cr_assert_eq(rig_error(board, 0), PEACH2_BAD_SOURCE);
    rig_abort(board, 0);
    struct rig_board stranger = {.control = rig_dial(board->path)};
    const struct peach2_control hers[] = {{.type = PEACH2_ATTACH},
                                          {.type = PEACH2_MAP, .address = 1 << 29, .length = PAGE},
                                          {.type = PEACH2_UNMAP, .address = AT},
                                          {.type = PEACH2_ALIAS, .length = 16, .offset = AT},
                                          {.type = PEACH2_UNPLUG, .port = PEACH2_N},
                                          {.type = PEACH2_UNPLUG, .port = PEACH2_PORTS}};
    for (unsigned i = 0; i < sizeof(hers) / sizeof(hers[0]); i++)
        cr_assert_eq(rig_ask(&stranger, &hers[i], i == 1 ? board->memory_fd : -1),
                     i == 0 ? -EBUSY : -EINVAL, "%u", i);
    close(stranger.control);
    cr_assert(lands(AT, 64));
    rig_close(&rig);
}

/* Unmaps memory while packets for it are in transit, repeatedly: after the reply, nothing is
 * written there. */
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
            cr_assert(far->memory[i] == 0, "round %u: data was written after the reply", round);
    }
    cr_assert(landed > 0, "it was always too early");
    cr_assert(atomic_load(&far->bar0->discarded) > 0, "it was always too late");
    cr_assert(atomic_load(&far->bar0->broken) == 0);
    cr_assert(lands(RIG_BUS, 128));
    rig_close(&rig);
}

/* Whenever the board clears the mask, it raises an interrupt, also if the mask is stored at that
 * moment. */
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
        cr_assert(poll(&told, 1, 5000) == 1, "the mask was cleared without an interrupt");
        eventfd_read(board->interrupt_fd, &ignored);
        interrupts++;
    }
    cr_assert(interrupts > 0, "there was none");
    rig_close(&rig);
}
