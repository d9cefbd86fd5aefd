#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static void usage(FILE *out)
{
    fputs(
        "Usage: himeno [--size XS|S|M|L] [--split IxJx1] [--iterations N | --seconds T]\n"
        "              [--prefer RAIL] [--json] [--progress]\n"
        "\n"
        "  --size        points: XS 32x32x64, S 64x64x128 (default), M 128x128x256, L 256x256x512\n"
        "  --split       parts along i and j, one for each rank; 1x1x1 (default): one process,\n"
        "                without tcad\n"
        "  --iterations  the number of sweeps\n"
        "  --seconds     the approximate time (10); the number of sweeps follows from it\n"
        "  --prefer      use this rail, such as peach2, to every node that it leads to\n"
        "  --json        print the result as one line of JSON\n"
        "  --progress    print the progress to standard error\n",
        out);
}

static int parse_number(const char *text, double max, double *ret_number)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end || !(number > 0) || number > max)
        return -EINVAL;
    *ret_number = number;
    return 0;
}

static int parse_split(const char *text, struct options *options)
{
    int k = 0;
    int end = -1;

    if (sscanf(text, "%3dx%3dx%3d%n", &options->parts_i, &options->parts_j, &k, &end) != 3 ||
        end < 0 || text[end])
        return -EINVAL;
    if (k != 1) /* rows of k are what the kernel and every face are made of */
        return -EINVAL;
    return options->parts_i > 0 && options->parts_j > 0 ? 0 : -EINVAL;
}

static int parse_one(int option, struct options *options)
{
    double number;
    int r = 0;

    switch (option) {
    case 's':
        options->size = grid_size_find(optarg);
        return options->size ? 0 : -EINVAL;
    case 'x':
        return parse_split(optarg, options);
    case 'n':
        r = parse_number(optarg, SWEEPS_MAX, &number);
        if (r >= 0)
            options->sweeps = (uint64_t)number;
        return r >= 0 && options->sweeps == 0 ? -EINVAL : r;
    case 't':
        return parse_number(optarg, 86400, &options->seconds);
    case 'r':
        options->prefer = optarg;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    default:
        options->progress = true;
        return 0;
    }
}

int options_parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"size", required_argument, NULL, 's'},
        {"split", required_argument, NULL, 'x'},
        {"iterations", required_argument, NULL, 'n'},
        {"seconds", required_argument, NULL, 't'},
        {"prefer", required_argument, NULL, 'r'},
        {"json", no_argument, NULL, 'j'},
        {"progress", no_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int index = 0;
    int option;

    *options =
        (struct options){.size = grid_size_find("S"), .parts_i = 1, .parts_j = 1, .seconds = 10};
    while ((option = getopt_long(argc, argv, "h", known, &index)) != -1) {
        if (option == 'h') {
            usage(stdout);
            return 1;
        }
        if (option == '?')
            return -EINVAL;
        if (parse_one(option, options) < 0) {
            fprintf(stderr, "himeno: --%s %s: not one of what himeno --help lists\n",
                    known[index].name, optarg);
            return -EINVAL;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "himeno: '%s': no arguments are taken, only options\n", argv[optind]);
        return -EINVAL;
    }
    return 0;
}
