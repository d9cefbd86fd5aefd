/* tca-cluster: emulates a cluster of tcads on one machine and runs programs on it. */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/number.h"
#include "tools/tca-cluster/arguments.h"
#include "tools/tca-cluster/boards.h"
#include "tools/tca-cluster/help.h"
#include "tools/tca-cluster/network.h"
#include "tools/tca-cluster/run.h"
#include "tools/tca-cluster/say.h"
#include "tools/tca-cluster/show.h"
#include "tools/tca-cluster/up.h"

enum { EXIT_NOT_RUNNING = 3 };

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
    char usual[sizeof(a->dir)] = "";
    bool here = cluster_directory(NULL, usual) == 0 && strcmp(usual, a->dir) == 0;
    say("%s%s%ssee tcactl -N 0 status; end with tca-cluster down",
        here ? "" : "export TCA_CLUSTER_DIR=", here ? "" : a->dir, here ? "" : ", ");
    return 0;
}

/* Ends the run that the cluster is up for, if there is one, and locks what is left of the cluster.
 * *ret_there: there was one. A descriptor; -ENOENT: nothing is left; or another negative errno. */
static int lock_without_owner(const char *dir, struct cluster *ret_cluster, bool *ret_there)
{
    int lock_fd, r;

    *ret_there = false;
    for (;;) {
        if (cluster_load(dir, ret_cluster) == 0) {
            *ret_there = true;
            if (cluster_end_owner(ret_cluster) > 0)
                return complain(EBUSY, "the run with pid %d could not be ended",
                                (int)ret_cluster->owner.pid);
        }
        lock_fd = cluster_lock(dir, false);
        if (lock_fd < 0)
            return lock_fd;
        r = cluster_load(dir, ret_cluster);
        if (r < 0 || process_state(&ret_cluster->owner) == PROCESS_GONE)
            break;
        close(lock_fd); /* another run has begun */
    }
    if (r == 0)
        return lock_fd;
    close(lock_fd);
    return r;
}

static int command_down(struct arguments *a)
{
    struct cluster cluster;
    bool there;
    int lock_fd = lock_without_owner(a->dir, &cluster, &there), r = 0;

    if (lock_fd == -ENOENT && !there)
        return no_cluster(a->dir);
    if (lock_fd < 0 && lock_fd != -ENOENT)
        return 1;
    if (lock_fd >= 0) {
        r = cluster_down(&cluster);
        close(lock_fd);
    }
    if (r == 0)
        say("%u node%s down", cluster.nodes, cluster.nodes == 1 ? "" : "s");
    return r < 0;
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

static const size_t command_count = sizeof(commands) / sizeof(*commands);

static size_t find_command(const char *name)
{
    size_t i = 0;

    while (i < command_count && strcmp(commands[i].name, name) != 0)
        i++;
    return i;
}

int main(int argc, char **argv)
{
    struct arguments a = {
        .run = {.per_node = 1, .launcher = "mpirun", .up = {.subclusters = 1, .timeout_s = 120}}};

    setlocale(LC_CTYPE, "");
    const bool helps = argc > 1 && strcmp(argv[1], "help") == 0; /* help run: run --help */
    argc -= helps && argc > 2;
    argv += helps && argc > 1 && argv[2];
    const size_t i = argc > 1 ? find_command(argv[1]) : command_count;
    if (argc < 2) {
        complain(EINVAL, "a command is missing, such as \"tca-cluster up\"");
        return arguments_usage();
    }
    if (helps && (i < command_count || strcmp(argv[1], "help") == 0)) {
        help();
        return 0;
    }
    if (i == command_count) {
        if (argv[1][0] == '-') { /* only --help and --version work without a command */
            int code = arguments_parse(&a, OF_OTHER, argc, argv);
            return code >= 0 ? code : arguments_usage();
        }
        complain(EINVAL, "unknown command \"%s\"", argv[1]);
        return arguments_usage();
    }
    int code = arguments_parse(&a, commands[i].options, argc - 1, argv + 1);
    if (code < 0 && (a.rest_count < commands[i].least || a.rest_count > commands[i].most)) {
        complain(EINVAL, "%s: %s", commands[i].name,
                 a.rest_count ? "too many arguments" : commands[i].lacking);
        code = arguments_usage();
    }
    if (code < 0)
        code = commands[i].run(&a);
    free(a.overrides);
    free(a.variables);
    return code;
}
