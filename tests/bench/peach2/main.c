/*
 * peach2-bench: what the board model does on this machine: time per hop, time per packet, GB/s
 * board to board, and how that grows with the number of boards. It writes the registers itself: no
 * driver, no daemon.
 *
 * Medians of ROUNDS; with more boards than processors they say more about the scheduler than about
 * the model.
 */
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

static void describe(unsigned from, unsigned to, unsigned slot, uint32_t length)
{
    rig.boards[from].bar0->descriptors[slot] = (struct peach2_descriptor){
        .source = RIG_BUS,
        .destination = peach2_global(to, RIG_BUS + MEMORY / 2),
        .length = length,
        .flags = PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE,
    };
}

/* From the store of `start` to the notification at the other node, spinning. */
static double one_way_ns(unsigned from, unsigned to, unsigned slot)
{
    struct rig_board *far = &rig.boards[to];
    const struct peach2_notification *entry =
        (const struct peach2_notification *)(far->memory + MEMORY) + from * RIG_RING +
        far->notified[from] % RIG_RING;
    const uint64_t before_ns = clock_now_ns();
    rig_command(&rig.boards[from], 0, PEACH2_FETCH_INTERNAL, slot);
    while (atomic_load_explicit(&entry->serial, memory_order_acquire) != far->notified[from] + 1)
        ;
    const double took_ns = (double)(clock_now_ns() - before_ns);
    atomic_store(&far->bar0->notify_taken[from], ++far->notified[from]);
    rig_done(&rig.boards[from], 0);
    return took_ns;
}

static double latency_ns(unsigned from, unsigned to, uint32_t length)
{
    double took_ns[ROUNDS];
    describe(from, to, 0, length);
    for (unsigned i = 0; i < ROUNDS; i++)
        took_ns[i] = one_way_ns(from, to, 0);
    return median(took_ns, ROUNDS);
}

static void measure_hops(unsigned nodes)
{
    rig_open(&rig, nodes, 1, MEMORY);
    printf("one way, 8 bytes, ring of %u boards:", nodes);
    for (unsigned hops = 1; hops <= nodes / 2; hops++)
        printf("  %u hop%s %.1f us", hops, hops > 1 ? "s" : "", latency_ns(0, hops, 8) / 1000);
    putchar('\n');
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
    for (unsigned nodes = 2; nodes <= PEACH2_NODES; nodes *= 2)
        measure_growth(nodes);
    return 0;
}
