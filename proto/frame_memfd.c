#include "proto/frame_memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/frame.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

int memfd_new(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

int memfd_write(int fd, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        ssize_t n = write(fd, from, bytes);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        from += n;
        bytes -= (size_t)n;
    }
    return 0;
}

int memfd_seal(int fd)
{
    return fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0 ? -errno : 0;
}

int frame_memfd(const char *name, const void *data, size_t bytes)
{
    int fd = memfd_new(name);
    if (fd < 0)
        return fd;
    int r = memfd_write(fd, data, bytes);
    if (r == 0)
        r = memfd_seal(fd);
    if (r < 0) {
        close(fd);
        return r;
    }
    return fd;
}

static int check(int fd, size_t bytes)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return -EPROTO;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes ? 0 : -EPROTO;
}

int memfd_map(int fd, size_t bytes, const uint8_t **ret_data)
{
    int r = check(fd, bytes);
    if (r < 0)
        return r;
    void *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return -errno;
    *ret_data = data;
    return 0;
}

int memfd_read(int fd, uint8_t *ret_data, size_t bytes)
{
    int r = check(fd, bytes);
    if (r < 0)
        return r;
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, ret_data + done, bytes - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EPROTO;
        done += (size_t)n;
    }
    return 0;
}
