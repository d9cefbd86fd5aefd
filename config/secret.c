#include "config/secret.h"

#include <ctype.h>
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

/* Reads the whole file: a prefix would be a different key. */
static int read_content(int fd, unsigned char *ret_content, size_t room, size_t *ret_bytes)
{
    size_t bytes = 0;

    while (bytes < room) {
        ssize_t n = read(fd, ret_content + bytes, room - bytes);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            bytes += (size_t)n;
    }
    *ret_bytes = bytes;
    return 0;
}

static void trim(const unsigned char **key, size_t *bytes)
{
    while (*bytes > 0 && isspace((*key)[*bytes - 1]))
        --*bytes;
    while (*bytes > 0 && isspace(**key)) {
        ++*key;
        --*bytes;
    }
}

int config_secret_read(const char *path, unsigned char ret_key[SECRET_MAX_BYTES], size_t *ret_bytes,
                       char *why, size_t why_bytes)
{
    unsigned char content[SECRET_MAX_BYTES + 128]; /* with room for white space */
    const unsigned char *key = content;
    size_t bytes = 0;
    int fd = config_secret_open(path, why, why_bytes);

    if (fd < 0)
        return fd;
    int r = read_content(fd, content, sizeof(content), &bytes);
    close(fd);
    if (r < 0)
        snprintf(why, why_bytes, "cannot be read: %s", strerror(-r));
    trim(&key, &bytes);
    if (r == 0 && (bytes < SECRET_MIN_BYTES || bytes > SECRET_MAX_BYTES)) {
        snprintf(
            why, why_bytes,
            "holds a key of %s%zu bytes; it must have %d to %d (make one: openssl rand -hex 32)",
            bytes > SECRET_MAX_BYTES ? "at least " : "", bytes, SECRET_MIN_BYTES, SECRET_MAX_BYTES);
        r = -EINVAL;
    }
    if (r == 0) {
        memcpy(ret_key, key, bytes);
        *ret_bytes = bytes;
    }
    explicit_bzero(content, sizeof(content));
    return r;
}
