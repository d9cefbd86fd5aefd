/*
 * peach2-bench: what the board model does on this machine: time per hop and per packet, GB/s board
 * to board, and how that grows with the number of boards; beside it what was measured on
 * HA-PACS/TCA, whose boards the model is one of. It writes the registers itself: no driver, no
 * daemon.
 *
 * Medians of ROUNDS, and beside them what the fastest tenth needed. Boards are processes: with more
 * of them than processors the figures say more about the scheduler than about the model.
 */
#include <errno.h>
#include <getopt.h>
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

struct times { /* us */
    double median, tenth;
};

static struct times times_of(double *values, unsigned count)
{
    qsort(values, count, sizeof(values[0]), compare);
    return (struct times){values[count / 2], values[count / 10]};
}

/* ---- results: a line of JSON each, points of the plot ---- */

static FILE *json;
static struct point {
    double bytes, us, hapacs_us;
} points[16];
static unsigned point_count;

static void add_json(const char *bench, unsigned boards, unsigned hops, uint32_t bytes,
                     const struct times *times, double gb_per_s)
{
    if (json)
        fprintf(json,
                "{\"bench\": \"%s\", \"boards\": %u, \"hops\": %u, \"bytes\": %u, \"us\": %.3f, "
                "\"us_tenth\": %.3f, \"gb_per_s\": %.4f}\n",
                bench, boards, hops, bytes, times->median, times->tenth, gb_per_s);
}

static int plot(const char *path)
{
    FILE *gnuplot = popen("gnuplot", "w");
    if (!gnuplot)
        return -errno;
    fprintf(gnuplot,
            "set terminal svg size 700,480 font 'sans,13' background 'white'\nset output '%s'\n"
            "set logscale xy\nset grid lc rgb '#dddddd'\nset key top left\n"
            "set xlabel 'bytes'\nset ylabel 'one way between neighbours, microseconds'\n"
            "$d << EOD\n",
            path);
    for (unsigned i = 0; i < point_count; i++)
        fprintf(gnuplot, "%g %g %g\n", points[i].bytes, points[i].us, points[i].hapacs_us);
    fprintf(gnuplot, "EOD\nplot $d using 1:2 with linespoints lw 3 pt 7 ps 0.5 title 'model', "
                     "$d using 1:3 with linespoints pt 7 ps 0.5 title 'HA-PACS/TCA, GPU to GPU'\n");
    return pclose(gnuplot) == 0 ? 0 : -EIO; /* it has said why */
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
static struct times latency(unsigned from, unsigned to)
{
    double took_us[ROUNDS];
    for (unsigned i = 0; i < ROUNDS; i++)
        took_us[i] = one_way_ns(from, to, 0) / 1000;
    return times_of(took_us, ROUNDS);
}

static void measure_hops(unsigned nodes)
{
    struct times first = {0}, times = {0};
    rig_open(&rig, nodes, 1, MEMORY);
    printf("\n8 bytes one way, ring of %u        us   tenth   HA-PACS us\n", nodes);
    for (unsigned hops = 1; hops <= nodes / 2; hops++) {
        describe(0, hops, 0, 8);
        times = latency(0, hops);
        first = hops == 1 ? times : first;
        printf("  %u hop%s                    %8.1f%8.1f%s\n", hops, hops > 1 ? "s" : " ",
               times.median, times.tenth, hops == 1 ? "          1.8" : "");
        add_json("hops", nodes, hops, 8, &times, 0);
    }
    const unsigned further = nodes / 2 - 1;
    if (further > 0)
        printf("  each further hop          %8.1f%8.1f%13s\n",
               (times.median - first.median) / further, (times.tenth - first.tenth) / further,
               "0.2 to 0.3");
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

static void say_size(const char *name, uint32_t bytes, double hapacs_us)
{
    struct times times = latency(0, 1);
    const double gb_per_s = bytes / times.median / 1000;
    printf("  %-26s%8u%8.1f%8.1f%7.3f%13.2f%7.3f\n", name, bytes, times.median, times.tenth,
           gb_per_s, hapacs_us, bytes / hapacs_us / 1000);
    add_json(name, 2, 1, bytes, &times, gb_per_s);
    if (strcmp(name, "contiguous") == 0)
        points[point_count++] = (struct point){bytes, times.median, hapacs_us};
}

static void measure_sizes(void)
{
    rig_open(&rig, 2, 1, MEMORY);
    printf("\n%-28s%8s%8s%8s%7s%13s%7s\n", "one way between neighbours", "bytes", "us", "tenth",
           "GB/s", "HA-PACS us", "GB/s");
    for (size_t i = 0; i < sizeof(pingpongs) / sizeof(pingpongs[0]); i++) {
        describe(0, 1, 0, pingpongs[i].bytes);
        say_size("contiguous", pingpongs[i].bytes, pingpongs[i].hapacs_us);
    }
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        char name[32];
        uint32_t row = blocks[i].n * (uint32_t)sizeof(double), bytes = blocks[i].n * row;
        describe_rows(0, 1, 0, bytes, row, (int32_t)row, 1); /* every other row of a matrix */
        snprintf(name, sizeof(name), "block-stride %u x %u", blocks[i].n, row);
        say_size(name, bytes, blocks[i].hapacs_us);
    }
    rig_close(&rig);
}

/* Every board to the next one of the ring at once: us until all have done. */
static double bulk(unsigned nodes)
{
    const uint64_t before_ns = clock_now_ns();
    for (unsigned i = 0; i < BULKS; i++)
        for (unsigned node = 0; node < nodes; node++)
            rig_command(&rig.boards[node], i % PEACH2_CHANNELS, PEACH2_FETCH_INTERNAL, 1);
    for (unsigned node = 0; node < nodes; node++)
        for (unsigned channel = 0; channel < PEACH2_CHANNELS; channel++)
            rig_done(&rig.boards[node], channel);
    const double took_us = (double)(clock_now_ns() - before_ns) / 1000;
    for (unsigned node = 0; node < nodes; node++) {
        unsigned from = (node + nodes - 1) % nodes;
        rig.boards[node].notified[from] += BULKS;
        atomic_store(&rig.boards[node].bar0->notify_taken[from], rig.boards[node].notified[from]);
    }
    return took_us;
}

static void measure_growth(unsigned nodes)
{
    double took_us[11];
    rig_open(&rig, nodes, 1, MEMORY);
    for (unsigned node = 0; node < nodes; node++)
        describe(node, (node + 1) % nodes, 1, BULK);
    for (unsigned i = 0; i < sizeof(took_us) / sizeof(took_us[0]); i++)
        took_us[i] = bulk(nodes);
    struct times times = times_of(took_us, sizeof(took_us) / sizeof(took_us[0]));
    const double gb_per_s = (double)BULKS * BULK / times.median / 1000;
    printf("  %2u boards                  %8.2f%10.2f%20.0f\n", nodes, gb_per_s, gb_per_s * nodes,
           PEACH2_PAYLOAD_MAX / gb_per_s);
    add_json("growth", nodes, 1, BULKS * BULK, &times, gb_per_s);
    rig_close(&rig);
}

static int measure(void)
{
    measure_hops(2);
    measure_hops(8);
    measure_sizes();
    printf("\n%-28s%8s%10s%20s\n", "each to the next, all at once", "GB/s", "together",
           "ns a packet");
    for (unsigned nodes = 2; nodes <= PEACH2_NODES; nodes *= 2)
        measure_growth(nodes);
    puts("  HA-PACS/TCA: 3.5 GB/s between the memories of two CPUs, 2.8 to 2.5 between GPUs");
    return 0;
}

static const char usage[] =
    "Usage: peach2-bench [OPTION]...\n"
    "Measures the model of the PEACH2 board: time a hop and a packet, GB/s, from 2 to 16 boards.\n"
    "\n"
    "  -j, --json FILE   add the results to FILE, one JSON object a line\n"
    "  -p, --plot FILE   draw time over size beside that of HA-PACS/TCA, as SVG (needs gnuplot)\n"
    "  -h, --help        this\n";

int main(int argc, char **argv)
{
    static const struct option known[] = {{"json", required_argument, NULL, 'j'},
                                          {"plot", required_argument, NULL, 'p'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    const char *plot_path = NULL;
    for (int c; (c = getopt_long(argc, argv, "j:p:h", known, NULL)) >= 0;) {
        if (c == 'j' && !(json = fopen(optarg, "a"))) {
            fprintf(stderr, "peach2-bench: %s: %s\n", optarg, strerror(errno));
            return 1;
        }
        if (c == 'p')
            plot_path = optarg;
        if (c == 'h' || c == '?') {
            fputs(usage, c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    int r = measure();
    if (json && fclose(json) != 0)
        r = -errno;
    if (r == 0 && plot_path)
        r = plot(plot_path);
    if (r < 0)
        fprintf(stderr, "peach2-bench: results: %s\n", strerror(-r));
    return r < 0;
}
