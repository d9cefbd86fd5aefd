#include "client/core/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "client/core/clock.h"
#include "client/core/environment.h"
#include "client/core/error.h"

static const char system_socket[] = "/run/tcad/tcad.sock";

__attribute__((format(printf, 3, 4))) static int print_path(char *ret_path, size_t path_bytes,
                                                            const char *format, ...)
{
    char path[SOCKET_PATH_BYTES + 1];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, sizeof(path), format, arguments);
    va_end(arguments);
    if (length < 0 || length >= SOCKET_PATH_BYTES || (size_t)length >= path_bytes)
        return error_set(
            -ENAMETOOLONG,
            "socket path \"%s...\" has %d bytes, the limit is %zu: use a shorter directory", path,
            length, path_bytes < SOCKET_PATH_BYTES ? path_bytes - 1 : SOCKET_PATH_BYTES - 1);
    memcpy(ret_path, path, (size_t)length + 1);
    return 0;
}

/* $XDG_RUNTIME_DIR, or NULL. */
static const char *runtime_base(void)
{
    const char *directory = getenv("XDG_RUNTIME_DIR");
    return directory && directory[0] == '/' ? directory : NULL;
}

static int emulated_path(uint64_t node, char *ret_path, size_t path_bytes)
{
    const char *cluster = variable_text(VARIABLE_CLUSTER_DIR);
    const char *base = runtime_base();
    if (cluster)
        return print_path(ret_path, path_bytes, "%s/node%u/tcad.sock", cluster, (unsigned)node);
    if (base)
        return print_path(ret_path, path_bytes, "%s/tca-cluster/node%u/tcad.sock", base,
                          (unsigned)node);
    return print_path(ret_path, path_bytes, "/tmp/tca-cluster-%u/node%u/tcad.sock",
                      (unsigned)getuid(), (unsigned)node);
}

/* Whether the path is a socket of this user: in /tmp others could have created one. */
static bool is_own_socket(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_uid == getuid();
}

/* Whether the path is a directory of this user that others cannot write to: in /tmp others could
 * have created it, or a link. */
static bool is_own_directory(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == getuid() &&
           !(status.st_mode & (S_IWGRP | S_IWOTH));
}

static bool find_user_socket(char path[SOCKET_PATH_BYTES])
{
    const char *base = runtime_base();
    int length = base ? snprintf(path, SOCKET_PATH_BYTES, "%s/tcad/tcad.sock", base) : -1;
    if (length > 0 && length < SOCKET_PATH_BYTES && is_own_socket(path))
        return true;
    snprintf(path, SOCKET_PATH_BYTES, "/tmp/tcad-%u", (unsigned)getuid());
    if (!is_own_directory(path))
        return false;
    strcat(path, "/tcad.sock");
    return is_own_socket(path);
}

int tca_socket_path(const char *socket, char *ret_path, size_t path_bytes, const char **ret_why)
{
    char user_path[SOCKET_PATH_BYTES];
    const char *why;
    uint64_t node;
    int r;

    if (socket && socket[0]) {
        why = "argument";
        r = print_path(ret_path, path_bytes, "%s", socket);
    } else if (variable_text(VARIABLE_SOCKET)) {
        why = "TCA_SOCKET";
        r = print_path(ret_path, path_bytes, "%s", variable_text(VARIABLE_SOCKET));
    } else if ((r = variable_number(VARIABLE_NODE, 0, UINT32_MAX, &node)) != 0) {
        why = "TCA_NODE";
        if (r > 0)
            r = emulated_path(node, ret_path, path_bytes);
    } else if (find_user_socket(user_path)) {
        why = "user";
        r = print_path(ret_path, path_bytes, "%s", user_path);
    } else {
        why = "system";
        r = print_path(ret_path, path_bytes, "%s", system_socket);
    }
    if (r < 0)
        return r;
    if (ret_why)
        *ret_why = why;
    return 0;
}

/* Whether neither argument nor environment names a tcad, and emulated nodes are up: the user most
 * likely wants one of these. */
static bool nodes_are_meant(const char *why)
{
    char emulated[SOCKET_PATH_BYTES];
    return (strcmp(why, "user") == 0 || strcmp(why, "system") == 0) &&
           emulated_path(0, emulated, sizeof(emulated)) == 0 && is_own_socket(emulated);
}

/* tca-cluster run sets both variables. */
static bool is_of_node(const char *path)
{
    char emulated[SOCKET_PATH_BYTES];
    uint64_t node;
    return variable_number(VARIABLE_NODE, 0, UINT32_MAX, &node) > 0 &&
           emulated_path(node, emulated, sizeof(emulated)) == 0 && strcmp(path, emulated) == 0;
}

/* The remedy if no tcad answers. Other nodes of the emulated cluster may be up. */
static const char *remedy(const char *path, const char *why)
{
    char emulated[SOCKET_PATH_BYTES];
    const bool first = emulated_path(0, emulated, sizeof(emulated)) == 0 && is_own_socket(emulated);
    if (is_of_node(path))
        return first ? "the emulated cluster is up, but this node is not: tca-cluster status lists "
                       "its nodes, tca-cluster restart restarts one"
                     : "no emulated cluster is up there: start one with tca-cluster up, or set "
                       "TCA_CLUSTER_DIR";
    if (first && nodes_are_meant(why))
        return "emulated nodes are up: set TCA_NODE=0 (tcactl -N 0), or start the program with "
               "tca-cluster run (an MPI program with tca-cluster mpirun)";
    return "start one with systemctl start tcad.socket, tcad or tca-cluster up, or set TCA_SOCKET";
}

static int explain(int error, const char *path, const char *why)
{
    switch (error) {
    case ENOENT:
    case ECONNREFUSED:
    case ENOTDIR:
        return error_set(-ECONNREFUSED, "no tcad answers at %s (%s): %s", path, why,
                         remedy(path, why));
    case EACCES:
    case EPERM:
        return error_set(-EACCES,
                         "user %u may not connect to %s (%s): its owner or group must permit it",
                         (unsigned)getuid(), path, why);
    case EAGAIN:
        return error_set(
            -ETIMEDOUT,
            "the tcad at %s (%s) does not accept connections: it is stopped or overloaded", path,
            why);
    case EPROTOTYPE:
        return error_set(-ECONNREFUSED, "%s (%s) is not a tcad's socket", path, why);
    default:
        return error_set(-error, "cannot connect to %s (%s): %s", path, why,
                         strerrordesc_np(error));
    }
}

/* At a conventional path, refuses a daemon of another user (except root): it would get our data. */
static int check_owner(int fd, const char *path, const char *why)
{
    struct ucred daemon;
    socklen_t length = sizeof(daemon);
    if (strcmp(why, "user") != 0 && strcmp(why, "TCA_NODE") != 0)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &daemon, &length) < 0)
        return error_set(-errno, "cannot determine the user of the tcad at %s", path);
    if (daemon.uid != 0 && daemon.uid != getuid())
        return error_set(-EACCES,
                         "the tcad at %s (%s) is run by user %u, not by you (%u): if you trust it, "
                         "set TCA_SOCKET",
                         path, why, (unsigned)daemon.uid, (unsigned)getuid());
    return 0;
}

int socket_connect(const char *socket_path, uint64_t end_ns, int *ret_fd,
                   char ret_path[SOCKET_PATH_BYTES])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[SOCKET_PATH_BYTES];
    const char *why;
    int r = tca_socket_path(socket_path, path, sizeof(path), &why);
    if (r < 0)
        return r;
    memcpy(address.sun_path, path, sizeof(path));

    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_set(-errno, "cannot make a socket: %s", strerrordesc_np(errno));
    /* Limits the time that connect() blocks on a full backlog; 0 means no limit. */
    uint64_t left_ns = end_ns == END_NEVER ? 0 : clock_left(end_ns) + 1000;
    struct timeval timeout = {.tv_sec = (time_t)(left_ns / 1000000000),
                              .tv_usec = (suseconds_t)(left_ns % 1000000000 / 1000)};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    do
        r = connect(fd, (struct sockaddr *)&address, sizeof(address));
    while (r < 0 && errno == EINTR);
    r = r < 0 ? explain(errno, path, why) : check_owner(fd, path, why);
    if (r == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        r = error_set(-errno, "cannot prepare the socket %s", path);
    if (r < 0) {
        close(fd);
        return r;
    }
    memcpy(ret_path, path, sizeof(path));
    *ret_fd = fd;
    return 0;
}
