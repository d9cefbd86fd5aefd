/*
 * peach2-bench: what the board model does on this machine: time per hop and per packet, GB/s board
 * to board, and how that grows with the number of boards; beside it what was measured on
 * HA-PACS/TCA, whose boards the model is one of. It writes the registers itself: no driver, no
 * daemon.
 *
 * Medians of ROUNDS. Boards are processes: with more of them than processors the figures say more
 * about the scheduler than about the model.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wait.h"
#include "tests/unit/drivers/peach2/rig.h"

enum { ROUNDS = 201, MEMORY = 4 << 20, BULK = 1 << 20, BULKS = 16 };

static struct rig rig;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof(values[0]), compare);
    return values[count / 2];
}

/* The first `rows` slots become a chain that puts so many rows; a row is of one block, or of as
 * many as its length allows. */
static void describe_rows(unsigned from, unsigned to, unsigned slot, uint32_t length,
                          uint32_t block, int32_t gap, unsigned rows)
{
    for (unsigned i = 0; i < rows; i++)
        rig.boards[from].bar0->descriptors[slot + i] = (struct peach2_descriptor){
            .source = RIG_BUS + (uint64_t)i * (MEMORY / 2) / rows,
            .destination =
                peach2_global(to, RIG_BUS + MEMORY / 2 + (uint64_t)i * (MEMORY / 2) / rows),
            .length = length,
            .block = block,
            .source_gap = gap,
            .destination_gap = gap,
            .next = slot + i + 1,
            .flags = i + 1 < rows ? 0 : PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE,
        };
}

static void describe(unsigned from, unsigned to, unsigned slot, uint32_t length)
{
    describe_rows(from, to, slot, length, length, 0, 1);
}

/* From the store of `start` to the notification at the other node. Looking, this process gives its
 * processor to the boards. */
static double one_way_ns(unsigned from, unsigned to, unsigned slot)
{
    struct rig_board *far = &rig.boards[to];
    const struct peach2_notification *entry =
        (const struct peach2_notification *)(far->memory + MEMORY) + from * RIG_RING +
        far->notified[from] % RIG_RING;
    const uint64_t before_ns = clock_now_ns();
    rig_command(&rig.boards[from], 0, PEACH2_FETCH_INTERNAL, slot);
    while (atomic_load_explicit(&entry->serial, memory_order_acquire) != far->notified[from] + 1)
        sched_yield();
    const double took_ns = (double)(clock_now_ns() - before_ns);
    atomic_store(&far->bar0->notify_taken[from], ++far->notified[from]);
    rig_done(&rig.boards[from], 0);
    return took_ns;
}

/* Of what slot 0 describes. */
static double latency_ns(unsigned from, unsigned to)
{
    double took_ns[ROUNDS];
    for (unsigned i = 0; i < ROUNDS; i++)
        took_ns[i] = one_way_ns(from, to, 0);
    return median(took_ns, ROUNDS);
}

static void measure_hops(unsigned nodes)
{
    double first_ns = 0, last_ns = 0;
    rig_open(&rig, nodes, 1, MEMORY);
    printf("one way, 8 bytes, ring of %u boards:", nodes);
    for (unsigned hops = 1; hops <= nodes / 2; hops++) {
        describe(0, hops, 0, 8);
        last_ns = latency_ns(0, hops);
        first_ns = hops == 1 ? last_ns : first_ns;
        printf("  %u hop%s %.1f us", hops, hops > 1 ? "s" : "", last_ns / 1000);
    }
    if (nodes / 2 > 1)
        printf("  a hop %.1f us", (last_ns - first_ns) / 1000 / (nodes / 2 - 1));
    puts(nodes > 2 ? "  (HA-PACS/TCA: 0.2 to 0.3 us a chip)" : "  (HA-PACS/TCA: 1.8 us)");
    rig_close(&rig);
}

/* Medians of HA-PACS/TCA, between the GPU memories of neighbours, in 2015 (M. Nakao et al., IPSJ
 * Transactions on Advanced Computing Systems 8(4)). */
static const struct {
    uint32_t bytes;
    double hapacs_us;
} pingpongs[] = {{8, 2.02},     {256, 2.02},    {1024, 2.09},     {4096, 3.57},
                 {16384, 8.34}, {65536, 27.19}, {262144, 102.72}, {1048576, 450.39}};
static const struct {
    uint32_t n; /* rows of n doubles, one of n columns of a row */
    double hapacs_us;
} blocks[] = {{2, 2.07}, {8, 2.34}, {32, 4.56}, {128, 47.67}, {256, 193.15}};

static void measure_sizes(void)
{
    rig_open(&rig, 2, 1, MEMORY);
    puts("one way between neighbours     bytes       us    GB/s   HA-PACS us    GB/s");
    for (size_t i = 0; i < sizeof(pingpongs) / sizeof(pingpongs[0]); i++) {
        uint32_t bytes = pingpongs[i].bytes;
        describe(0, 1, 0, bytes);
        double us = latency_ns(0, 1) / 1000;
        printf("  contiguous                %8u %8.1f %7.3f   %10.2f %7.3f\n", bytes, us,
               bytes / us / 1000, pingpongs[i].hapacs_us, bytes / pingpongs[i].hapacs_us / 1000);
    }
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        uint32_t row = blocks[i].n * (uint32_t)sizeof(double), bytes = blocks[i].n * row;
        describe_rows(0, 1, 0, bytes, row, (int32_t)row, 1); /* every other row of a matrix */
        double us = latency_ns(0, 1) / 1000;
        printf("  block-stride %4u x %4u   %8u %8.1f %7.3f   %10.2f %7.3f\n", blocks[i].n, row,
               bytes, us, bytes / us / 1000, blocks[i].hapacs_us,
               bytes / blocks[i].hapacs_us / 1000);
    }
    rig_close(&rig);
}

/* Every board to the next one of the ring at once: GB/s of each. */
static double bulk(unsigned nodes)
{
    const uint64_t before_ns = clock_now_ns();
    for (unsigned i = 0; i < BULKS; i++)
        for (unsigned node = 0; node < nodes; node++)
            rig_command(&rig.boards[node], i % PEACH2_CHANNELS, PEACH2_FETCH_INTERNAL, 1);
    for (unsigned node = 0; node < nodes; node++)
        for (unsigned channel = 0; channel < PEACH2_CHANNELS; channel++)
            rig_done(&rig.boards[node], channel);
    const double bytes = (double)BULKS * BULK, took_ns = (double)(clock_now_ns() - before_ns);
    for (unsigned node = 0; node < nodes; node++) {
        unsigned from = (node + nodes - 1) % nodes;
        rig.boards[node].notified[from] += BULKS;
        atomic_store(&rig.boards[node].bar0->notify_taken[from], rig.boards[node].notified[from]);
    }
    return bytes / took_ns;
}

static void measure_growth(unsigned nodes)
{
    double each[11];
    rig_open(&rig, nodes, 1, MEMORY);
    for (unsigned node = 0; node < nodes; node++)
        describe(node, (node + 1) % nodes, 1, BULK);
    for (unsigned i = 0; i < sizeof(each) / sizeof(each[0]); i++)
        each[i] = bulk(nodes);
    const double gb_per_s = median(each, sizeof(each) / sizeof(each[0]));
    printf("%2u boards, each to the next: %6.2f GB/s each, %6.2f GB/s together, %5.0f ns a packet "
           "of %d bytes\n",
           nodes, gb_per_s, gb_per_s * nodes, PEACH2_PAYLOAD_MAX / gb_per_s, PEACH2_PAYLOAD_MAX);
    rig_close(&rig);
}

int main(void)
{
    measure_hops(2);
    measure_hops(8);
    measure_sizes();
    puts("HA-PACS/TCA: 3.5 GB/s between the memories of two CPUs, 2.8 to 2.5 between GPUs");
    for (unsigned nodes = 2; nodes <= PEACH2_NODES; nodes *= 2)
        measure_growth(nodes);
    return 0;
}
