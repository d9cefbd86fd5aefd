#include "tools/tca-cluster/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

/* State letter and start time; 0 or -ESRCH. */
static int read_stat(pid_t pid, char *ret_state, unsigned long long *ret_start)
{
    char path[64], text[1024];
    int n = -1;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = (int)read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    if (n <= 0)
        return -ESRCH;
    text[n] = '\0';
    /* The name, field 2, may contain any character: parses after its closing parenthesis. The start
     * time is field 22. */
    const char *after = strrchr(text, ')');
    if (!after ||
        sscanf(after,
               ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               ret_state, ret_start) != 2)
        return -ESRCH;
    return 0;
}

int process_find(pid_t pid, struct process *ret_process)
{
    struct process process = {.pid = pid};
    char state;
    int r = read_stat(pid, &state, &process.start);

    if (r == 0)
        *ret_process = process;
    return r;
}

enum process_state process_state(const struct process *process)
{
    unsigned long long start;
    char state;

    if (process->pid <= 0 || read_stat(process->pid, &state, &start) < 0 ||
        start != process->start || state == 'Z' || state == 'X')
        return PROCESS_GONE;
    return state == 'T' || state == 't' ? PROCESS_STOPPED : PROCESS_RUNNING;
}

int process_open(const struct process *process)
{
    /* Opens before checking, because the descriptor stays bound to this process. */
    int fd = process->pid > 0 ? pidfd_open(process->pid, 0) : -1;

    if (fd >= 0 && process_state(process) == PROCESS_GONE) {
        close(fd);
        fd = -1;
    }
    return fd < 0 ? -ESRCH : fd;
}

int process_signal(const struct process *process, int number)
{
    int fd = process_open(process);

    if (fd < 0)
        return fd;
    int r = pidfd_send_signal(fd, number, NULL, 0) < 0 ? -errno : 0;
    close(fd);
    return r;
}

size_t process_wait_gone(const struct process *processes, size_t count, int timeout_ms)
{
    struct timespec nap = {.tv_nsec = 10 * 1000000};
    size_t left = count;

    for (int waited_ms = 0;; waited_ms += 10) {
        left = 0;
        for (size_t i = 0; i < count; i++)
            left += process_state(&processes[i]) != PROCESS_GONE;
        if (left == 0 || waited_ms >= timeout_ms)
            return left;
        nanosleep(&nap, NULL);
    }
}

int process_save(const struct process *process, const char *path)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "%d %llu\n", (int)process->pid, process->start);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -errno;
    int r = write(fd, text, (size_t)n) == n ? 0 : -EIO;
    close(fd);
    return r;
}

int process_load(const char *path, struct process *ret_process)
{
    struct process process;
    FILE *from = fopen(path, "re");

    if (!from)
        return -errno;
    int n = fscanf(from, "%d %llu", &process.pid, &process.start);
    fclose(from);
    if (n != 2 || process.pid <= 1)
        return -EINVAL;
    *ret_process = process;
    return 0;
}
