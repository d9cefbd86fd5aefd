#include "config/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL: the file is secret. */
static const char *find_fault(const struct stat *st)
{
    uid_t self = geteuid();

    if (!S_ISREG(st->st_mode))
        return "is not a regular file";
    if (st->st_uid != 0 && st->st_uid != self && self != 0)
        return "belongs to another user; make it yours or root's";
    if (st->st_mode & (st->st_uid == 0 ? 0027 : 0077))
        return "is accessible to other users; chmod it to 0600";
    if (st->st_size == 0)
        return "is empty";
    return NULL;
}

int config_secret_open(const char *path, char *why, size_t why_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0) {
        int r = -errno;
        snprintf(why, why_bytes, "cannot be opened: %s", strerror(-r));
        if (fd >= 0)
            close(fd);
        return r;
    }
    const char *fault = find_fault(&st);
    if (fault) {
        snprintf(why, why_bytes, "%s", fault);
        close(fd);
        return -EPERM;
    }
    return fd;
}
