#include "tools/tca-cluster/up.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/find_program.h"
#include "tools/common/must.h"
#include "tools/tca-cluster/boards.h"
#include "tools/tca-cluster/network.h"
#include "tools/tca-cluster/ready.h"
#include "tools/tca-cluster/say.h"
#include "tools/tca-cluster/signals.h"
#include "tools/tca-cluster/spawn.h"
#include "tools/tca-cluster/write.h"

enum { TAIL_LINES = 15, CALIBRATION_MS = 10000 };

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Prints the last lines of a node's log, to show why it did not start. */
static void show_tail(const struct cluster *cluster, unsigned node)
{
    struct path path = cluster_node_path(cluster->dir, node, "tcad.log");
    char *lines[TAIL_LINES] = {0};
    size_t room = 0, count = 0;
    char *line = NULL;
    FILE *from = fopen(path.text, "re");

    while (from && getline(&line, &room, from) > 0) {
        free(lines[count % TAIL_LINES]);
        lines[count++ % TAIL_LINES] = must(strdup(line));
    }
    free(line);
    if (from)
        fclose(from);
    fprintf(stderr, "--- end of %s%s\n", path.text, count == 0 ? ": empty" : "");
    for (size_t i = 0; i < TAIL_LINES; i++) {
        char *text = lines[(count + i) % TAIL_LINES];
        if (text)
            fprintf(stderr, "    %s%s", text, strchr(text, '\n') ? "" : "\n");
        free(text);
    }
}

/* The state of the daemons while they start. */
struct start {
    const struct cluster *cluster;
    pid_t *pids; /* 0: not started, or ready */
    unsigned wanted, ready;
};

static int find_node(const struct start *start, pid_t pid)
{
    for (unsigned node = 0; node < start->cluster->nodes; node++)
        if (start->pids[node] == pid)
            return (int)node;
    return -1;
}

static void collect_ready(struct start *start, int fd)
{
    for (pid_t pid; (pid = ready_next(fd)) > 0;) {
        int node = find_node(start, pid);
        if (node < 0)
            continue;
        start->pids[node] = 0;
        start->ready++;
        say_step("node%d is ready (%u of %u)", node, start->ready, start->wanted);
    }
}

/* Reports a daemon that has ended, even if it was ready before. */
static int collect_ended(const struct start *start)
{
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG);

    if (pid <= 0)
        return 0;
    for (unsigned node = 0; node < start->cluster->nodes; node++) {
        if (cluster_daemon(start->cluster, node).pid != pid && start->pids[node] != pid)
            continue;
        complain(ECHILD, "tcad of node%u ended while starting (%s %d)", node,
                 WIFEXITED(status) ? "exit code" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        show_tail(start->cluster, node);
        return -ECHILD;
    }
    return 0;
}

static int complain_of_silence(const struct start *start, int timeout_s)
{
    for (unsigned node = 0; node < start->cluster->nodes; node++)
        if (start->pids[node]) {
            complain(ETIMEDOUT, "node%u was not ready within %d s (--timeout)", node, timeout_s);
            show_tail(start->cluster, node);
            break;
        }
    return -ETIMEDOUT;
}

/* Negative: a signal requests the end, or a daemon has ended. */
static int handle_signals(const struct start *start)
{
    for (int number; (number = signals_next());) {
        if (number != SIGCHLD)
            return complain(EINTR, "%s: taking it down again", strsignal(number));
        int r = collect_ended(start);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Waits until `count` daemons are ready. */
static int wait_ready(struct start *start, unsigned count, int ready_fd, int64_t end_ms,
                      int timeout_s)
{
    struct pollfd fds[] = {{.fd = ready_fd, .events = POLLIN},
                           {.fd = signals_open(), .events = POLLIN}};

    while (start->ready < count) {
        int64_t left_ms = end_ms - now_ms();
        if (left_ms <= 0)
            return complain_of_silence(start, timeout_s);
        if (poll(fds, 2, left_ms > INT_MAX ? INT_MAX : (int)left_ms) < 0 && errno != EINTR)
            return complain(errno, "cannot wait for the daemons: %s", strerror(errno));
        collect_ready(start, ready_fd);
        int r = handle_signals(start);
        if (r < 0)
            return r;
    }
    return 0;
}

static int start_node(struct start *start, const char *tcad, char *const *overrides, unsigned node)
{
    pid_t pid = spawn_daemon(start->cluster, node, tcad, overrides);

    if (pid < 0)
        return pid;
    start->pids[node] = pid;
    return 0;
}

/* The first node measures the rails before the others start; they use its result. A failed
 * measurement does not fail the start. */
static int wait_calibrated(struct start *start, const struct up_options *options)
{
    struct path path = cluster_path(start->cluster->dir, "calibration");
    struct pollfd signals = {.fd = signals_open(), .events = POLLIN};
    int64_t end_ms = now_ms() + CALIBRATION_MS;

    for (char *const *o = options->overrides; o && *o; o++)
        if (strncmp(*o, "rails.calibration", strlen("rails.calibration")) == 0)
            return 0; /* configured otherwise: off, or another file */
    say_step("measuring the rails on node0");
    while (access(path.text, F_OK) < 0 && now_ms() < end_ms) {
        int r = poll(&signals, 1, 20) > 0 ? handle_signals(start) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static int start_all(const struct cluster *cluster, const struct up_options *options,
                     const char *tcad)
{
    struct path path = cluster_path(cluster->dir, "notify");
    struct start start = {.cluster = cluster,
                          .wanted = cluster->nodes,
                          .pids = must(calloc(cluster->nodes, sizeof(pid_t)))};
    int64_t end_ms = now_ms() + options->timeout_s * INT64_C(1000);
    int ready_fd = ready_open(path.text);
    int r = ready_fd < 0 ? ready_fd : 0;

    for (unsigned node = 0; r == 0 && node < cluster->nodes; node++) {
        r = start_node(&start, tcad, options->overrides, node);
        if (r == 0 && node == 0 && cluster->nodes > 1) {
            r = wait_ready(&start, 1, ready_fd, end_ms, options->timeout_s);
            if (r == 0)
                r = wait_calibrated(&start, options);
            end_ms = now_ms() + options->timeout_s * INT64_C(1000);
        }
    }
    if (r == 0)
        r = wait_ready(&start, cluster->nodes, ready_fd, end_ms, options->timeout_s);
    if (ready_fd >= 0) {
        close(ready_fd);
        unlink(path.text);
    }
    free(start.pids);
    return r;
}

/* Removes a former cluster whose daemons have all ended. 1: removed, possibly with the
 * directory. */
static int clear_place(const char *dir, bool quiet)
{
    struct cluster former;
    int r = cluster_load(dir, &former);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    if (cluster_alive(&former) > 0 && quiet)
        return -EEXIST;
    if (cluster_alive(&former) > 0)
        return complain(EEXIST,
                        "a cluster of %u nodes is up in %s already: run tca-cluster down --dir %s "
                        "first, or use another --dir",
                        former.nodes, dir, dir);
    say("removing the remains of a former cluster in %s", dir);
    r = cluster_remove(dir);
    return r < 0 ? r : 1;
}

/* Without permission for a private network, the cluster uses the machine's. */
static void choose_network(struct cluster *cluster, const struct up_options *options)
{
    const char *why = "--host-network";

    cluster->private_network = !options->host_network && network_possible(&why) == 0;
    if (cluster->private_network)
        return;
    say("the daemons use this machine's network (%s), where any user can reach their ports: the "
        "rail ofi is off there; see NETWORK in tca-cluster(1)",
        why);
}

static int bring_up(struct cluster *cluster, const struct up_options *options)
{
    char tcad[PATH_MAX];
    int r = find_program("tcad", tcad);

    if (r < 0)
        return complain(
            ENOENT, "tcad is neither beside tca-cluster nor in PATH: install it or extend PATH");
    if (options->owned)
        process_find(getpid(), &cluster->owner);
    choose_network(cluster, options);
    say_step("starting %u node%s in %s", cluster->nodes, cluster->nodes == 1 ? "" : "s",
             cluster->dir);
    r = cluster_save(cluster);
    if (r == 0)
        r = write_files(cluster);
    if (r == 0)
        r = write_overrides(cluster, options->overrides);
    if (r == 0 && cluster->boards)
        r = boards_start(cluster);
    if (r == 0)
        r = start_all(cluster, options, tcad);
    if (r < 0)
        cluster_down(cluster);
    return r;
}

int cluster_up(const char *dir, const struct up_options *options, struct cluster *ret_cluster)
{
    struct cluster cluster = {.nodes = options->nodes,
                              .subclusters = options->subclusters,
                              .plain = options->plain,
                              .boards = options->boards == BOARDS_YES,
                              .rings = options->rings};
    int lock_fd, r = 0;

    if (cluster.boards)
        r = boards_check(cluster.nodes, cluster.subclusters, cluster.rings);
    if (r < 0)
        return r;
    signals_open();
    do {
        lock_fd = cluster_lock(dir, true);
        if (lock_fd < 0)
            return lock_fd;
        r = clear_place(dir, options->owned);
        if (r != 0)
            close(lock_fd);
    } while (r > 0);
    if (r < 0)
        return r;
    strcpy(cluster.dir, dir);
    r = bring_up(&cluster, options);
    close(lock_fd);
    if (r == 0)
        *ret_cluster = cluster;
    return r;
}

int cluster_restart(const struct cluster *cluster, unsigned node, int timeout_s)
{
    char tcad[PATH_MAX];
    struct path path = cluster_path(cluster->dir, "notify");
    struct process former = cluster_daemon(cluster, node);
    struct start start = {
        .cluster = cluster, .wanted = 1, .pids = must(calloc(cluster->nodes, sizeof(pid_t)))};
    char **overrides = NULL;
    int r = find_program("tcad", tcad);

    if (r < 0)
        r = complain(ENOENT,
                     "tcad is neither beside tca-cluster nor in PATH: install it or extend PATH");
    if (r == 0 && end_processes(&former, 1, "daemon(s)") > 0)
        r = complain(EBUSY, "the daemon of node%u (pid %d) could not be ended", node,
                     (int)former.pid);
    struct process board = boards_process(cluster, node);
    if (r == 0 && cluster->boards && process_state(&board) == PROCESS_GONE)
        r = boards_start_one(cluster, node);
    if (r == 0)
        r = read_overrides(cluster, &overrides);
    int ready_fd = r == 0 ? ready_open(path.text) : -1;
    if (r == 0 && ready_fd < 0)
        r = ready_fd;
    if (r == 0) {
        say_step("starting node%u again", node);
        signals_open();
        r = start_node(&start, tcad, overrides, node);
    }
    if (r == 0)
        r = wait_ready(&start, 1, ready_fd, now_ms() + timeout_s * INT64_C(1000), timeout_s);
    if (ready_fd >= 0) {
        close(ready_fd);
        unlink(path.text);
    }
    free_overrides(overrides);
    free(start.pids);
    return r;
}
