#include "tools/tcactl/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

int child_start(struct child *child, const char *direction, char *const *command)
{
    int fds[2];
    bool writes = direction[0] == 'w';

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid < 0) {
        int error = -errno;
        close(fds[0]);
        close(fds[1]);
        return error;
    }
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        if (writes) {
            dup2(fds[0], STDIN_FILENO);
        } else {
            dup2(fds[1], STDOUT_FILENO);
            dup2(fds[1], STDERR_FILENO);
        }
        execvp(command[0], command);
        _exit(127);
    }
    close(fds[writes ? 0 : 1]);
    child->pid = pid;
    child->pipe = fdopen(fds[writes ? 1 : 0], direction);
    return child->pipe ? 0 : -ENOMEM;
}

int child_wait(struct child *child)
{
    int status;

    fclose(child->pipe);
    while (waitpid(child->pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
