#include "daemon/control/server_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Removes a socket file that nobody listens on. One that accepts connections belongs to another
 * tcad. */
static int clear_remnant(const struct sockaddr_un *address, char *text, size_t text_bytes)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    struct stat status;
    if (lstat(address->sun_path, &status) == 0 && !S_ISSOCK(status.st_mode)) {
        close(fd);
        snprintf(text, text_bytes,
                 "%s exists and is not a socket (control.socket): remove it, or name another",
                 address->sun_path);
        return -EEXIST;
    }
    int r = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN
                ? -EADDRINUSE
                : -errno;
    close(fd);
    if (r == -EADDRINUSE) {
        snprintf(text, text_bytes,
                 "%s: another tcad listens on it (control.socket): stop it, or give this one "
                 "another socket",
                 address->sun_path);
        return r;
    }
    if (r == -ECONNREFUSED)
        unlink(address->sun_path);
    return 0;
}

int server_socket_make(const struct tcad_conf *conf, struct server_socket *ret_socket, char *text,
                       size_t text_bytes)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int r, fd;

    snprintf(address.sun_path, sizeof address.sun_path, "%s", conf->control.socket);
    r = clear_remnant(&address, text, text_bytes);
    if (r < 0)
        return r;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        chmod(address.sun_path, conf->control.socket_mode) < 0 || listen(fd, SOMAXCONN) < 0) {
        r = -errno;
        snprintf(text, text_bytes,
                 "%s: %s (control.socket): its directory must exist and be writable",
                 address.sun_path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return r;
    }
    struct stat status;
    if (lstat(address.sun_path, &status) == 0) {
        memcpy(ret_socket->path, address.sun_path, sizeof ret_socket->path);
        ret_socket->device = status.st_dev;
        ret_socket->inode = status.st_ino;
    }
    return fd;
}

void server_socket_remove(const struct server_socket *made)
{
    struct stat status;
    if (made->path[0] && lstat(made->path, &status) == 0 && status.st_dev == made->device &&
        status.st_ino == made->inode)
        unlink(made->path);
}
