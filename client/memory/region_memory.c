#include "client/memory/region_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "client/core/error.h"
#include "client/memory/available.h"
#include "proto/limits.h"
#include "proto/wait.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; older kernels return EINVAL */
#endif

enum {
    HUGE_BYTES = 2 << 20,
    PIECE_BYTES = 32 * HUGE_BYTES, /* between two checks of the available memory */
    HUGE_MOST_NS = 500000000,
};

struct making {
    int fd;
    uint8_t *base;
    uint32_t pages;
    uint64_t huge_until_ns;
};

/* Allocates the first small page of each huge one: without it MADV_COLLAPSE fails. */
static bool allocate_first_pages(int fd, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to; at += HUGE_BYTES)
        if (fallocate(fd, 0, (off_t)at, 1) < 0)
            return false;
    return true;
}

/*
 * Requests huge pages explicitly, because scattered data otherwise waits longer for address
 * translation than for the data itself. Before the other pages exist: the kernel then only clears 2
 * MiB, which takes 0.1 ms; copying and freeing 512 existing pages takes 6 ms. Many at once, because
 * each request synchronizes all processors. After HUGE_MOST_NS the remaining pages stay small.
 */
static void make_huge(struct making *making, uint64_t at, uint64_t bytes)
{
    bytes -= bytes % HUGE_BYTES;
    if (bytes == 0 || clock_now_ns() > making->huge_until_ns)
        return;
    if (!allocate_first_pages(making->fd, at, at + bytes) ||
        (madvise(making->base + at, bytes, MADV_COLLAPSE) < 0 && errno != EAGAIN))
        making->huge_until_ns = 0; /* not supported: do not try again */
}

static int make_piece(struct making *making, uint64_t at, uint64_t bytes)
{
    if (making->pages == REGION_PAGES_TRY_HUGE)
        make_huge(making, at, bytes);
    if (madvise(making->base + at, bytes, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno == EINVAL) /* a kernel before 5.14 */
        return fallocate(making->fd, 0, (off_t)at, (off_t)bytes) < 0 ? -errno : 0;
    return -errno;
}

/* Keeps a sixteenth of the available memory for other processes. Reserved huge pages do not count
 * as available memory and need no check. */
static int check_available(uint32_t pages, uint64_t bytes, uint64_t total_bytes, const char *what)
{
    const char *limit;
    if (pages == REGION_PAGES_HUGE)
        return 0;
    uint64_t available = available_bytes(&limit);
    if (bytes <= available - available / 16)
        return 0;
    return error_set(
        -ENOMEM,
        "%s of %llu bytes: %llu are available (%s), of which a sixteenth is kept: free "
        "memory, request less, or have the limit raised",
        what, (unsigned long long)total_bytes, (unsigned long long)available, limit);
}

int region_memory_check(uint64_t bytes, uint32_t pages, const char *what)
{
    return check_available(pages, bytes, bytes, what);
}

int region_memory_make(int fd, void *base, uint64_t bytes, uint32_t pages, const char *what)
{
    struct making making = {fd, base, pages, clock_now_ns() + HUGE_MOST_NS};
    int r = region_memory_check(bytes, pages, what);
    if (pages == REGION_PAGES_TRY_HUGE) /* where the administrator allows it for shared memory */
        madvise(base, bytes, MADV_HUGEPAGE);
    for (uint64_t at = 0; r == 0 && at < bytes; at += PIECE_BYTES) {
        uint64_t piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        /* other processes may be allocating, too */
        if (at > 0 && (r = check_available(pages, piece, bytes, what)) < 0)
            return r;
        int error = make_piece(&making, at, piece);
        if (error < 0)
            r = error_set(-ENOMEM, "no memory for %s of %llu bytes: %s", what,
                          (unsigned long long)bytes,
                          pages == REGION_PAGES_HUGE
                              ? "the reserved huge pages are exhausted: raise vm.nr_hugepages"
                              : strerrordesc_np(-error));
    }
    return r;
}
