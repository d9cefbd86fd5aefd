/* The registers of BAR 0 as specified in registers.h: counters, causes and the mask, commands, and
 * the limits of chains. */
#include <criterion/criterion.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/wait.h"
#include "tests/unit/drivers/peach2/rig.h"

enum { MEMORY = 1 << 20, TARGETS = MEMORY / 2 };

static struct rig rig;

static struct peach2_descriptor descriptor(unsigned to, uint32_t length, uint32_t flags)
{
    return (struct peach2_descriptor){.source = RIG_BUS,
                                      .destination = peach2_global(to, RIG_BUS + TARGETS),
                                      .length = length,
                                      .flags = flags};
}

/* By the channel's registers: so every channel has its own. */
static void start(unsigned from, unsigned channel, struct peach2_descriptor descriptor)
{
    struct rig_board *board = &rig.boards[from];
    const uint32_t slot = board->starts[channel] % PEACH2_REGISTER_DESCRIPTORS;
    board->bar0->channels[channel].descriptors[slot] = descriptor;
    rig_command(board, channel, PEACH2_FETCH_REGISTERS, slot);
}

static void run(unsigned from, unsigned channel, struct peach2_descriptor descriptor)
{
    start(from, channel, descriptor);
    cr_assert(rig_done(&rig.boards[from], channel));
}

static void wait_for(const _Atomic uint64_t *word, uint64_t value, const char *what)
{
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(20000000000);
    while (atomic_load(word) != value) {
        cr_assert(clock_now_ns() < give_up_ns, "%s: %lu, not %lu", what,
                  (unsigned long)atomic_load(word), (unsigned long)value);
        usleep(20);
    }
}

/* ---- counters ---- */

static void check_passed(unsigned node, unsigned port, uint64_t in, uint64_t in_bytes, uint64_t out,
                         uint64_t out_bytes)
{
    const struct peach2_port_registers *counts = &rig.boards[node].bar0->ports[port];
    wait_for(&counts->packets_in, in, "packets in");
    wait_for(&counts->bytes_in, in_bytes, "bytes in");
    wait_for(&counts->packets_out, out, "packets out");
    wait_for(&counts->bytes_out, out_bytes, "bytes out");
}

/* From 0 through 1 to 2: each packet and byte is counted at every port that it passes, and nowhere
 * else. Packets end at multiples of 256, at the ends of blocks and of runs of stored bytes. */
Test(peach2_registers, counters, .timeout = 60)
{
    static const struct {
        uint32_t at, length, block;
        int32_t gap;
        uint64_t packets;
    } cases[] = {{100, 1000, 0, 0, 5}, {0, 1024, 0, 0, 4},    {252, 8, 0, 0, 2},
                 {0, 400, 40, 24, 10}, {240, 96, 32, 224, 6}, {0, 512, 256, 0, 2},
                 {16, 64, 16, 0, 4}};
    uint64_t packets = 0, bytes = 0, notify[2];
    rig_open(&rig, 5, 1, MEMORY);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct peach2_descriptor row = descriptor(2, cases[i].length, PEACH2_END | PEACH2_NOTIFY);
        row.source += cases[i].at;
        row.destination += cases[i].at;
        row.block = cases[i].block;
        row.source_gap = row.destination_gap = cases[i].gap;
        run(0, 1, row);
        cr_assert(rig_notified(&rig.boards[2], 0, notify));
        packets += cases[i].packets + 1;
        bytes += cases[i].length + sizeof(notify);
        wait_for(&rig.boards[0].bar0->channels[1].packets, packets, "of the channel");
        check_passed(0, PEACH2_N, 0, 0, packets, bytes);
    }
    const uint8_t line[PEACH2_PIO_BYTES] = {0};
    rig_pio(&rig.boards[0], peach2_global(2, RIG_BUS), UINT64_C(0xf000000000ff0001), line);
    packets += 3;
    bytes += 1 + 8 + 4;
    check_passed(0, PEACH2_N, 0, 0, packets, bytes);
    check_passed(0, PEACH2_E, 0, 0, packets, bytes);
    check_passed(0, PEACH2_W, 0, 0, 0, 0);
    check_passed(1, PEACH2_W, packets, bytes, 0, 0);
    check_passed(1, PEACH2_E, 0, 0, packets, bytes);
    check_passed(1, PEACH2_N, 0, 0, 0, 0);
    check_passed(2, PEACH2_W, packets, bytes, 0, 0);
    check_passed(2, PEACH2_N, packets, bytes, 0, 0);
    check_passed(2, PEACH2_E, 0, 0, 0, 0);
    rig_close(&rig);
}

/* ---- causes, the mask, the interrupt ---- */

static uint32_t causes_of(unsigned node)
{
    return atomic_load(&rig.boards[node].bar0->cause);
}

static void take_causes(unsigned node)
{
    eventfd_t ignored;
    atomic_store(&rig.boards[node].bar0->cause, 0);
    eventfd_read(rig.boards[node].interrupt_fd, &ignored);
}

static bool interrupted(unsigned node, int wait_ms)
{
    struct pollfd told = {.fd = rig.boards[node].interrupt_fd, .events = POLLIN};
    return poll(&told, 1, wait_ms) == 1;
}

static void wait_cause(unsigned node, uint32_t bits)
{
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(20000000000);
    while ((causes_of(node) & bits) != bits) {
        cr_assert(clock_now_ns() < give_up_ns, "%x, not %x", causes_of(node), bits);
        usleep(20);
    }
}

/* The cause is set whatever the mask; the interrupt is raised only for masked causes, and once. */
Test(peach2_registers, the_mask, .timeout = 60)
{
    rig_open(&rig, 2, 1, MEMORY);
    struct peach2_registers *bar0 = rig.boards[0].bar0;
    const struct peach2_descriptor own = descriptor(0, 64, PEACH2_END | PEACH2_ACKNOWLEDGE);
    const uint32_t other = ~(uint32_t)(PEACH2_CAUSE_DONE << 2);
    take_causes(0);
    atomic_store(&bar0->mask, other);
    run(0, 2, own);
    wait_cause(0, PEACH2_CAUSE_DONE << 2);
    cr_assert(causes_of(0) == PEACH2_CAUSE_DONE << 2);
    cr_assert(!interrupted(0, 20) && atomic_load(&bar0->mask) == other);
    atomic_store(&bar0->mask, PEACH2_CAUSE_DONE << 2 | PEACH2_CAUSE_DONE); /* set, and not taken */
    run(0, 2, own);
    cr_assert(interrupted(0, 20000) && atomic_load(&bar0->mask) == 0);
    take_causes(0);
    run(0, 2, own);
    wait_cause(0, PEACH2_CAUSE_DONE << 2);
    cr_assert(!interrupted(0, 20), "it was not asked for again");
    rig_close(&rig);
}

/* Each channel has bits of its own. */
Test(peach2_registers, causes_of_channels, .timeout = 60)
{
    rig_open(&rig, 2, 1, MEMORY);
    for (unsigned channel = 0; channel < PEACH2_CHANNELS; channel++) {
        struct peach2_channel *registers = &rig.boards[0].bar0->channels[channel];
        take_causes(0);
        run(0, channel, descriptor(0, 64, PEACH2_END));
        wait_cause(0, PEACH2_CAUSE_DONE << channel);
        cr_assert_eq(causes_of(0), (uint32_t)PEACH2_CAUSE_DONE << channel);
        take_causes(0);
        start(0, channel, descriptor(0, PEACH2_LENGTH_MAX + 4, PEACH2_END));
        start(0, channel, descriptor(0, 64, PEACH2_END)); /* that could be done */
        cr_assert_eq(rig_error(&rig.boards[0], channel), PEACH2_BAD_LENGTH);
        wait_cause(0, PEACH2_CAUSE_ERROR << channel);
        cr_assert_eq(causes_of(0), (uint32_t)PEACH2_CAUSE_ERROR << channel);
        usleep(1000); /* and nothing more of the channel leaves */
        cr_assert_eq(rig.boards[0].starts[channel] - atomic_load(&registers->sent), 2);
        cr_assert_eq(rig.boards[0].starts[channel] - atomic_load(&registers->done), 2);
        take_causes(0);
        rig_abort(&rig.boards[0], channel);
        wait_cause(0, PEACH2_CAUSE_DONE << channel);
        cr_assert(causes_of(0) == (uint32_t)PEACH2_CAUSE_DONE << channel &&
                  atomic_load(&registers->error) == 0 && atomic_load(&registers->error_at) == 0);
        cr_assert(atomic_load(&registers->sent) == rig.boards[0].starts[channel] &&
                  atomic_load(&registers->done) == rig.boards[0].starts[channel]);
    }
    rig_close(&rig);
}

/* An unplugged cable: both ends report it, with a cause. */
Test(peach2_registers, causes_of_ports, .timeout = 60)
{
    rig_open(&rig, 3, 1, MEMORY);
    const struct peach2_port_registers *near = &rig.boards[0].bar0->ports[PEACH2_E],
                                       *far = &rig.boards[1].bar0->ports[PEACH2_W];
    cr_assert(near->node == 1 && near->far_port == PEACH2_W && far->node == 0 &&
              far->far_port == PEACH2_E);
    for (unsigned round = 0; round < 4; round++) {
        const uint32_t before[2] = {atomic_load(&near->changes), atomic_load(&far->changes)};
        take_causes(0);
        take_causes(1);
        rig_plug(&rig, round / 2 % 2, round / 2 % 2 ? PEACH2_W : PEACH2_E, round % 2);
        wait_cause(0, PEACH2_CAUSE_PORT);
        wait_cause(1, PEACH2_CAUSE_PORT);
        cr_assert(atomic_load(&near->up) == round % 2 && atomic_load(&far->up) == round % 2);
        cr_assert(atomic_load(&near->changes) == before[0] + 1 &&
                  atomic_load(&far->changes) == before[1] + 1);
    }
    rig_close(&rig);
}

/* One that is quiet raises nothing, until half of the ring is unread. */
Test(peach2_registers, quiet_notifications, .timeout = 60)
{
    uint64_t notify[2];
    rig_open(&rig, 2, 1, MEMORY);
    take_causes(1);
    run(0, 0, descriptor(1, 0, PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE));
    cr_assert_eq(causes_of(1), PEACH2_CAUSE_NOTIFY);
    take_causes(1);
    for (unsigned i = 1; i < RIG_RING / 2; i++) {
        run(0, 0, descriptor(1, 0, PEACH2_END | PEACH2_NOTIFY | PEACH2_QUIET | PEACH2_ACKNOWLEDGE));
        cr_assert(causes_of(1) == 0, "number %u was not quiet", i);
    }
    run(0, 0, descriptor(1, 0, PEACH2_END | PEACH2_NOTIFY | PEACH2_QUIET | PEACH2_ACKNOWLEDGE));
    cr_assert_eq(causes_of(1), PEACH2_CAUSE_NOTIFY);
    for (unsigned i = 0; i <= RIG_RING / 2; i++)
        cr_assert(rig_notified(&rig.boards[1], 0, notify));
    rig_close(&rig);
}

/* BAR 2 was more than half full, and is not any more. */
Test(peach2_registers, room_in_the_window, .timeout = 60)
{
    const uint8_t line[PEACH2_PIO_BYTES] = {0};
    rig_open(&rig, 3, 1, MEMORY);
    atomic_store(&rig.boards[0].bar0->hold_ms, PEACH2_HOLD_MAX_MS);
    rig_plug(&rig, 0, PEACH2_E, false);
    take_causes(0);
    for (unsigned i = 0; i < PEACH2_PIO_LINES * 3 / 4; i++)
        rig_pio(&rig.boards[0], peach2_global(1, RIG_BUS), 1, line);
    cr_assert(!(causes_of(0) & PEACH2_CAUSE_SPACE));
    rig_plug(&rig, 0, PEACH2_E, true);
    wait_cause(0, PEACH2_CAUSE_SPACE);
    take_causes(0);
    rig_pio(&rig.boards[0], peach2_global(1, RIG_BUS) + 4, 1, line);
    wait_cause(0, PEACH2_CAUSE_MALFORMED);
    cr_assert_eq(atomic_load(&rig.boards[0].bar0->discarded), 1);
    rig_close(&rig);
}

/* ---- commands and chains ---- */

/* As many outstanding commands as allowed, and one more. */
Test(peach2_registers, as_many_commands_as_fit, .timeout = 60)
{
    rig_open(&rig, 2, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    struct peach2_channel *channel = &board->bar0->channels[0];
    board->bar0->descriptors[0] = descriptor(1, 64, PEACH2_END | PEACH2_ACKNOWLEDGE);
    for (unsigned i = 0; i < PEACH2_COMMANDS; i++)
        channel->commands[i] = (struct peach2_command){.fetch = PEACH2_FETCH_INTERNAL};
    for (unsigned more = PEACH2_COMMANDS; more <= PEACH2_COMMANDS + 1; more++) {
        atomic_store(&channel->start, board->starts[0] += more);
        rig_ring(board);
        if (more == PEACH2_COMMANDS)
            cr_assert(rig_done(board, 0));
        else
            cr_assert_eq(rig_error(board, 0), PEACH2_BAD_START);
    }
    cr_assert_eq(atomic_load(&channel->packets), PEACH2_COMMANDS);
    rig_abort(board, 0);
    rig_close(&rig);
}

enum { CHAINS_AT = MEMORY / 4 };

static struct peach2_descriptor *slot_of(struct rig_board *board, uint32_t fetch, uint32_t slot)
{
    return fetch == PEACH2_FETCH_HOST
               ? (struct peach2_descriptor *)(board->memory + CHAINS_AT) + slot
           : fetch == PEACH2_FETCH_INTERNAL ? &board->bar0->descriptors[slot]
                                            : &board->bar0->channels[1].descriptors[slot];
}

static uint64_t name_of(uint32_t fetch, uint32_t slot)
{
    return fetch == PEACH2_FETCH_HOST
               ? RIG_BUS + CHAINS_AT + slot * sizeof(struct peach2_descriptor)
               : slot;
}

/* The longest chain of each location runs; one with a loop ends after as many descriptors. */
static void check_longest(uint32_t fetch, uint32_t longest)
{
    struct rig_board *board = &rig.boards[0];
    const uint64_t before = atomic_load(&board->bar0->channels[1].packets);
    for (uint32_t i = 0; i < longest; i++) {
        struct peach2_descriptor one = descriptor(1, 4, 0);
        one.next = name_of(fetch, (i + 1) % longest);
        one.flags = i + 1 < longest ? 0 : PEACH2_END | PEACH2_ACKNOWLEDGE;
        *slot_of(board, fetch, i) = one;
    }
    rig_command(board, 1, fetch, name_of(fetch, 0));
    cr_assert(rig_done(board, 1), "%u of %u: error %u", longest, fetch,
              board->bar0->channels[1].error);
    wait_for(&board->bar0->channels[1].packets, before + longest, "once round");
    slot_of(board, fetch, longest - 1)->flags = 0;
    rig_command(board, 1, fetch, name_of(fetch, 0));
    cr_assert_eq(rig_error(board, 1), PEACH2_BAD_CHAIN);
    wait_for(&board->bar0->channels[1].packets, before + 2 * longest, "and once more");
    rig_abort(board, 1);
}

Test(peach2_registers, the_longest_chain, .timeout = 60)
{
    rig_open(&rig, 2, 1, MEMORY);
    check_longest(PEACH2_FETCH_REGISTERS, PEACH2_REGISTER_DESCRIPTORS);
    check_longest(PEACH2_FETCH_INTERNAL, PEACH2_INTERNAL_DESCRIPTORS);
    check_longest(PEACH2_FETCH_HOST, PEACH2_CHAIN_MAX);
    rig_close(&rig);
}
