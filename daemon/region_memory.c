/* The memory of a region: a sealed memfd, all of it there, in huge pages where the kernel gives
 * them. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/tcad_conf.h"
#include "daemon/memory.h"
#include "daemon/region.h"
#include "daemon/space.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; older kernels say -EINVAL */
#endif

enum {
    HUGE_BYTES = SPACE_ALIGN_BYTES,
    COLLAPSE_BYTES = 32 * HUGE_BYTES,
    COLLAPSE_MOST_NS = 500000000,
};

/* Where huge pages fit. NULL and errno on failure. */
static void *map_aligned(int fd, uint64_t bytes)
{
    void *place = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
        return NULL;
    uint8_t *begin = place,
            *base = (uint8_t *)(((uintptr_t)begin + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1));
    uint8_t *end = base + bytes, *place_end = begin + bytes + HUGE_BYTES;
    if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int error = errno;
        munmap(place, bytes + HUGE_BYTES);
        errno = error;
        return NULL;
    }
    if (base > begin)
        munmap(begin, (size_t)(base - begin));
    if (place_end > end)
        munmap(end, (size_t)(place_end - end));
    return base;
}

/* A first page in each place for a huge one: where none is, the kernel refuses to make one. */
static bool sow(const struct region *region, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to; at += HUGE_BYTES)
        if (fallocate(region->fd, 0, (off_t)at, 1) < 0)
            return false;
    return true;
}

/*
 * Asks the kernel for them outright, before anybody has mapped the region: scattered data otherwise
 * waits for address translation more than for itself. And before the other pages are there: then it
 * has 2 MiB to clear, in a tenth of a millisecond; of 512 pages that are there it copies and frees
 * each, in six. Many at once, because each question waits for all processors. What does not come in
 * time stays as it is.
 */
static void make_huge(const struct region *region)
{
    const uint64_t end = region->memory_bytes - region->memory_bytes % HUGE_BYTES;
    const uint64_t until_ns = clock_now_ns() + COLLAPSE_MOST_NS;
    for (uint64_t at = 0, bytes; at < end && clock_now_ns() < until_ns; at += bytes) {
        bytes = end - at < COLLAPSE_BYTES ? end - at : COLLAPSE_BYTES;
        if (!sow(region, at, at + bytes) ||
            (madvise((uint8_t *)region->base + at, bytes, MADV_COLLAPSE) < 0 && errno != EAGAIN))
            return;
    }
}

/* The kernel zeroes all of it here, so that nobody runs out of memory later, at some store. */
int region_memory_new(struct region *region, uint32_t huge, uint64_t *ret_available_bytes)
{
    unsigned flags =
        MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge == CONF_HUGE_PAGES_REQUIRE ? MFD_HUGETLB : 0);

    /* Reserved huge pages are not taken from what is available. A sixteenth is left to those who
     * are not asked. */
    uint64_t available = memory_available_bytes();
    if (huge != CONF_HUGE_PAGES_REQUIRE && region->memory_bytes > available - available / 16) {
        *ret_available_bytes = available;
        return -ENOMEM;
    }
    region->fd = memfd_create("tca-region", flags);
    if (region->fd < 0 || ftruncate(region->fd, (off_t)region->memory_bytes) < 0 ||
        fcntl(region->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    region->base = map_aligned(region->fd, region->memory_bytes);
    if (!region->base)
        return -errno;
    if (huge == CONF_HUGE_PAGES_TRY) {
        madvise(region->base, region->memory_bytes,
                MADV_HUGEPAGE); /* where the administrator allows it for shared memory */
        make_huge(region);
    }
    if (fallocate(region->fd, 0, 0, (off_t)region->memory_bytes) < 0 && errno != EOPNOTSUPP)
        return errno == ENOSPC ? -ENOMEM : -errno;
    return 0;
}

/* What could be had of it is given back: another attempt begins anew. */
static int make_bounce_memory(struct region *region)
{
    uint64_t available_bytes = 0;
    int r = region_memory_new(region, region->tcad->conf->memory.huge_pages, &available_bytes);
    if (r == 0)
        return 0;
    if (region->base)
        munmap(region->base, region->memory_bytes);
    if (region->fd >= 0)
        close(region->fd);
    region->base = NULL;
    region->fd = -1;
    return r;
}

int region_register(struct region *region, struct driver *driver)
{
    enum rail rail = driver->ops->rail;
    if (region->on[rail])
        return 0;
    int r = region->attached && !region->base ? make_bounce_memory(region) : 0;
    if (r < 0)
        return r;
    struct driver_memory memory = {
        .base = region->base, .length_bytes = region->bytes, .fd = region->fd};
    return driver->ops->region_add(driver, &memory, &region->on[rail]);
}
