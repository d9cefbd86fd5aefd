/*
 * Hydra does not publish a job name. But the peer of each rank's PMI_FD is a proxy, and every proxy
 * of a job, on every node, has the host and port of its mpiexec among its arguments; they are
 * unique while the job runs.
 */
#include "client/core/hydra.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

pid_t hydra_proxy(void)
{
    const char *text = getenv("PMI_FD");
    struct ucred proxy;
    socklen_t length = sizeof(proxy);
    if (!text || !text[0] || getsockopt(atoi(text), SOL_SOCKET, SO_PEERCRED, &proxy, &length) < 0)
        return 0;
    return proxy.pid;
}

/* Reads the process's arguments, each terminated by NUL. Returns the bytes read; 0: not
 * readable. */
static size_t read_arguments(pid_t pid, char *ret_text, size_t text_bytes)
{
    char path[64];
    size_t bytes = 0;
    ssize_t n;
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    while ((n = read(fd, ret_text + bytes, text_bytes - 1 - bytes)) > 0)
        bytes += (size_t)n;
    close(fd);
    ret_text[bytes] = '\0';
    return bytes;
}

static bool control_port(pid_t pid, char ret_name[NAME_MAX_BYTES])
{
    static const char option[] = "--control-port";
    char text[4096];
    size_t bytes = read_arguments(pid, text, sizeof(text));
    for (const char *at = text; at < text + bytes; at += strlen(at) + 1) {
        if (strcmp(at, option) != 0)
            continue;
        const char *port = at + sizeof(option);
        if (port >= text + bytes || strchr(port, '@') || !strchr(port, ':'))
            return false;
        return snprintf(ret_name, NAME_MAX_BYTES, "pmi-%s", port) < NAME_MAX_BYTES;
    }
    return false;
}

void hydra_job_name(const char *size, char ret_name[NAME_MAX_BYTES])
{
    const char *local = getenv("MPI_LOCALNRANKS");
    pid_t proxy = hydra_proxy();
    if (proxy > 0 && control_port(proxy, ret_name))
        return;
    if (proxy > 0 && local && strcmp(local, size) == 0) /* all ranks share this proxy */
        snprintf(ret_name, NAME_MAX_BYTES, "pmi-%d", (int)proxy);
    else
        snprintf(ret_name, NAME_MAX_BYTES, "pmi");
}
