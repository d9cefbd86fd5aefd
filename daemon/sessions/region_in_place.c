/*
 * Regions of memory that a process had before. It has made its pages part of a memfd
 * (client/memory/inplace.h), which it may go on using for others; a region is a part of that, at
 * the offset of its address. From here on it is a region like any other, but not at an address of
 * the daemon's choice.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/base/remedy.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

/* Whether it is a memfd of small pages that nobody can shorten: accesses beyond its end would end
 * the daemon. Another kind of file fails the first call, so nothing else is asked of it. */
static bool is_sealed(int fd, uint64_t end_bytes)
{
    const int wanted = F_SEAL_SHRINK | F_SEAL_SEAL, seals = fcntl(fd, F_GET_SEALS);
    struct statfs system;
    struct stat status;
    return seals >= 0 && (seals & (wanted | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) == wanted &&
           fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC && fstat(fd, &status) == 0 &&
           (uint64_t)status.st_size >= end_bytes;
}

static int check(struct session *session, uint32_t tag, const Tca__RegionAlloc *alloc, int fd)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t end = 0;
    int r = 0;
    if (alloc->bytes == 0 || alloc->bytes % page || alloc->address == 0 || alloc->address % page ||
        __builtin_add_overflow(alloc->address, alloc->bytes, &end) || end > INT64_MAX)
        session_fail(session, tag, r = -EINVAL,
                     "%" PRIu64 " bytes at 0x%" PRIx64 " are not whole pages of a process",
                     alloc->bytes, alloc->address);
    else if (fd < 0 || !is_sealed(fd, end))
        session_fail(session, tag, r = -EINVAL,
                     "memory that is shared in place comes with a memfd of at least %" PRIu64
                     " bytes, sealed against shrinking and further seals",
                     end);
    return r;
}

static int make(struct session *session, const Tca__RegionAlloc *alloc, int *fd,
                struct region **ret_region)
{
    struct region *region;
    int r = region_new(session, alloc->bytes, &region);
    if (r < 0)
        return r;
    region->address = region->offset_bytes = alloc->address;
    region->memory_bytes = alloc->bytes;
    region->fd = *fd;
    *fd = -1;
    r = region_memory_map(region);
    if (r < 0) {
        region_unref(region);
        return r;
    }
    *ret_region = region;
    return 0;
}

void region_in_place(struct session *session, uint32_t tag, const Tca__RegionAlloc *alloc, int *fd)
{
    struct charge charge = {0};
    struct region *region;
    if (check(session, tag, alloc, *fd) < 0 || !region_admit(session, tag, alloc->bytes, &charge))
        return;
    int r = make(session, alloc, fd, &region);
    if (r < 0) {
        charge_drop(&charge);
        session_fail(session, tag, r, "region of %" PRIu64 " bytes: %s", alloc->bytes,
                     remedy_text(r));
        return;
    }
    region->charge = charge;
    region_add(session, region);
    region_charge(region, alloc->bytes);
    region_grant(session, tag, region);
}
