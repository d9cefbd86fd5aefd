#include "tools/tca-cluster/job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/must.h"
#include "tools/tca-cluster/boards.h"
#include "tools/tca-cluster/say.h"
#include "tools/tca-cluster/signals.h"
#include "tools/tca-cluster/tag.h"

enum { GRACE_MS = 3000 }; /* between SIGTERM and SIGKILL */

struct running {
    const struct job *job;
    pid_t *pids; /* 0: ended. Each leads its own process group */
    struct tag (*tags)[2];
    size_t left;
    int code; /* of the first failure; 0: none so far */
    bool ending;
    int64_t kill_ms; /* when ending: SIGKILL from then on */
};

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int job_check_program(const char *program)
{
    const char *path = getenv("PATH");
    char name[PATH_MAX];

    if (strchr(program, '/'))
        return is_program(program) ? 0 : complain(ENOENT, "program %s not found", program);
    for (const char *p = path ? path : ""; *p; p += strspn(p, ":")) {
        size_t n = strcspn(p, ":");
        snprintf(name, sizeof(name), "%.*s/%s", (int)n, p, program);
        if (is_program(name))
            return 0;
        p += n;
    }
    return complain(ENOENT, "program %s not found in PATH", program);
}

static _Noreturn void become(const struct job *job, size_t rank, const int outputs[2], pid_t parent)
{
    const struct job_process *process = &job->processes[rank];

    signals_reset();
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, job->name ? SIGTERM : SIGKILL); /* mpirun ends its ranks itself */
    if (getppid() != parent)
        _exit(1);
    /* Rank 0 reads a file or pipe; the terminal belongs to our process group. */
    if (rank > 0 || isatty(STDIN_FILENO)) {
        int in = open("/dev/null", O_RDONLY);
        if (in >= 0)
            dup2(in, STDIN_FILENO);
    }
    if (job->tag && (dup2(outputs[0], STDOUT_FILENO) < 0 || dup2(outputs[1], STDERR_FILENO) < 0))
        _exit(1);
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    for (char **e = process->environment; *e; e++)
        putenv(*e);
    if (process->cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)process->cpu, &set);
        sched_setaffinity(0, sizeof(set), &set);
    }
    execvp(job->command[0], job->command);
    fprintf(stderr, "tca-cluster: cannot execute %s: %s\n", job->command[0], strerror(errno));
    _exit(126);
}

static int start_one(struct running *running, size_t rank)
{
    int outputs[2][2] = {{-1, -1}, {-1, -1}};
    pid_t parent = getpid(), pid = -1;
    const struct job *job = running->job;

    if (!job->tag || (pipe2(outputs[0], O_CLOEXEC) == 0 && pipe2(outputs[1], O_CLOEXEC) == 0))
        pid = fork();
    if (pid == 0)
        become(job, rank, (int[]){outputs[0][1], outputs[1][1]}, parent);
    int error = errno;
    for (int i = 0; i < 2 && job->tag; i++) {
        if (outputs[i][1] >= 0)
            close(outputs[i][1]);
        if (pid > 0)
            tag_init(&running->tags[rank][i], outputs[i][0], i == 0 ? stdout : stderr, rank);
        else if (outputs[i][0] >= 0)
            close(outputs[i][0]);
    }
    if (pid < 0)
        return complain(error, "cannot start rank %zu: %s", rank, strerror(error));
    setpgid(pid, pid); /* in parent and child, whichever runs first */
    running->pids[rank] = pid;
    running->left++;
    return 0;
}

static void signal_all(const struct running *running, int number)
{
    for (size_t rank = 0; rank < running->job->count; rank++)
        if (running->pids[rank] > 0)
            kill(-running->pids[rank], number);
}

/* Ends the remaining processes: SIGTERM now, SIGKILL later. */
static void begin_end(struct running *running, int number)
{
    signal_all(running, SIGCONT); /* stopped processes do not see signals */
    signal_all(running, number);
    if (!running->ending)
        running->kill_ms = now_ms() + GRACE_MS;
    running->ending = true;
}

static void complain_of(const struct running *running, size_t rank, int status)
{
    const char *then = running->left ? ": ending the others" : "";
    char name[64];

    if (running->job->name)
        snprintf(name, sizeof(name), "%s", running->job->name);
    else
        snprintf(name, sizeof(name), "rank %zu on node%u", rank,
                 running->job->processes[rank].node);
    if (WIFEXITED(status))
        complain(ECHILD, "%s failed with exit code %d%s", name, WEXITSTATUS(status), then);
    else
        complain(ECHILD, "%s was ended by signal %d (%s)%s", name, WTERMSIG(status),
                 strsignal(WTERMSIG(status)), then);
}

static void ended(struct running *running, size_t rank, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

    running->pids[rank] = 0;
    running->left--;
    if (running->job->tag)
        for (int i = 0; i < 2; i++)
            tag_finish(&running->tags[rank][i]);
    if (code == 0 || running->code != 0)
        return;
    running->code = code;
    if (running->ending)
        return; /* by our signal */
    complain_of(running, rank, status);
    begin_end(running, SIGTERM);
}

/* A child that is not a rank: a daemon or a board of a cluster that is up for this run only. */
static void other_ended(struct running *running, pid_t pid, int status)
{
    for (unsigned node = 0; node < running->job->cluster->nodes; node++) {
        bool daemon = cluster_daemon(running->job->cluster, node).pid == pid;
        if (daemon || boards_process(running->job->cluster, node).pid == pid)
            complain(ECHILD, "the %s of node%u has ended (%s %d)", daemon ? "tcad" : "board", node,
                     WIFEXITED(status) ? "exit code" : "signal",
                     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
}

static void reap(struct running *running)
{
    siginfo_t info = {0};

    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0) {
        size_t rank = 0;
        int status;
        while (rank < running->job->count && running->pids[rank] != info.si_pid)
            rank++;
        /* The group's id is not reused before its leader is reaped: kills processes that the leader
         * has left behind. */
        if (rank < running->job->count)
            kill(-info.si_pid, SIGKILL);
        waitpid(info.si_pid, &status, 0);
        if (rank < running->job->count)
            ended(running, rank, status);
        else
            other_ended(running, info.si_pid, status);
        info = (siginfo_t){0};
    }
}

static void handle_signals(struct running *running)
{
    for (int number; (number = signals_next());) {
        if (number == SIGCHLD)
            continue;
        if (running->ending && number == SIGINT)
            signal_all(running, SIGKILL); /* the second Ctrl-C */
        else
            begin_end(running, number);
    }
    reap(running);
}

static void wait_for_something(struct running *running, struct pollfd *fds)
{
    size_t count = 1;
    int timeout_ms = -1;

    fds[0] = (struct pollfd){.fd = signals_open(), .events = POLLIN};
    for (size_t i = 0; running->job->tag && i < 2 * running->job->count; i++)
        if (running->pids[i / 2] > 0 && running->tags[i / 2][i % 2].fd >= 0)
            fds[count++] = (struct pollfd){.fd = running->tags[i / 2][i % 2].fd, .events = POLLIN};
    if (running->ending) {
        int64_t left_ms = running->kill_ms - now_ms();
        timeout_ms = left_ms > 0 ? (int)left_ms : 100;
        if (left_ms <= 0)
            signal_all(running, SIGKILL);
    }
    poll(fds, count, timeout_ms);
}

int job_run(const struct job *job)
{
    struct running running = {.job = job,
                              .pids = must(calloc(job->count, sizeof(pid_t))),
                              .tags = must(calloc(job->count, sizeof(*running.tags)))};
    struct pollfd *fds = must(calloc(2 * job->count + 1, sizeof(*fds)));

    signals_open();
    fflush(NULL);
    for (size_t rank = 0; rank < job->count && !running.ending; rank++)
        if (start_one(&running, rank) < 0) {
            running.code = 1;
            begin_end(&running, SIGTERM);
        }
    while (running.left > 0) {
        wait_for_something(&running, fds);
        for (size_t rank = 0; job->tag && rank < job->count; rank++)
            for (int i = 0; i < 2 && running.pids[rank] > 0; i++)
                tag_pump(&running.tags[rank][i]);
        handle_signals(&running);
    }
    free(fds);
    free(running.tags);
    free(running.pids);
    return running.code;
}
