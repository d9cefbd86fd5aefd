#include "client/core/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "client/core/error.h"

bool segment_is_dmabuf(int fd)
{
    struct statfs status;
    return fstatfs(fd, &status) == 0 && status.f_type == DMA_BUF_MAGIC;
}

static int check(int fd, uint64_t offset_bytes, uint64_t bytes, const char *what)
{
    struct stat status;
    uint64_t end_bytes;
    if (fstat(fd, &status) < 0)
        return error_set(-EPROTO, "tcad sent an invalid descriptor for %s", what);
    if (bytes == 0 || __builtin_add_overflow(offset_bytes, bytes, &end_bytes) ||
        status.st_size < 0 || (uint64_t)status.st_size < end_bytes)
        return error_set(-EPROTO, "%s has %lld bytes; tcad announced %llu from %llu on", what,
                         (long long)status.st_size, (unsigned long long)bytes,
                         (unsigned long long)offset_bytes);
    int seals = fcntl(fd, F_GET_SEALS);
    if ((seals < 0 || !(seals & F_SEAL_SHRINK)) && !segment_is_dmabuf(fd)) /* has one size */
        return error_set(-EPROTO, "tcad sent %s without a seal against shrinking", what);
    return 0;
}

static int map(int fd, uint64_t offset_bytes, uint64_t address, uint64_t bytes, const char *what,
               void **ret_base)
{
    int r = check(fd, offset_bytes, bytes, what);
    if (r < 0)
        return r;
    void *base = MAP_FAILED;
    if (address)
        base = mmap((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_FIXED_NOREPLACE, fd, (off_t)offset_bytes);
    if (base == MAP_FAILED)
        base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset_bytes);
    if (base == MAP_FAILED)
        return error_set(-errno, "cannot map %s (%llu bytes): %s", what, (unsigned long long)bytes,
                         strerrordesc_np(errno));
    *ret_base = base;
    return 0;
}

int segment_map(int fd, uint64_t address, uint64_t bytes, const char *what, void **ret_base)
{
    return map(fd, 0, address, bytes, what, ret_base);
}

int segment_map_part(int fd, uint64_t offset_bytes, uint64_t bytes, const char *what,
                     void **ret_base)
{
    return map(fd, offset_bytes, 0, bytes, what, ret_base);
}

int segment_misplaced(uint64_t address, uint64_t bytes, const char *what)
{
    return error_set(
        -EADDRINUSE,
        "%s of %llu bytes is to be at address 0x%llx, as in all processes of its group, but this "
        "process has something else there, or no such addresses: let it use others, or set "
        "memory.base in tcad.conf of all nodes to a range that all processes have free",
        what, (unsigned long long)bytes, (unsigned long long)address);
}

int segment_populate(void *base, uint64_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)base & ~(page - 1);
    uintptr_t end = ((uintptr_t)base + bytes + page - 1) & ~(page - 1);
    /* EINVAL: a kernel before 5.14, which allocates the pages on access. */
    if (madvise((void *)begin, end - begin, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
        return 0;
    return error_set(-ENOMEM,
                     "no memory for %llu bytes of shared memory: /dev/shm or the memory limit of "
                     "this user, service or container is exhausted",
                     (unsigned long long)bytes);
}
