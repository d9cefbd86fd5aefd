/* tca-cluster: emulates a cluster of tcads on one machine and runs programs on it. */
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/must.h"
#include "tools/common/number.h"
#include "tools/tca-cluster/boards.h"
#include "tools/tca-cluster/help.h"
#include "tools/tca-cluster/network.h"
#include "tools/tca-cluster/run.h"
#include "tools/tca-cluster/say.h"
#include "tools/tca-cluster/show.h"
#include "tools/tca-cluster/up.h"

enum { EXIT_USAGE = 2, EXIT_NOT_RUNNING = 3 };

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

/* The command line, for all commands. */
struct arguments {
    char dir[PATH_MAX];
    bool json;
    unsigned number; /* -n; 0: not given */
    struct run_options run;
    char **overrides, **variables;
    size_t override_count, variable_count;
    char **rest;
    int rest_count;
};

static int usage(void)
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

/* Sets of commands, for the options that each accepts. */
enum {
    OF_UP = 1 << 0,
    OF_RUN = 1 << 1,
    OF_MPIRUN = 1 << 2,
    OF_STATUS = 1 << 3,
    OF_OTHER = 1 << 4,
    OF_RESTART = 1 << 5,
    OF_EXEC = 1 << 6,
    OF_ALL = ~0
};

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

/* -1: continue; else the exit code. */
static int parse(struct arguments *a, unsigned command, int argc, char **argv)
{
    struct option long_options[OPTION_COUNT + 1] = {0};
    const char *dir = NULL;
    /* +: options after the name of a program belong to the program. */
    const char *letters = command & (OF_RUN | OF_MPIRUN | OF_EXEC) ? "+n:o:e:qhV" : "n:o:e:qhV";

    for (size_t i = 0; i < OPTION_COUNT; i++)
        long_options[i] = options[i].option;
    for (int option; (option = getopt_long(argc, argv, letters, long_options, NULL)) != -1;) {
        if (option == '?')
            return usage();
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
            return usage();
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

/* ---- commands ---- */

static int no_cluster(const char *dir)
{
    complain(ENOENT, "no cluster is up in %s: start one with tca-cluster up", dir);
    return EXIT_NOT_RUNNING;
}

/* Whether --rings comes with boards. */
static bool check_rings(const struct up_options *up, bool boards)
{
    if (up->rings == 0 || boards)
        return true;
    complain(EINVAL, "--rings %u has no effect without boards: add --boards", up->rings);
    return false;
}

/* Whether -n, --subclusters and --rings fit together. */
static bool check_shape(const struct up_options *up)
{
    if (!check_rings(up, up->boards == BOARDS_YES))
        return false;
    if (up->subclusters <= up->nodes)
        return true;
    complain(EINVAL, "%u sub-clusters need at least as many nodes, not %u: raise -n",
             up->subclusters, up->nodes);
    return false;
}

static int command_up(struct arguments *a)
{
    struct cluster cluster;

    a->run.up.nodes = a->number ? a->number : 4;
    if (!check_shape(&a->run.up))
        return EXIT_USAGE;
    int r = cluster_up(a->dir, &a->run.up, &cluster);
    if (r < 0)
        return r == -EINTR ? 130 : r == -EINVAL ? EXIT_USAGE : 1;
    say("%u node%s up in %s%s%s", cluster.nodes, cluster.nodes == 1 ? "" : "s", cluster.dir,
        cluster.boards ? ", boards cabled as " : "",
        cluster.boards ? boards_shape(&cluster).text : "");
    char usual[sizeof a->dir] = "";
    bool here = cluster_directory(NULL, usual) == 0 && strcmp(usual, a->dir) == 0;
    say("%s%s%ssee tcactl -N 0 status; end with tca-cluster down",
        here ? "" : "export TCA_CLUSTER_DIR=", here ? "" : a->dir, here ? "" : ", ");
    return 0;
}

static int command_down(struct arguments *a)
{
    struct cluster cluster;
    int lock_fd = cluster_lock(a->dir, false);

    if (lock_fd < 0)
        return lock_fd == -ENOENT ? no_cluster(a->dir) : 1;
    int r = cluster_load(a->dir, &cluster);
    int code = r == -ENOENT ? no_cluster(a->dir) : 1;
    if (r == 0) {
        r = cluster_down(&cluster);
        code = r < 0;
        if (r == 0)
            say("%u node%s down", cluster.nodes, cluster.nodes == 1 ? "" : "s");
    }
    close(lock_fd);
    return code;
}

static int command_restart(struct arguments *a)
{
    struct cluster cluster;
    unsigned node;
    int lock_fd = cluster_lock(a->dir, false);
    int r = lock_fd < 0 ? lock_fd : cluster_load(a->dir, &cluster);

    if (r == 0 && !number_parse("restart", a->rest[0], 0, cluster.nodes - 1, &node))
        r = -EINVAL;
    else if (r == 0)
        r = cluster_restart(&cluster, node, a->run.up.timeout_s);
    if (lock_fd >= 0)
        close(lock_fd);
    return r == -ENOENT   ? no_cluster(a->dir)
           : r == -EINVAL ? EXIT_USAGE
           : r == -EINTR  ? 130
                          : r < 0;
}

static int command_status(struct arguments *a)
{
    struct cluster cluster;
    int r = cluster_load(a->dir, &cluster);

    if (r < 0)
        return r == -ENOENT ? no_cluster(a->dir) : 1;
    return show_status(&cluster, a->json);
}

static int command_env(struct arguments *a)
{
    struct cluster cluster;
    unsigned node;
    int r = cluster_load(a->dir, &cluster);

    if (r < 0)
        return r == -ENOENT ? no_cluster(a->dir) : 1;
    if (!number_parse("env", a->rest[0], 0, cluster.nodes - 1, &node))
        return EXIT_USAGE;
    show_environment(&cluster, node);
    return 0;
}

/* Runs the program in place of this process, in the daemons' network. */
static int command_exec(struct arguments *a)
{
    struct cluster cluster;
    int r = cluster_load(a->dir, &cluster);

    if (r < 0)
        return r == -ENOENT ? no_cluster(a->dir) : 1;
    r = network_enter(&cluster, false);
    if (r == -ESRCH)
        return no_cluster(a->dir);
    if (r < 0) {
        complain(-r, "cannot enter the network of the cluster in %s: %s", a->dir, strerror(-r));
        return 1;
    }
    setenv("TCA_CLUSTER_DIR", a->dir, 1);
    execvp(a->rest[0], a->rest);
    r = errno;
    complain(r, "cannot execute %s: %s", a->rest[0], strerror(r));
    return r == ENOENT ? 127 : 126;
}

static int command_run(struct arguments *a)
{
    a->run.nodes = a->number;
    a->run.up.nodes = a->number ? a->number : 4;
    return check_shape(&a->run.up) ? run_program(a->dir, &a->run, a->rest) : EXIT_USAGE;
}

static int command_mpirun(struct arguments *a)
{
    a->run.ranks = a->number;
    if (!check_rings(&a->run.up, a->run.up.boards != BOARDS_NO))
        return EXIT_USAGE;
    return run_mpirun(a->dir, &a->run, a->rest);
}

#define A_NODE    "the number of a node is missing"
#define A_PROGRAM "a program is missing, as in \"-- ./program\""

static const struct {
    const char *name;
    unsigned options;
    int least, most; /* arguments */
    const char *lacking;
    int (*run)(struct arguments *a);
} commands[] = {
    {"up", OF_UP, 0, 0, NULL, command_up},
    {"restart", OF_RESTART, 1, 1, A_NODE, command_restart},
    {"down", OF_OTHER, 0, 0, NULL, command_down},
    {"status", OF_STATUS, 0, 0, NULL, command_status},
    {"run", OF_RUN, 1, INT_MAX, A_PROGRAM, command_run},
    {"mpirun", OF_MPIRUN, 1, INT_MAX, A_PROGRAM, command_mpirun},
    {"env", OF_OTHER, 1, 1, A_NODE, command_env},
    {"exec", OF_EXEC, 1, INT_MAX, A_PROGRAM, command_exec},
};

int main(int argc, char **argv)
{
    struct arguments a = {
        .run = {.per_node = 1, .launcher = "mpirun", .up = {.subclusters = 1, .timeout_s = 120}}};
    size_t i = 0;

    setlocale(LC_CTYPE, "");
    const size_t count = sizeof(commands) / sizeof(*commands);
    while (argc > 1 && i < count && strcmp(commands[i].name, argv[1]) != 0)
        i++;
    if (argc < 2) {
        complain(EINVAL, "a command is missing, such as \"tca-cluster up\"");
        return usage();
    }
    if (i == count) {
        if (argv[1][0] == '-') { /* only --help and --version work without a command */
            int code = parse(&a, OF_OTHER, argc, argv);
            return code >= 0 ? code : usage();
        }
        complain(EINVAL, "unknown command \"%s\"", argv[1]);
        return usage();
    }
    int code = parse(&a, commands[i].options, argc - 1, argv + 1);
    if (code < 0 && (a.rest_count < commands[i].least || a.rest_count > commands[i].most)) {
        complain(EINVAL, "%s: %s", commands[i].name,
                 a.rest_count ? "too many arguments" : commands[i].lacking);
        code = usage();
    }
    if (code < 0)
        code = commands[i].run(&a);
    free(a.overrides);
    free(a.variables);
    return code;
}
