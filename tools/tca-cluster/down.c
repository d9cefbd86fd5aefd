#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/must.h"
#include "tools/tca-cluster/boards.h"
#include "tools/tca-cluster/say.h"
#include "tools/tca-cluster/up.h"

/* A run waits for this time for its ranks, its daemons and its boards, in turn. */
enum { GRACE_MS = 5000, RUN_GRACE_MS = 30000, KILL_MS = 5000 };

static size_t end_within(const struct process *processes, size_t count, const char *what,
                         int grace_ms)
{
    for (size_t i = 0; i < count; i++) {
        process_signal(&processes[i], SIGCONT); /* a stopped process does not see signals */
        process_signal(&processes[i], SIGTERM);
    }
    size_t left = process_wait_gone(processes, count, grace_ms);
    if (left == 0)
        return 0;
    say("%zu %s did not end within %d s: killing", left, what, grace_ms / 1000);
    for (size_t i = 0; i < count; i++)
        process_signal(&processes[i], SIGKILL);
    return process_wait_gone(processes, count, KILL_MS);
}

size_t end_processes(const struct process *processes, size_t count, const char *what)
{
    return end_within(processes, count, what, GRACE_MS);
}

/* The runs that use the cluster, except this process. The caller frees the list. */
static size_t find_runs(const char *dir, struct process **ret_runs)
{
    struct process *runs = NULL;
    size_t count = 0;
    DIR *entries = opendir(dir);

    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        struct process run;
        if (strncmp(entry->d_name, "run.", 4) != 0 ||
            process_load(cluster_path(dir, entry->d_name).text, &run) < 0 || run.pid == getpid())
            continue;
        runs = must(realloc(runs, (count + 1) * sizeof(*runs)));
        runs[count++] = run;
    }
    if (entries)
        closedir(entries);
    *ret_runs = runs;
    return count;
}

static size_t end_and_reap(const struct process *processes, size_t count, const char *what)
{
    size_t left = end_processes(processes, count, what);

    for (size_t i = 0; i < count; i++)
        if (processes[i].pid > 0)
            waitpid(processes[i].pid, NULL, WNOHANG); /* reaps our own children */
    return left;
}

size_t cluster_end_owner(const struct cluster *cluster)
{
    if (process_state(&cluster->owner) == PROCESS_GONE)
        return 0;
    return end_within(&cluster->owner, 1, "run(s)", RUN_GRACE_MS);
}

int cluster_down(const struct cluster *cluster)
{
    struct process *processes;
    size_t count = find_runs(cluster->dir, &processes);
    size_t left = end_within(processes, count, "run(s)", RUN_GRACE_MS);

    free(processes);
    processes = must(calloc(cluster->nodes, sizeof(*processes)));
    for (unsigned node = 0; node < cluster->nodes; node++)
        processes[node] = cluster_daemon(cluster, node);
    say_step("stopping %u node%s in %s", cluster->nodes, cluster->nodes == 1 ? "" : "s",
             cluster->dir);
    left += end_and_reap(processes, cluster->nodes, "daemon(s)");
    for (unsigned node = 0; node < cluster->nodes; node++)
        processes[node] = boards_process(cluster, node);
    left += end_and_reap(processes, cluster->nodes, "board(s)");
    free(processes);
    if (left > 0)
        return complain(EBUSY,
                        "%zu process(es) of %s could not be ended; they and the directory remain",
                        left, cluster->dir);
    return cluster_remove(cluster->dir);
}
