/* The memory of a region: a sealed memfd, whose pages its process allocates, or a dmabuf. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/tcad_conf.h"
#include "daemon/base/remedy.h"
#include "daemon/engine/engine.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/space.h"
#include "daemon/tcad.h"
#include "proto/limits.h"
#include "proto/segment.h"

enum { HUGE_BYTES = SPACE_ALIGN_BYTES };

/* Maps it aligned to huge pages, as it is in the file. NULL and errno on failure. */
static void *map_aligned(int fd, uint64_t offset_bytes, uint64_t bytes)
{
    const uint64_t phase = offset_bytes % HUGE_BYTES;
    const uint64_t place_bytes = bytes + 2 * HUGE_BYTES;
    void *place =
        mmap(NULL, place_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
        return NULL;
    uint8_t *begin = place, *base = (uint8_t *)(((uintptr_t)begin + HUGE_BYTES - 1) &
                                                ~(uintptr_t)(HUGE_BYTES - 1)) +
                                    phase;
    uint8_t *end = base + bytes, *place_end = begin + place_bytes;
    if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
             (off_t)offset_bytes) == MAP_FAILED) {
        int error = errno;
        munmap(place, place_bytes);
        errno = error;
        return NULL;
    }
    if (base > begin)
        munmap(begin, (size_t)(base - begin));
    if (place_end > end)
        munmap(end, (size_t)(place_end - end));
    return base;
}

int region_memory_map(struct region *region)
{
    region->base = map_aligned(region->fd, region->offset_bytes, region->memory_bytes);
    return region->base ? 0 : -errno;
}

/* Accesses no page: a page counts against the memory limit of the first process to access it, which
 * must be the one that requested the region (client/memory/region_memory.c). */
int region_memory_new(struct region *region)
{
    static const uint32_t pages[] = {[CONF_HUGE_PAGES_OFF] = REGION_PAGES_ANY,
                                     [CONF_HUGE_PAGES_TRY] = REGION_PAGES_TRY_HUGE,
                                     [CONF_HUGE_PAGES_REQUIRE] = REGION_PAGES_HUGE};
    region->pages = pages[region->tcad->conf->memory.huge_pages];
    region->fd =
        memfd_create(REGION_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING |
                                       (region->pages == REGION_PAGES_HUGE ? MFD_HUGETLB : 0));
    if (region->fd < 0 || ftruncate(region->fd, (off_t)region->memory_bytes) < 0 ||
        fcntl(region->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    int r = region_memory_map(region);
    if (r < 0)
        return r;
    if (region->pages == REGION_PAGES_TRY_HUGE) /* maps existing huge pages as such */
        madvise(region->base, region->memory_bytes, MADV_HUGEPAGE);
    return 0;
}

/* Whether its process has allocated all pages. Otherwise a rail would, at the daemon's expense.
 * Removing pages later gains the process nothing beyond its quota. */
static bool is_made(const struct region *region)
{
    struct stat status;
    if (region->offset_bytes)
        return lseek(region->fd, (off_t)region->offset_bytes, SEEK_HOLE) >=
               (off_t)(region->offset_bytes + region->memory_bytes);
    return fstat(region->fd, &status) == 0 &&
           (uint64_t)status.st_blocks * 512 >= region->memory_bytes;
}

int region_register(struct region *region, unsigned rail)
{
    struct driver *driver = engine_driver(region->tcad->engine, rail);
    if (region->on[rail])
        return 0;
    if (!region->dmabuf && !is_made(region))
        return -EFAULT;
    struct driver_memory memory = {.base = region->base,
                                   .length_bytes = region->bytes,
                                   .fd = region->fd,
                                   .offset_bytes = region->offset_bytes,
                                   .dmabuf = region->dmabuf,
                                   .gone = region_rail_lets_go,
                                   .context = region};
    return driver->ops->region_add(driver, &memory, &region->on[rail]);
}

const char *region_register_text(int error)
{
    switch (error) {
    case -EFAULT:
        return "the pages of the region's memory are missing: the process that requested it must "
               "access all of them first";
    case -EOPNOTSUPP:
        return "its device cannot register this memory (dmabuf): request another rail";
    case -EADDRNOTAVAIL:
        return "the board has used up its bus addresses (512 GiB, each of which it uses once): "
               "request another rail, or restart tcad";
    default:
        return remedy_text(error);
    }
}

int region_counter(struct region *region, uint64_t offset_bytes, uint32_t *ret_line, char *text,
                   size_t text_bytes)
{
    const uint64_t key = notify_counter_key(region->address + offset_bytes);
    if (offset_bytes % sizeof(uint64_t)) {
        snprintf(text, text_bytes,
                 "a counter at offset %" PRIu64 " of region %" PRIu64
                 ": offsets must be multiples of 8",
                 offset_bytes, region->id);
        return -EINVAL;
    }
    if (region->dmabuf) {
        snprintf(text, text_bytes,
                 "a counter in region %" PRIu64
                 ", which is memory of a device (dmabuf): use memory of tca_alloc() for counters",
                 region->id);
        return -EOPNOTSUPP;
    }
    if (!region->session) {
        snprintf(text, text_bytes, "the process that owned region %" PRIu64 " has ended",
                 region->id);
        return -EOWNERDEAD;
    }
    return session_line(region->session, (uint32_t)(key >> 32), (uint32_t)key, ret_line, text,
                        text_bytes);
}
