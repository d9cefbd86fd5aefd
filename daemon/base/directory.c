#include "daemon/base/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* Creates a directory with its parents. */
static int make_path(const char *path, mode_t mode)
{
    char part[PATH_BYTES];
    snprintf(part, sizeof(part), "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return mkdir(part, mode) < 0 && errno != EEXIST ? -errno : 0;
}

/* Opens the directory. -ELOOP: the path is a symbolic link of another user. */
static int open_directory(const char *path)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    struct stat link;
    int fd = open(path, flags | O_NOFOLLOW);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR) && lstat(path, &link) == 0 &&
        S_ISLNK(link.st_mode)) {
        if (link.st_uid != geteuid() && link.st_uid != 0)
            return -ELOOP;
        fd = open(path, flags);
    }
    return fd < 0 ? -errno : fd;
}

static int check(int fd, const char *path, const char *key, char *text, size_t text_bytes)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (status.st_uid != geteuid() && geteuid() != 0) {
        snprintf(text, text_bytes,
                 "%s: it belongs to user %u, but tcad runs as user %u (%s): set another directory",
                 path, status.st_uid, geteuid(), key);
        return -EACCES;
    }
    if (status.st_mode & (S_IWGRP | S_IWOTH)) {
        snprintf(text, text_bytes,
                 "%s: other users can write there (%s, mode %04o): chmod go-w it, or set another "
                 "directory",
                 path, key, status.st_mode & 07777);
        return -EACCES;
    }
    if (faccessat(fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0) {
        int r = -errno;
        snprintf(text, text_bytes, "%s: %s (%s): user %u must be able to write there", path,
                 strerror(-r), key, geteuid());
        return r;
    }
    return 0;
}

int directory_make(const char *path, mode_t mode, const char *key, char *text, size_t text_bytes)
{
    char plain[PATH_BYTES]; /* without trailing slashes, which would follow a link */
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    int r = snprintf(plain, sizeof(plain), "%.*s", (int)length, path) < (int)sizeof(plain)
                ? make_path(plain, mode)
                : -ENAMETOOLONG;
    int fd = r < 0 ? r : open_directory(plain);
    if (fd == -ELOOP)
        snprintf(text, text_bytes,
                 "%s: this is another user's symbolic link (%s): set another directory", path, key);
    else if (fd < 0)
        snprintf(text, text_bytes, "%s: %s (%s): create it, or set one that this user can write",
                 path, strerror(-fd), key);
    if (fd < 0)
        return fd;
    r = check(fd, path, key, text, text_bytes);
    close(fd);
    return r;
}
