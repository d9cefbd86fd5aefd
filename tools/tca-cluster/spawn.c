#include "tools/tca-cluster/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tools/common/must.h"
#include "tools/tca-cluster/network.h"
#include "tools/tca-cluster/say.h"
#include "tools/tca-cluster/signals.h"

/* Variables for tca-cluster itself, or for a service, which the processes must not inherit. */
static void clean_environment(const struct cluster *cluster)
{
    static const char *const foreign[] = {
        "TCA_SOCKET",
        "TCA_NODE",
        "TCA_CLUSTER_DIR",
        "TCA_GROUP",
        "TCA_RANK",
        "TCA_SIZE",
        "WATCHDOG_PID",
        "WATCHDOG_USEC",
        "LISTEN_PID",
        "LISTEN_FDS",
        "LISTEN_FDNAMES",
        "STATE_DIRECTORY",
        "CONFIGURATION_DIRECTORY",
        "JOURNAL_STREAM",
        "RUNTIME_DIRECTORY",
    };
    for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++)
        unsetenv(foreign[i]);
    setenv("NOTIFY_SOCKET", cluster_path(cluster->dir, "notify").text, 1);
}

/* In the child: detaches from the terminal, sends output to nodeN/LOG, writes nodeN/PID before
 * `parent` continues, and executes the program. Daemons enter the cluster's network; boards use
 * UNIX sockets only. */
static _Noreturn void become(const struct cluster *cluster, unsigned node, const char *log_name,
                             const char *pid_name, const char *const *command, pid_t parent)
{
    const bool daemon = strcmp(pid_name, "pid") == 0;
    struct path log = cluster_node_path(cluster->dir, node, log_name);
    struct path pid = cluster_node_path(cluster->dir, node, pid_name);
    struct process self;

    signals_reset();
    setsid();
    /* Before the pid file exists, because other daemons then join this one's network. */
    int entered = daemon ? network_enter(cluster, true) : 0;
    if (cluster->owner.pid == parent) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(1);
    }
    int in = open("/dev/null", O_RDONLY);
    int out = open(log.text, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(1);
    if (entered < 0) {
        fprintf(stderr, "tca-cluster: cannot enter the cluster's network: %s\n",
                strerror(-entered));
        _exit(1);
    }
    if (process_find(getpid(), &self) < 0 || process_save(&self, pid.text) < 0) {
        fprintf(stderr, "tca-cluster: cannot write %s\n", pid.text);
        _exit(1);
    }
    close_range(3, ~0u, 0); /* including the pipe that the parent waits for */
    clean_environment(cluster);
    execv(command[0], (char **)command);
    fprintf(stderr, "tca-cluster: cannot execute %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

static pid_t spawn(const struct cluster *cluster, unsigned node, const char *log_name,
                   const char *pid_name, const char *const *command)
{
    pid_t parent = getpid();
    int saved[2];
    char none;

    if (pipe2(saved, O_CLOEXEC) < 0)
        return complain(errno, "cannot make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        become(cluster, node, log_name, pid_name, command, parent);
    int error = errno;
    close(saved[1]);
    /* Waits until the child has closed its end, after it has written the pid file. */
    while (pid > 0 && read(saved[0], &none, 1) < 0 && errno == EINTR)
        ;
    close(saved[0]);
    return pid > 0 ? pid : complain(error, "cannot start a process: %s", strerror(error));
}

pid_t spawn_daemon(const struct cluster *cluster, unsigned node, const char *tcad,
                   char *const *overrides)
{
    struct path conf = cluster_node_path(cluster->dir, node, "tcad.conf");
    size_t count = 0, n = 0;

    while (overrides && overrides[count])
        count++;
    const char **command = must(calloc(2 * count + 4, sizeof(*command)));
    command[n++] = tcad;
    command[n++] = "--config";
    command[n++] = conf.text;
    for (size_t i = 0; i < count; i++) {
        command[n++] = "-o";
        command[n++] = overrides[i];
    }
    pid_t pid = spawn(cluster, node, "tcad.log", "pid", command);
    free(command);
    return pid;
}

pid_t spawn_board(const struct cluster *cluster, unsigned node, const char *const *command)
{
    return spawn(cluster, node, "peach2.log", "peach2.pid", command);
}
