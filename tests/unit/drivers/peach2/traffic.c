#include "tests/unit/drivers/peach2/traffic.h"

#include <criterion/criterion.h>
#include <unistd.h>

#include "proto/wait.h"

enum { WORDS = TRAFFIC_BYTES / 4, HALF = TRAFFIC_MEMORY / 2 };

static uint32_t offset_of(unsigned peer, uint32_t number)
{
    return (peer * TRAFFIC_SLOTS + number % TRAFFIC_SLOTS) * TRAFFIC_BYTES;
}

static void send(struct traffic *traffic, unsigned from, unsigned to)
{
    struct rig_board *board = &traffic->rig->boards[from];
    uint32_t number = ++traffic->sent[from][to], slot = to * TRAFFIC_SLOTS + number % TRAFFIC_SLOTS;
    uint32_t *words = (uint32_t *)(board->memory + offset_of(to, number));
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = number;
    board->bar0->descriptors[slot] = (struct peach2_descriptor){
        .source = RIG_BUS + offset_of(to, number),
        .destination = peach2_global(to, RIG_BUS + HALF + offset_of(from, number)),
        .length = TRAFFIC_BYTES,
        .block = number % 3 == 0 ? 64 : 0,
        .flags = PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE,
        .notify = {number, from},
    };
    rig_command(board, to % PEACH2_CHANNELS, PEACH2_FETCH_INTERNAL, slot);
}

static bool arrived(const struct rig_board *board, unsigned from)
{
    const struct peach2_notification *ring =
        (const void *)(board->memory + TRAFFIC_MEMORY +
                       from * RIG_RING * sizeof(struct peach2_notification));
    return atomic_load_explicit(&ring[board->notified[from] % RIG_RING].serial,
                                memory_order_acquire) == board->notified[from] + 1;
}

static void check(struct traffic *traffic, unsigned from, unsigned to)
{
    struct rig_board *board = &traffic->rig->boards[to];
    uint64_t notify[2];
    uint32_t number = traffic->seen[from][to] + 1;
    cr_assert(rig_notified(board, from, notify));
    cr_assert(notify[0] == number && notify[1] == from, "%u to %u: %lu, not %u", from, to,
              notify[0], number);
    const uint32_t *words = (const uint32_t *)(board->memory + HALF + offset_of(from, number));
    for (unsigned i = 0; i < WORDS; i++)
        cr_assert(words[i] == number, "%u to %u: data of %u is %u", from, to, number, words[i]);
    traffic->seen[from][to] = number;
}

static bool can_send(const struct traffic *traffic, unsigned from, unsigned to, uint32_t goal)
{
    const struct rig_board *board = &traffic->rig->boards[from];
    unsigned channel = to % PEACH2_CHANNELS;
    return !traffic->absent[from] && !traffic->absent[to] && traffic->sent[from][to] < goal &&
           traffic->sent[from][to] - traffic->seen[from][to] < TRAFFIC_SLOTS &&
           board->starts[channel] - atomic_load(&board->bar0->channels[channel].done) <
               PEACH2_COMMANDS;
}

unsigned traffic_round(struct traffic *traffic, uint32_t goal)
{
    const unsigned nodes = traffic->rig->topology.nodes;
    unsigned came = 0;
    for (unsigned from = 0; from < nodes; from++)
        for (unsigned to = 0; to < nodes; to++) {
            while (can_send(traffic, from, to, goal))
                send(traffic, from, to);
            for (; !traffic->absent[to] && arrived(&traffic->rig->boards[to], from); came++)
                check(traffic, from, to);
        }
    return came;
}

void traffic_run(struct traffic *traffic, uint32_t goal)
{
    const unsigned nodes = traffic->rig->topology.nodes;
    uint64_t since_ns = clock_now_ns();
    for (unsigned pairs = 0; pairs < nodes * nodes;) {
        if (traffic_round(traffic, goal) > 0)
            since_ns = clock_now_ns();
        else
            usleep(50);
        cr_assert(clock_now_ns() - since_ns < UINT64_C(20000000000), "nothing moves any more");
        pairs = 0;
        for (unsigned i = 0; i < nodes * nodes; i++)
            pairs += traffic->absent[i / nodes] || traffic->absent[i % nodes] ||
                     traffic->seen[i / nodes][i % nodes] == goal;
    }
}
