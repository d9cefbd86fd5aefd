/* The file of a user's wisdom: a header and the entries, in the byte order of the machine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/core/environment.h"
#include "client/core/error.h"
#include "client/core/wisdom.h"
#include "proto/siphash.h"

enum {
    MAGIC = 0x57414354, /* "TCAW" */
    VERSION = 3,
    LOCK_TRIES = 20, /* a millisecond apart: a stopped writer does not hold others up */
};

struct header {
    uint32_t magic;
    uint32_t version;
    uint32_t count;
    uint32_t reserved;
    uint64_t sum[2]; /* of the entries */
};

static void sum_entries(const struct wisdom *wisdom, uint64_t ret_sum[2])
{
    siphash_128((uint64_t[]){MAGIC, VERSION}, wisdom->entries,
                wisdom->count * sizeof(wisdom->entries[0]), ret_sum);
}

/* ---- where it is ---- */

static int join(char path[WISDOM_PATH_BYTES], const char *base, const char *rest)
{
    int length = snprintf(path, WISDOM_PATH_BYTES, "%s%s", base, rest);
    return length < WISDOM_PATH_BYTES ? 0 : -ENAMETOOLONG;
}

int wisdom_path(char path[WISDOM_PATH_BYTES])
{
    const char *text = variable_text(VARIABLE_WISDOM), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (text && strcmp(text, "none") == 0)
        return -ENOENT;
    if (text && text[0] != '/')
        return error_set(-EINVAL, "TCA_WISDOM is \"%s\": it must be an absolute path, or none",
                         text);
    int r = -ENOENT;
    if (text)
        r = join(path, text, "");
    else if (cache && cache[0] == '/')
        r = join(path, cache, "/tca/wisdom");
    else if (home && home[0] == '/')
        r = join(path, home, "/.cache/tca/wisdom");
    return r == -ENAMETOOLONG ? error_set(r, "the path of the wisdom file is too long") : r;
}

/* ---- reading ---- */

static bool is_sound_rail(const struct wisdom_entry *entry)
{
    const size_t length = strnlen(entry->rail, sizeof(entry->rail));
    for (size_t i = 0; i < length; i++)
        if (entry->rail[i] <= ' ' || entry->rail[i] > '~')
            return false;
    return length > 0 && length < sizeof(entry->rail) && entry->method == COPY_NONE &&
           entry->stream == 0 && entry->piece_bytes == 0 && entry->seat < SEAT_COUNT;
}

static bool is_sound_mode(const struct wisdom_entry *entry)
{
    return entry->method > COPY_NONE && entry->method < COPY_COUNT && entry->stream <= 1 &&
           entry->piece_bytes <= LANE_SLOT_BYTES && entry->bytes > 0 && entry->rail[0] == '\0' &&
           entry->seat == SEAT_NONE;
}

static bool is_sound(const struct wisdom_entry *entry)
{
    return entry->distance < WISDOM_DISTANCES && entry->ns >= 0 && /* false for NaN */
           (is_sound_rail(entry) || is_sound_mode(entry));
}

static int read_all(int fd, void *data, size_t bytes)
{
    ssize_t got = pread(fd, data, bytes, 0);
    return got < 0 ? -errno : got == (ssize_t)bytes ? 0 : -EINVAL;
}

static int read_entries(int fd, off_t file_bytes, struct wisdom *wisdom)
{
    struct {
        struct header header;
        struct wisdom_entry entries[WISDOM_ENTRIES_MAX];
    } * file;
    const size_t bytes = (size_t)file_bytes;
    uint64_t sum[2];
    if (bytes < sizeof(struct header) || bytes > sizeof(*file))
        return -EINVAL;
    file = malloc(sizeof(*file));
    if (!file)
        return -ENOMEM;
    int r = read_all(fd, file, bytes);
    if (r == 0 && (file->header.magic != MAGIC || file->header.version != VERSION ||
                   file->header.reserved != 0 || file->header.count > WISDOM_ENTRIES_MAX ||
                   bytes != sizeof(file->header) + file->header.count * sizeof(file->entries[0])))
        r = -EINVAL;
    if (r == 0) {
        wisdom->count = file->header.count;
        memcpy(wisdom->entries, file->entries, wisdom->count * sizeof(wisdom->entries[0]));
        sum_entries(wisdom, sum);
        if (memcmp(sum, file->header.sum, sizeof(sum)) != 0)
            r = -EINVAL;
    }
    for (uint32_t i = 0; r == 0 && i < wisdom->count; i++) {
        r = is_sound(&wisdom->entries[i]) ? 0 : -EINVAL;
        wisdom_describe(wisdom, &wisdom->entries[i]);
    }
    free(file);
    return r;
}

/* Opens it if only this user can have written it. */
static int open_own(const char *path, struct stat *ret_status, const char **ret_why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        *ret_why = errno == ELOOP ? "it is a symbolic link" : strerrordesc_np(errno);
        return errno == ELOOP ? -EPERM : -errno;
    }
    *ret_why = NULL;
    if (fstat(fd, ret_status) < 0 || !S_ISREG(ret_status->st_mode))
        *ret_why = "it is not a regular file";
    else if (ret_status->st_uid != geteuid())
        *ret_why = "it belongs to another user";
    else if (ret_status->st_mode & (S_IWGRP | S_IWOTH))
        *ret_why = "others may write to it: chmod go-w";
    if (!*ret_why)
        return fd;
    close(fd);
    return -EPERM;
}

int wisdom_read(const char *path, struct wisdom *wisdom, const char **ret_why)
{
    struct stat status;
    int fd = open_own(path, &status, ret_why);
    wisdom->count = 0;
    wisdom->added = 0;
    memset(wisdom->described, 0, sizeof(wisdom->described));
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    int r = read_entries(fd, status.st_size, wisdom);
    close(fd);
    if (r < 0) {
        wisdom->count = 0;
        *ret_why = r == -EINVAL ? "it is damaged, or of another version" : strerrordesc_np(-r);
    }
    return r;
}

/* ---- writing ---- */

/* From a path to its directory. */
static void cut(char *path)
{
    char *end = strrchr(path, '/');
    end[end == path] = '\0';
}

/* Makes it, and its parent, which is ~/.cache, if need be. */
static int open_directory(const char *path)
{
    char directory[WISDOM_PATH_BYTES], parent[WISDOM_PATH_BYTES];
    snprintf(directory, sizeof(directory), "%s", path);
    cut(directory);
    memcpy(parent, directory, sizeof(parent));
    cut(parent);
    mkdir(parent, 0700);
    mkdir(directory, 0700);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int lock(int fd)
{
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            return -errno;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return -EBUSY;
}

static int write_all(int fd, const struct wisdom *wisdom)
{
    struct header header = {.magic = MAGIC, .version = VERSION, .count = wisdom->count};
    const size_t bytes = wisdom->count * sizeof(wisdom->entries[0]);
    sum_entries(wisdom, header.sum);
    if (write(fd, &header, sizeof(header)) != (ssize_t)sizeof(header) ||
        write(fd, wisdom->entries, bytes) != (ssize_t)bytes)
        return -EIO;
    return fsync(fd) < 0 ? -errno : 0;
}

/* A crash leaves the old file or the new one. Nobody else writes the temporary file, as the
 * directory is locked; what a crash has left of it goes first. */
static int replace(const char *path, const struct wisdom *wisdom)
{
    char temporary[WISDOM_PATH_BYTES + 8];
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = write_all(fd, wisdom);
    close(fd);
    if (r == 0 && rename(temporary, path) < 0)
        r = -errno;
    if (r < 0)
        unlink(temporary);
    return r;
}

/* With what other processes have added since. */
static int merge(const char *path, const struct wisdom *wisdom, double load)
{
    const char *why;
    struct wisdom *all = malloc(sizeof(*all));
    if (!all)
        return -ENOMEM;
    int r = wisdom_read(path, all, &why);
    if (r == 0 || r == -EINVAL) { /* a damaged file is replaced, another user's is not */
        for (uint32_t i = wisdom->count - wisdom->added; i < wisdom->count; i++) {
            struct wisdom_entry entry = wisdom->entries[i];
            entry.load_tenths = (uint8_t)(load < 25 ? 10 * load : 250);
            wisdom_add(all, &entry);
        }
        r = replace(path, all);
    }
    free(all);
    return r;
}

int wisdom_write(const char *path, struct wisdom *wisdom, double load)
{
    if (wisdom->added == 0)
        return 0;
    int directory = open_directory(path);
    if (directory < 0)
        return directory;
    int r = lock(directory);
    if (r == 0)
        r = merge(path, wisdom, load);
    close(directory); /* and unlocks it */
    if (r == 0)
        wisdom->added = 0;
    return r;
}
