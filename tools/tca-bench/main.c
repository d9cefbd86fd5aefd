/* tca-bench: measures the cost of plans for every rail and seat. See tca-bench(1). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/tca-bench/bench.h"
#include "tools/tca-bench/launch.h"
#include "tools/tca-bench/memory.h"
#include "tools/tca-bench/options.h"

#define RAIL_COUNT (TCA_RAIL_TCP + 1) /* of enum tca_rail */

const struct bench benches[BENCHES] = {
    {"pingpong", bench_pingpong},   {"untouched", bench_untouched}, {"bandwidth", bench_bandwidth},
    {"start", bench_start},         {"overlap", bench_overlap},     {"beside", bench_beside},
    {"breakdown", bench_breakdown},
};

static size_t sizes_of(const struct options *options, size_t bench, bool strided,
                       uint64_t ret_sizes[static SIZES_ROOM])
{
    static const uint64_t pingpong[] = {8, 64, 512, 4096, 16384, 65536, 262144, 1048576, 4194304};
    static const uint64_t large[] = {65536, 262144, 1048576, 4194304};
    static const uint64_t blocks[] = {8192, 65536, 524288};
    static const uint64_t bandwidth[] = {4096, 65536, 1048576};
    static const uint64_t one[] = {8};
    static const uint64_t big[] = {4194304};
    static const uint64_t huge[] = {67108864};
    const uint64_t *sizes = options->sizes;
    size_t count = options->size_count;
    bench_run *run = benches[bench].run;

    if (count == 0) {
        sizes = run == bench_pingpong    ? pingpong
                : run == bench_untouched ? large
                : run == bench_bandwidth ? bandwidth
                : run == bench_overlap   ? big
                : run == bench_beside    ? huge
                                         : one;
        count = run == bench_pingpong    ? 9
                : run == bench_untouched ? 4
                : run == bench_bandwidth ? 3
                                         : 1;
        if (strided && run != bench_beside) {
            sizes = blocks;
            count = 3;
        }
    }
    memcpy(ret_sizes, sizes, count * sizeof(*sizes));
    return count;
}

/* Below 16 bytes, a block-stride layout is one block; the cost of a start does not depend on the
 * layout; breakdown measures 8 bytes. */
static bool makes_sense(size_t bench, const struct variant *variant, uint64_t bytes)
{
    bench_run *run = benches[bench].run;

    if (variant->strided &&
        (bytes < 16 || run == bench_start || run == bench_overlap || run == bench_breakdown))
        return false;
    if (run == bench_overlap || run == bench_breakdown)
        return variant->seat == TCA_SEAT_DAEMON; /* in the client seat, tca_start() itself copies */
    return true;
}

static int row(struct pair *pair, size_t bench, const struct variant *variant, uint64_t bytes,
               FILE *json)
{
    struct row row = {.bench = benches[bench].name, .variant = *variant, .bytes = bytes};
    int r = pair_line(pair, &row.line_ns);

    if (r >= 0)
        r = benches[bench].run(pair, variant, bytes, &row);
    if (r < 0) {
        fprintf(stderr, "tca-bench: rank %u: %s, %s/%s, %llu bytes: %s: %s\n", pair->me, row.bench,
                variant_rail(variant), tca_seat_name(variant->seat), (unsigned long long)bytes,
                tca_strerror(r), tca_error_text());
        return r;
    }
    if (pair->me == 0) {
        report_row(stdout, &row);
        if (json)
            report_json(json, &row);
    }
    return 0;
}

static bool is_selected(const struct options *options, const struct variant *variant)
{
    if (options->seat && options->seat != variant->seat)
        return false;
    if (!(variant->strided ? options->strided : options->contiguous))
        return false;
    if (options->rail_name)
        return variant->rail == options->rail;
    return variant->rail != TCA_RAIL_PEACH2 && variant->rail != TCA_RAIL_ANY;
}

typedef bool routes[RAIL_COUNT][TCA_SEAT_DAEMON + 1];

/* Collective. Without --rail, only what leads there is measured; the client's seat of hca leads
 * there if both ranks may open their devices. */
static int find_routes(struct pair *pair, const struct options *options, routes leads)
{
    static const struct variant tried[] = {{TCA_RAIL_TCP, TCA_SEAT_DAEMON},
                                           {TCA_RAIL_TCP, TCA_SEAT_CLIENT},
                                           {TCA_RAIL_OFI, TCA_SEAT_DAEMON},
                                           {TCA_RAIL_HCA, TCA_SEAT_DAEMON},
                                           {TCA_RAIL_HCA, TCA_SEAT_CLIENT}};
    bool any = options->rail_name || pair->same_node;

    for (size_t i = 0; i < RAIL_COUNT; i++)
        leads[i][TCA_SEAT_CLIENT] = leads[i][TCA_SEAT_DAEMON] = any;
    if (any)
        return 0;
    for (size_t i = 0; i < sizeof(tried) / sizeof(tried[0]); i++) {
        int r = pair_leads(pair, &tried[i]);
        if (r < 0)
            return r;
        leads[tried[i].rail][tried[i].seat] = r;
        any |= r;
    }
    if (!any && pair->me == 0)
        fprintf(stderr, "tca-bench: no rail leads from one rank to the other: %s\n",
                tca_error_text());
    return any ? 0 : -ENETDOWN;
}

static int rows(struct pair *pair, const struct options *options, FILE *json)
{
    static const struct variant variants[] = {
        {TCA_RAIL_SHM, TCA_SEAT_CLIENT, false},    {TCA_RAIL_SHM, TCA_SEAT_CLIENT, true},
        {TCA_RAIL_SHM, TCA_SEAT_DAEMON, false},    {TCA_RAIL_SHM, TCA_SEAT_DAEMON, true},
        {TCA_RAIL_TCP, TCA_SEAT_CLIENT, false},    {TCA_RAIL_TCP, TCA_SEAT_CLIENT, true},
        {TCA_RAIL_TCP, TCA_SEAT_DAEMON, false},    {TCA_RAIL_TCP, TCA_SEAT_DAEMON, true},
        {TCA_RAIL_OFI, TCA_SEAT_DAEMON, false},    {TCA_RAIL_OFI, TCA_SEAT_DAEMON, true},
        {TCA_RAIL_HCA, TCA_SEAT_CLIENT, false},    {TCA_RAIL_HCA, TCA_SEAT_CLIENT, true},
        {TCA_RAIL_HCA, TCA_SEAT_DAEMON, false},    {TCA_RAIL_HCA, TCA_SEAT_DAEMON, true},
        {TCA_RAIL_PEACH2, TCA_SEAT_DAEMON, false}, {TCA_RAIL_PEACH2, TCA_SEAT_DAEMON, true},
        {TCA_RAIL_ANY, TCA_SEAT_DAEMON, false},    {TCA_RAIL_ANY, TCA_SEAT_DAEMON, true},
    };
    routes leads;
    int r = find_routes(pair, options, leads);

    for (size_t bench = 0; r >= 0 && bench < BENCHES; bench++)
        for (size_t w = 0; w < sizeof(variants) / sizeof(variants[0]); w++) {
            struct variant variant = variants[w];
            uint64_t sizes[SIZES_ROOM];
            size_t count = sizes_of(options, bench, variant.strided, sizes);

            if (!options->bench[bench] || !is_selected(options, &variant) ||
                !leads[variant.rail][variant.seat] ||
                pair->same_node != (variant.rail == TCA_RAIL_SHM))
                continue;
            if (variant.rail == TCA_RAIL_ANY)
                variant.rail_name = options->rail_name;
            for (size_t s = 0; s < count && r >= 0; s++)
                if (makes_sense(bench, &variant, sizes[s]))
                    r = row(pair, bench, &variant, sizes[s], json);
        }
    return r;
}

static int be_a_rank(const struct options *options)
{
    struct pair pair;
    FILE *json = NULL;
    int r = pair_open(&options->cpus, options->seconds, &pair);

    if (r < 0)
        return 1;
    if (pair.me == 0 && options->json) {
        json = fopen(options->json, "ae");
        if (!json)
            fprintf(stderr, "tca-bench: --json %s: %s\n", options->json, strerror(errno));
    }
    r = pair_agree(&pair, pair.me == 0 && options->json && !json ? -EIO : 0);
    if (r >= 0 && pair.me == 0)
        report_header(stdout);
    if (r >= 0)
        r = rows(&pair, options, json);
    if (json && fclose(json) != 0 && r >= 0) {
        fprintf(stderr, "tca-bench: --json %s: %s\n", options->json, strerror(errno));
        r = -EIO;
    }
    pair_close(&pair);
    return r < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct options options;
    int r = options_parse(argc, argv, &options);

    if (r != 0)
        return r < 0 ? 2 : 0;
    if (options.line) {
        printf("%.1f\n", line_ns(&options.cpus));
        return 0;
    }
    if (options.stores) {
        printf("%.1f\n", stores_ns(&options.cpus));
        return 0;
    }
    if (options.memory_mib)
        return memory_bench(options.memory_mib, options.json);
    if (launched())
        return be_a_rank(&options);
    return launch(argv, options.rail_name && strncmp(options.rail_name, "peach2", 6) == 0);
}
