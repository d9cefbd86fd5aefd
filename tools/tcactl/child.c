#include "tools/tcactl/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int child_start(struct child *child, char *const *command)
{
    int fds[2];

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
        dup2(fds[1], STDOUT_FILENO);
        dup2(fds[1], STDERR_FILENO);
        execvp(command[0], command);
        _exit(127);
    }
    close(fds[1]);
    child->pid = pid;
    child->pipe = fdopen(fds[0], "r");
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
