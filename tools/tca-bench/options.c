#include "tools/tca-bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void usage(FILE *out)
{
    fputs(
        "Usage: tca-bench [OPTION]...\n"
        "Measures plans between two ranks. Started alone, it runs both ranks on an emulated\n"
        "cluster; under tca-cluster run, mpirun or srun it is one of the two ranks.\n"
        "\n"
        "  -b, --bench LIST    pingpong, untouched, bandwidth, start, overlap, beside, breakdown\n"
        "                      (all)\n"
        "  -s, --sizes LIST    bytes, with K or M; multiples of 8 up to 4M, -b beside 256M\n"
        "  -r, --rail RAIL     only rails of a driver, or one by name (all but peach2)\n"
        "  -e, --seat SEAT     only client or daemon\n"
        "  -l, --layout KIND   only contiguous or block-stride\n"
        "  -t, --seconds T     approximate time for each row (0.2)\n"
        "  -c, --cpus A,B      processors of rank 0 and rank 1, or none (the first two)\n"
        "  -j, --json FILE     append the rows to FILE, one JSON object per line\n"
        "      --line          measure only the cache line between the two processors, in ns\n"
        "      --stores        measure only 8 bytes and a flag by bare stores, in ns\n"
        "      --memory[=MIB]  measure only computing on memory of malloc() and of regions\n"
        "                      (1024), in a session at this node's tcad\n"
        "  -h, --help          print this text\n"
        "  -V, --version       print the version\n",
        out);
}

static int parse_benches(char *list, struct options *options)
{
    memset(options->bench, 0, sizeof(options->bench));
    for (char *rest, *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        size_t i = 0;

        while (i < BENCHES && strcmp(benches[i].name, name) != 0)
            i++;
        if (i == BENCHES)
            return -EINVAL;
        options->bench[i] = true;
    }
    return 0;
}

static int parse_size(const char *text, uint64_t *ret_bytes)
{
    char *end;
    unsigned long long bytes = strtoull(text, &end, 10);

    if (end == text || *text == '-' || bytes > LONG_BYTES_MAX)
        return -EINVAL;
    if (*end == 'K' || *end == 'M')
        bytes *= *end++ == 'K' ? 1u << 10 : 1u << 20;
    if (*end || bytes == 0 || bytes % 8 || bytes > LONG_BYTES_MAX)
        return -EINVAL;
    *ret_bytes = bytes;
    return 0;
}

static int parse_sizes(char *list, struct options *options)
{
    options->size_count = 0;
    for (char *rest, *text = strtok_r(list, ",", &rest); text; text = strtok_r(NULL, ",", &rest)) {
        if (options->size_count == SIZES_ROOM ||
            parse_size(text, &options->sizes[options->size_count++]) < 0)
            return -EINVAL;
    }
    return options->size_count ? 0 : -EINVAL;
}

static int parse_layout(const char *text, struct options *options)
{
    options->contiguous = strcmp(text, "contiguous") == 0;
    options->strided = strcmp(text, "block-stride") == 0;
    return options->contiguous || options->strided ? 0 : -EINVAL;
}

static int parse_seconds(const char *text, struct options *options)
{
    char *end;

    options->seconds = strtod(text, &end);
    return end != text && !*end && options->seconds > 0 && options->seconds <= 3600 ? 0 : -EINVAL;
}

static int parse_mib(const char *text, struct options *options)
{
    char *end;
    const unsigned long long mib = *text ? strtoull(text, &end, 10) : 1024;

    options->memory_mib = mib;
    return (!*text || (end != text && !*end && *text != '-')) && mib >= 2 && mib <= 1 << 20
               ? 0
               : -EINVAL;
}

static int parse_rail(const char *text, struct options *options)
{
    static const enum tca_rail rails[] = {TCA_RAIL_SHM, TCA_RAIL_TCP, TCA_RAIL_OFI, TCA_RAIL_HCA,
                                          TCA_RAIL_PEACH2};

    options->rail = TCA_RAIL_ANY;
    for (size_t i = 0; i < sizeof(rails) / sizeof(rails[0]); i++)
        if (strcmp(text, tca_rail_name(rails[i])) == 0)
            options->rail = rails[i];
    options->rail_name = text;
    return *text && strlen(text) < TCA_RAIL_NAME_BYTES ? 0 : -EINVAL;
}

static int parse_seat(const char *text, struct options *options)
{
    options->seat = strcmp(text, "client") == 0   ? TCA_SEAT_CLIENT
                    : strcmp(text, "daemon") == 0 ? TCA_SEAT_DAEMON
                                                  : TCA_SEAT_ANY;
    return options->seat ? 0 : -EINVAL;
}

static int parse_one(int option, char *text, struct options *options)
{
    switch (option) {
    case 'b':
        return parse_benches(text, options);
    case 's':
        return parse_sizes(text, options);
    case 'r':
        return parse_rail(text, options);
    case 'e':
        return parse_seat(text, options);
    case 'l':
        return parse_layout(text, options);
    case 't':
        return parse_seconds(text, options);
    case 'c':
        return cpus_parse(text, &options->cpus);
    case 'j':
        options->json = text;
        return 0;
    case 'S':
        options->stores = true;
        return 0;
    case 'M':
        return parse_mib(text, options);
    default:
        options->line = true;
        return 0;
    }
}

static const char *legal(int option)
{
    switch (option) {
    case 'b':
        return "one or more of pingpong, untouched, bandwidth, start, overlap, beside and "
               "breakdown, with commas between";
    case 's':
        return "bytes, in multiples of 8 (64, 4K, 1M), with commas between, 32 at most";
    case 'r':
        return "shm, tcp, ofi, hca or peach2, or the name of a rail between nodes, as tcactl "
               "status shows it";
    case 'e':
        return "client or daemon";
    case 'l':
        return "contiguous or block-stride";
    case 't':
        return "seconds, more than 0 and at most 3600";
    case 'M':
        return "MiB, from 2 to 1048576";
    default:
        return "two processors such as 0,1, or none";
    }
}

/* Rejects sizes that a selected benchmark cannot measure. */
static int check_sizes(const struct options *options)
{
    for (size_t i = 0; i < options->size_count; i++)
        for (size_t bench = 0; bench < BENCHES; bench++) {
            if (!options->bench[bench] || benches[bench].run == bench_beside ||
                options->sizes[i] <= BYTES_MAX)
                continue;
            fprintf(stderr,
                    "tca-bench: -s: %llu bytes are more than the 4M of %s: use smaller sizes, or "
                    "-b beside alone for up to 256M\n",
                    (unsigned long long)options->sizes[i], benches[bench].name);
            return -EINVAL;
        }
    return 0;
}

int options_parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"bench", required_argument, NULL, 'b'},  {"sizes", required_argument, NULL, 's'},
        {"rail", required_argument, NULL, 'r'},   {"seat", required_argument, NULL, 'e'},
        {"layout", required_argument, NULL, 'l'}, {"seconds", required_argument, NULL, 't'},
        {"cpus", required_argument, NULL, 'c'},   {"json", required_argument, NULL, 'j'},
        {"line", no_argument, NULL, 'L'},         {"stores", no_argument, NULL, 'S'},
        {"memory", optional_argument, NULL, 'M'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0},
    };
    int option;

    *options = (struct options){
        .contiguous = true, .strided = true, .seconds = 0.2, .cpus = cpus_default()};
    memset(options->bench, 1, sizeof(options->bench));
    while ((option = getopt_long(argc, argv, "b:s:r:e:l:t:c:j:hV", known, NULL)) != -1) {
        char text[256];

        if (option == 'h') {
            usage(stdout);
            return 1;
        }
        if (option == 'V') {
            printf("tca-bench (libtca %s)\n", tca_version());
            return 1;
        }
        if (option == '?')
            return -EINVAL;
        snprintf(text, sizeof(text), "%s",
                 optarg ? optarg : ""); /* the ranks get the original argv */
        if (parse_one(option, option == 'j' || option == 'r' ? optarg : text, options) < 0) {
            fprintf(stderr, "tca-bench: %s %s: write %s\n",
                    option == 'M' ? "--memory" : (const char[]){'-', (char)option, 0}, optarg,
                    legal(option));
            return -EINVAL;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "tca-bench: unexpected argument '%s': use options only\n", argv[optind]);
        return -EINVAL;
    }
    return check_sizes(options);
}
