#include "daemon/sessions/process.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The last id of a line "NSpid:\t17\t4": the process's id in its own namespace. 0: none. */
static uint32_t last_id(const char *line)
{
    const char *at = strrchr(line, '\t');
    return at ? (uint32_t)strtoul(at + 1, NULL, 10) : 0;
}

static int read_own_pid(pid_t pid, uint32_t *ret_own_pid)
{
    char path[32], line[512];
    int r = -ENOENT;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return -errno;
    while (r < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, "NSpid:", 6) == 0) {
            *ret_own_pid = last_id(line);
            r = 0;
        }
    fclose(file);
    return r;
}

/* Whether /proc shows the PID namespace of this daemon, to which ids of sockets refer. */
static bool proc_is_ours(void)
{
    char self[16];
    ssize_t length = readlink("/proc/self", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    return strtol(self, NULL, 10) == getpid();
}

int process_check(pid_t pid, uint32_t own_pid, uint64_t pid_namespace)
{
    char path[32];
    struct stat namespace;
    uint32_t id = 0;
    if (pid == 0 || !proc_is_ours())
        return -ENOENT;
    int r = read_own_pid(pid, &id);
    if (r < 0)
        return r;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
    if (id == own_pid && stat(path, &namespace) < 0)
        return -errno;
    return id == own_pid && namespace.st_ino == pid_namespace ? 0 : -ESRCH;
}
