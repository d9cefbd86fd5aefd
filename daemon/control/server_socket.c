#include "daemon/control/server_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOCK_PATH_BYTES = sizeof(((struct server_socket *)0)->path) + sizeof(".lock") };

static void lock_path(const char *socket_path, char ret_path[static LOCK_PATH_BYTES])
{
    snprintf(ret_path, LOCK_PATH_BYTES, "%s.lock", socket_path);
}

static int in_use(const char *path, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes,
             "%s: another tcad listens on it (control.socket): stop it, or give this one "
             "another socket",
             path);
    return -EADDRINUSE;
}

/* Whether the file was removed, by the tcad that held the lock before, after it was opened here. */
static bool is_removed(int fd, const char *path)
{
    struct stat ours, theirs;
    return fstat(fd, &ours) < 0 || lstat(path, &theirs) < 0 || ours.st_ino != theirs.st_ino ||
           ours.st_dev != theirs.st_dev;
}

/* Returns the descriptor that holds the lock until it is closed; the kernel closes it for a tcad
 * that is killed. */
static int take_lock(const char *socket_path, char *text, size_t text_bytes)
{
    char path[LOCK_PATH_BYTES];
    lock_path(socket_path, path);
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (fd < 0) {
            int r = -errno;
            snprintf(text, text_bytes,
                     "%s: %s (control.socket): its directory must exist and be writable, and the "
                     "file belong to the user of tcad",
                     path, strerror(-r));
            return r;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            int r = errno == EWOULDBLOCK ? in_use(socket_path, text, text_bytes) : -errno;
            if (r != -EADDRINUSE)
                snprintf(text, text_bytes, "%s: cannot be locked: %s (control.socket)", path,
                         strerror(-r));
            close(fd);
            return r;
        }
        if (!is_removed(fd, path))
            return fd;
        close(fd);
    }
}

static void give_lock(int fd, const char *socket_path)
{
    char path[LOCK_PATH_BYTES];
    lock_path(socket_path, path);
    if (!is_removed(fd, path))
        unlink(path); /* while it is held */
    close(fd);
}

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
    int r = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN
                ? -EADDRINUSE
                : -errno;
    close(fd);
    if (r == -EADDRINUSE)
        return in_use(address->sun_path, text, text_bytes);
    if (r == -ECONNREFUSED)
        unlink(address->sun_path);
    return 0;
}

/* Binds and listens. Returns the descriptor. */
static int listen_at(const struct sockaddr_un *address, mode_t mode, char *text, size_t text_bytes)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
        chmod(address->sun_path, mode) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int r = -errno;
    snprintf(text, text_bytes, "%s: %s (control.socket): its directory must exist and be writable",
             address->sun_path, strerror(-r));
    if (fd >= 0)
        close(fd);
    return r;
}

int server_socket_make(const struct tcad_conf *conf, struct server_socket *ret_socket, char *text,
                       size_t text_bytes)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", conf->control.socket);
    const int lock_fd = take_lock(address.sun_path, text, text_bytes);
    if (lock_fd < 0)
        return lock_fd;
    int r = clear_remnant(&address, text, text_bytes);
    if (r == 0)
        r = listen_at(&address, conf->control.socket_mode, text, text_bytes);
    if (r < 0) {
        give_lock(lock_fd, address.sun_path);
        return r;
    }
    *ret_socket = (struct server_socket){.lock_fd = lock_fd};
    memcpy(ret_socket->path, address.sun_path, sizeof(ret_socket->path));
    if (lstat(address.sun_path, &status) == 0) {
        ret_socket->device = status.st_dev;
        ret_socket->inode = status.st_ino;
    }
    return r;
}

void server_socket_remove(struct server_socket *made)
{
    struct stat status;
    if (!made->path[0])
        return;
    if (lstat(made->path, &status) == 0 && status.st_dev == made->device &&
        status.st_ino == made->inode)
        unlink(made->path);
    give_lock(made->lock_fd, made->path);
    *made = (struct server_socket){0};
}
