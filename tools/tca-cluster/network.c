#include "tools/tca-cluster/network.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = write(fd, text, strlen(text)) < 0 ? -errno : 0;
    close(fd);
    return r;
}

/* Maps the user to itself: daemons and clients identify each other by uid. */
static int map_ids(uid_t uid, gid_t gid)
{
    char text[64];
    int r = write_file("/proc/self/setgroups", "deny");
    if (r < 0)
        return r;
    snprintf(text, sizeof(text), "%u %u 1", uid, uid);
    r = write_file("/proc/self/uid_map", text);
    if (r < 0)
        return r;
    snprintf(text, sizeof(text), "%u %u 1", gid, gid);
    return write_file("/proc/self/gid_map", text);
}

static int loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int r = ioctl(fd, SIOCGIFFLAGS, &request) < 0 ? -errno : 0;
    request.ifr_flags |= IFF_UP;
    if (r == 0 && ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        r = -errno;
    close(fd);
    return r;
}

/* Without privilege, a user namespace provides the permission to make a network namespace. */
static int create_network(void)
{
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    int r = 0;

    if (unshare(CLONE_NEWNET) < 0) {
        if (errno != EPERM)
            return -errno;
        if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
            return -errno;
        r = map_ids(uid, gid);
    }
    return r < 0 ? r : loopback_up();
}

int network_possible(const char **ret_why)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(-create_network());
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
        status = EAGAIN << 8;
    *ret_why = strerror(WEXITSTATUS(status));
    return -WEXITSTATUS(status);
}

/* Joins the network of a process; -ESRCH: the process has ended. */
static int join(const struct process *process)
{
    int fd = process_open(process);
    int r = 0;

    if (fd < 0)
        return fd;
    if (setns(fd, CLONE_NEWNET) < 0)
        r = -errno;
    if (r == -EPERM)
        r = setns(fd, CLONE_NEWUSER | CLONE_NEWNET) < 0 ? -errno : 0;
    close(fd);
    return r;
}

int network_enter(const struct cluster *cluster, bool create)
{
    int r = -ESRCH;

    if (!cluster->private_network)
        return 0;
    for (unsigned node = 0; node < cluster->nodes && r == -ESRCH; node++) {
        struct process process = cluster_daemon(cluster, node);
        r = join(&process);
    }
    return r == -ESRCH && create ? create_network() : r;
}
