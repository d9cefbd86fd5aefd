#include "tools/tca-cluster/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/common/number.h"
#include "tools/tca-cluster/help.h"
#include "tools/tca-cluster/say.h"

enum {
    LONG_DIR = 256,
    LONG_SUBCLUSTERS,
    LONG_PLAIN,
    LONG_TLS,
    LONG_TIMEOUT,
    LONG_JSON,
    LONG_PPN,
    LONG_TAG,
    LONG_MAP,
    LONG_BIND,
    LONG_LAUNCHER,
    LONG_BOARDS,
    LONG_NO_BOARDS,
    LONG_RINGS,
    LONG_HOST_NETWORK,
};

int arguments_usage(void)
{
    fputs("see tca-cluster --help\n", stderr);
    return EXIT_USAGE;
}

static bool append(const char *option, char *text, const char *form, char ***list, size_t *count)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text) {
        complain(EINVAL, "%s %s: write %s", option, text, form);
        return false;
    }
    *list = must(realloc(*list, (*count + 2) * sizeof(**list)));
    (*list)[(*count)++] = text;
    (*list)[*count] = NULL;
    return true;
}

static const struct {
    struct option option;
    unsigned commands;
} options[] = {
    {{"dir", required_argument, NULL, LONG_DIR}, OF_ALL},
    {{"quiet", no_argument, NULL, 'q'}, OF_ALL},
    {{"help", no_argument, NULL, 'h'}, OF_ALL},
    {{"version", no_argument, NULL, 'V'}, OF_ALL},
    {{"nodes", required_argument, NULL, 'n'}, OF_UP | OF_RUN | OF_MPIRUN},
    {{"option", required_argument, NULL, 'o'}, OF_UP | OF_RUN | OF_MPIRUN},
    {{"subclusters", required_argument, NULL, LONG_SUBCLUSTERS}, OF_UP | OF_RUN | OF_MPIRUN},
    {{"plain", no_argument, NULL, LONG_PLAIN}, OF_UP | OF_RUN | OF_MPIRUN},
    {{"tls", no_argument, NULL, LONG_TLS}, OF_UP | OF_RUN | OF_MPIRUN},
    {{"boards", no_argument, NULL, LONG_BOARDS}, OF_UP | OF_RUN | OF_MPIRUN},
    {{"no-boards", no_argument, NULL, LONG_NO_BOARDS}, OF_UP | OF_RUN | OF_MPIRUN},
    {{"rings", required_argument, NULL, LONG_RINGS}, OF_UP | OF_RUN | OF_MPIRUN},
    {{"host-network", no_argument, NULL, LONG_HOST_NETWORK}, OF_UP | OF_RUN | OF_MPIRUN},
    {{"timeout", required_argument, NULL, LONG_TIMEOUT}, OF_UP | OF_RUN | OF_MPIRUN | OF_RESTART},
    {{"json", no_argument, NULL, LONG_JSON}, OF_STATUS},
    {{"ppn", required_argument, NULL, LONG_PPN}, OF_RUN | OF_MPIRUN},
    {{"env", required_argument, NULL, 'e'}, OF_RUN | OF_MPIRUN},
    {{"map", required_argument, NULL, LONG_MAP}, OF_RUN},
    {{"tag", no_argument, NULL, LONG_TAG}, OF_RUN},
    {{"bind", no_argument, NULL, LONG_BIND}, OF_RUN},
    {{"launcher", required_argument, NULL, LONG_LAUNCHER}, OF_MPIRUN},
};
enum { OPTION_COUNT = sizeof(options) / sizeof(*options) };

static bool belongs(int value, unsigned command)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (options[i].option.val == value)
            return options[i].commands & command;
    return true;
}

/* False: an invalid value, after an error message. */
static bool take_option(struct arguments *a, int option)
{
    struct up_options *up = &a->run.up;

    switch (option) {
    case 'n':
        return number_parse("-n", optarg, 1, CLUSTER_NODES_LIMIT, &a->number);
    case 'o':
        return append("-o", optarg, "section.key=value", &a->overrides, &a->override_count);
    case 'e':
        return append("-e", optarg, "NAME=VALUE", &a->variables, &a->variable_count);
    case LONG_SUBCLUSTERS:
        return number_parse("--subclusters", optarg, 1, CLUSTER_NODES_LIMIT, &up->subclusters);
    case LONG_PLAIN:
    case LONG_TLS:
        up->plain = option == LONG_PLAIN;
        return true;
    case LONG_BOARDS:
    case LONG_NO_BOARDS:
        up->boards = option == LONG_BOARDS ? BOARDS_YES : BOARDS_NO;
        return true;
    case LONG_RINGS:
        return number_parse("--rings", optarg, 1, 2, &up->rings);
    case LONG_HOST_NETWORK:
        up->host_network = true;
        return true;
    case LONG_TIMEOUT:
        return number_parse("--timeout", optarg, 1, 86400, (unsigned *)&up->timeout_s);
    case LONG_PPN:
        return number_parse("--ppn", optarg, 1, 4096, &a->run.per_node);
    case LONG_MAP:
        a->run.cyclic = strcmp(optarg, "node") == 0;
        if (!a->run.cyclic && strcmp(optarg, "rank") != 0)
            complain(EINVAL, "--map %s: write rank or node", optarg);
        return a->run.cyclic || strcmp(optarg, "rank") == 0;
    case LONG_JSON:
        a->json = true;
        return true;
    case LONG_TAG:
        a->run.tag = true;
        return true;
    case LONG_BIND:
        a->run.bind = true;
        return true;
    case LONG_LAUNCHER:
        a->run.launcher = optarg;
        return true;
    default:
        say_quiet(true); /* -q */
        return true;
    }
}

int arguments_parse(struct arguments *a, unsigned command, int argc, char **argv)
{
    struct option long_options[OPTION_COUNT + 1] = {0};
    const char *dir = NULL;
    /* +: options after the name of a program belong to the program. */
    const char *letters = command & (OF_RUN | OF_MPIRUN | OF_EXEC) ? "+n:o:e:qhV" : "n:o:e:qhV";

    for (size_t i = 0; i < OPTION_COUNT; i++)
        long_options[i] = options[i].option;
    for (int option; (option = getopt_long(argc, argv, letters, long_options, NULL)) != -1;) {
        if (option == '?')
            return arguments_usage();
        if (option == 'h') {
            help();
            return 0;
        }
        if (option == 'V') {
            printf("tca-cluster %s\n", TCAD_VERSION);
            return 0;
        }
        if (!belongs(option, command)) {
            complain(EINVAL, "%s does not have the option %s", argv[0], argv[optind - 1]);
            return arguments_usage();
        }
        if (option == LONG_DIR)
            dir = optarg;
        else if (!take_option(a, option))
            return EXIT_USAGE;
    }
    a->run.up.overrides = a->overrides;
    a->run.variables = a->variables;
    a->rest = argv + optind;
    a->rest_count = argc - optind;
    return cluster_directory(dir, a->dir) < 0 ? EXIT_USAGE : -1;
}
