/* Seeds for the board: the actions of a correct driver and of correct neighbours. */
#include <stddef.h>
#include <string.h>

#include "tests/fuzz/fuzz_board.h"
#include "tests/fuzz/seeds.h"
#include "tools/tca-board/link.h"

static uint8_t input[4096];
static size_t used;

static void record(enum board_place place, size_t offset, const void *bytes, size_t count)
{
    const struct board_record header = {.place = (uint8_t)place,
                                        .bytes = (uint8_t)count,
                                        .offset_low = (uint16_t)offset,
                                        .offset_high = (uint16_t)(offset >> 16)};
    memcpy(input + used, &header, sizeof(header));
    memcpy(input + used + sizeof(header), bytes, count);
    used += sizeof(header) + count;
}

static void word(enum board_place place, size_t offset, uint32_t value)
{
    record(place, offset, &value, sizeof(value));
}

/* Node 2 by W, 3 is here, 4 by E; rings for notifications in internal memory. */
static void set_up(void)
{
    static const struct {
        unsigned node;
        uint32_t port;
    } ways[] = {{2, PEACH2_W}, {3, PEACH2_N}, {4, PEACH2_E}};
    used = 0;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const struct peach2_route route = {
            .base = peach2_global(ways[i].node, 0),
            .mask = PEACH2_WINDOW_MASK,
            .port = ways[i].port,
            .turns = (1 << PEACH2_N | 1 << PEACH2_E | 1 << PEACH2_W | 1 << PEACH2_S) &
                     ~(1u << ways[i].port)};
        record(IN_BAR0, offsetof(struct peach2_registers, routes) + i * sizeof(route), &route,
               sizeof(route));
    }
    const uint64_t base = PEACH2_INTERNAL | PEACH2_AT_MEMORY;
    record(IN_BAR0, offsetof(struct peach2_registers, notify_base), &base, sizeof(base));
    word(IN_BAR0, offsetof(struct peach2_registers, notify_entries), 16);
    word(IN_BAR0, offsetof(struct peach2_registers, mask), UINT32_MAX);
    word(IN_BAR0, offsetof(struct peach2_registers, commit), 1);
}

static size_t channel_at(size_t offset)
{
    return offsetof(struct peach2_registers, channels) + offset;
}

static void start(uint32_t fetch, uint64_t first)
{
    const struct peach2_command command = {.first = first, .fetch = fetch};
    record(IN_BAR0, channel_at(offsetof(struct peach2_channel, commands)), &command,
           sizeof(command));
    word(IN_BAR0, channel_at(offsetof(struct peach2_channel, start)), 1);
}

static void put_seed(const char *name, uint32_t fetch, unsigned to, uint64_t target)
{
    struct peach2_descriptor chain[2] = {
        {.source = BOARD_HOST_BUS + 4096,
         .destination = peach2_global(to, target),
         .length = 1024,
         .block = 256,
         .source_gap = 64,
         .destination_gap = 128,
         .next = 1},
        {.destination = peach2_global(to, 0),
         .flags = PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE,
         .notify = {1, 2}},
    };
    set_up();
    if (fetch == PEACH2_FETCH_HOST)
        chain[0].next = BOARD_HOST_BUS + sizeof(chain[0]);
    for (size_t i = 0; i < 2; i++) {
        size_t at = i * sizeof(chain[0]);
        if (fetch == PEACH2_FETCH_HOST)
            record(IN_HOST, at, &chain[i], sizeof(chain[i]));
        else if (fetch == PEACH2_FETCH_INTERNAL)
            record(IN_BAR0, offsetof(struct peach2_registers, descriptors) + at, &chain[i],
                   sizeof(chain[i]));
        else
            record(IN_BAR0, channel_at(offsetof(struct peach2_channel, descriptors)) + at,
                   &chain[i], sizeof(chain[i]));
    }
    start(fetch, fetch == PEACH2_FETCH_HOST ? BOARD_HOST_BUS : 0);
    write_seed("board", name, -1, input, used);
}

static void pio_seed(void)
{
    const struct peach2_pio_line line = {.address = peach2_global(4, BOARD_HOST_BUS),
                                         .mask = 0xf0ff};
    set_up();
    record(IN_BAR2, offsetof(struct peach2_window, lines), &line, sizeof(line));
    word(IN_BAR2, offsetof(struct peach2_window, tail), 1);
    write_seed("board", "pio", -1, input, used);
}

/* A packet from the neighbour at W, then the next cable on its route is pulled and plugged. */
static void packet_seed(const char *name, uint64_t address, uint16_t bytes, bool pulled)
{
    const struct packet_header header = {.address = address,
                                         .length = bytes,
                                         .node = 2,
                                         .hops = PEACH2_HOPS_MAX,
                                         .flags = PACKET_ACKNOWLEDGE,
                                         .tag = 7};
    const enum board_place cable = IN_CABLE + (PEACH2_W - PEACH2_E);
    const size_t in = offsetof(struct link_memory, rings[1]);
    set_up();
    record(cable, in + offsetof(struct link_ring, slots), &header, sizeof(header));
    word(cable, in + offsetof(struct link_ring, tail), 1);
    if (pulled) {
        record(PULL, 0, "", 0);
        record(PLUG, 0, "", 0);
    }
    write_seed("board", name, -1, input, used);
}

void board_seeds(void)
{
    put_seed("host", PEACH2_FETCH_HOST, 4, BOARD_HOST_BUS + 8192);
    put_seed("internal", PEACH2_FETCH_INTERNAL, 2, BOARD_HOST_BUS + 8192);
    put_seed("registers", PEACH2_FETCH_REGISTERS, 3, BOARD_HOST_BUS + 8192);
    put_seed("overlaps", PEACH2_FETCH_REGISTERS, BOARD_NODE, BOARD_HOST_BUS + 4096 + 64);
    pio_seed();
    packet_seed("through", peach2_global(4, BOARD_HOST_BUS), 256, false);
    packet_seed("pulled", peach2_global(4, BOARD_HOST_BUS), 64, true);
    packet_seed("lands", peach2_global(3, BOARD_HOST_BUS), 100, false);
    packet_seed("restart", peach2_global(3, PEACH2_INTERNAL | PEACH2_AT_RESTART), 16, false);
    packet_seed("acknowledges", peach2_global(3, PEACH2_INTERNAL | PEACH2_AT_ACKNOWLEDGE), 8,
                false);
}
