#include "tools/tca-cluster/ready.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/tca-cluster/say.h"

int ready_open(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int on = 1;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
    unlink(path);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return complain(error, "cannot make the socket %s: %s", path, strerror(error));
    }
    return fd;
}

/* Receives one message: the sender's pid if it is READY=1, 0 for other messages, -1 if none is
 * pending. */
static pid_t receive(int fd)
{
    char text[4096 + 1];
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(16 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {text, sizeof(text) - 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    struct ucred sender = {0};
    ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);

    if (n < 0)
        return -1;
    text[n] = '\0';
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_CREDENTIALS)
            memcpy(&sender, CMSG_DATA(c), sizeof(sender));
        for (size_t i = 0;
             c->cmsg_type == SCM_RIGHTS && CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
            int passed; /* systemd's protocol allows descriptors; closes them */
            memcpy(&passed, CMSG_DATA(c) + i * sizeof(int), sizeof(passed));
            close(passed);
        }
    }
    bool ready = strncmp(text, "READY=1", 7) == 0 || strstr(text, "\nREADY=1");
    return ready ? sender.pid : 0;
}

pid_t ready_next(int fd)
{
    pid_t pid;

    while ((pid = receive(fd)) == 0)
        ;
    return pid < 0 ? 0 : pid;
}
