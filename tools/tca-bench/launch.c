#include "tools/tca-bench/launch.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/find_program.h"

extern char **environ;

static volatile sig_atomic_t caught; /* the signal that ends this run; 0: none */

static void on_signal(int number)
{
    caught = number;
}

bool launched(void)
{
    static const char *const said[] = {"TCA_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                       "SLURM_STEP_NUM_TASKS"};

    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
        if (getenv(said[i]))
            return true;
    return false;
}

/* Beside this program, as installed or as built (each in its own directory), else in PATH. */
static void find_cluster(char ret_path[static PATH_MAX])
{
    static const char *const places[] = {"tca-cluster", "../tca-cluster"};
    char own[PATH_MAX];
    int r = find_own_directory(own);

    for (size_t i = 0; r >= 0 && i < sizeof(places) / sizeof(places[0]); i++) {
        int length = snprintf(ret_path, PATH_MAX, "%s/%s", own, places[i]);

        if (length < PATH_MAX && access(ret_path, X_OK) == 0)
            return;
    }
    strcpy(ret_path, "tca-cluster");
}

/* The exit status, 128 + signal, or 127 if the command cannot be started. Forwards signals to the
 * child. */
static int run(const char *const *command)
{
    int status;
    pid_t pid;
    int r = posix_spawnp(&pid, command[0], NULL, NULL, (char *const *)command, environ);

    if (r != 0) {
        fprintf(stderr, "tca-bench: cannot start %s: %s\n", command[0], strerror(r));
        return 127;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return 127;
        if (caught)
            kill(pid, caught);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* tca-cluster uses a cluster that is up, or brings one up for the run. */
static int run_ranks(const char *cluster, const char *nodes, const char *per_node, bool boards,
                     char **argv)
{
    char self[PATH_MAX];
    const char *command[64] = {cluster, "run",   "-q",     "-n",
                               nodes,   "--ppn", per_node, boards ? "--boards" : "--no-boards",
                               "--",    self};
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    size_t count = 10;

    if (length < 0) {
        fprintf(stderr, "tca-bench: /proc/self/exe: %s\n", strerror(errno));
        return 1;
    }
    self[length] = '\0';
    for (char **argument = argv + 1; *argument; argument++) {
        if (count == sizeof(command) / sizeof(command[0]) - 1) {
            fprintf(stderr, "tca-bench: more than %zu arguments: use fewer\n", count - 10);
            return 2;
        }
        command[count++] = *argument;
    }
    return run(command);
}

int launch(char **argv, bool boards)
{
    const struct sigaction catch = {.sa_handler = on_signal};
    char cluster[PATH_MAX];
    int status = 0;

    find_cluster(cluster);
    sigaction(SIGINT, &catch, NULL);
    sigaction(SIGTERM, &catch, NULL);
    sigaction(SIGHUP, &catch, NULL);
    if (!boards)
        status = run_ranks(cluster, "1", "2", false, argv);
    if (status == 0 && !caught)
        status = run_ranks(cluster, "2", "1", boards, argv);
    return caught ? 128 + caught : status;
}
