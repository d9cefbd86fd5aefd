#include "client/memory/region_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/core/error.h"
#include "client/memory/available.h"
#include "proto/limits.h"
#include "proto/wait.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; older kernels say -EINVAL */
#endif

enum {
    HUGE_BYTES = 2 << 20,
    PIECE_BYTES = 32 * HUGE_BYTES, /* between two looks at what is available */
    HUGE_MOST_NS = 500000000,
};

struct making {
    int fd;
    uint8_t *base;
    uint32_t pages;
    uint64_t huge_until_ns;
};

/* A first page in each place for a huge one: where none is, the kernel refuses to make one. */
static bool sow(int fd, uint64_t from, uint64_t to)
{
    for (uint64_t at = from; at < to; at += HUGE_BYTES)
        if (fallocate(fd, 0, (off_t)at, 1) < 0)
            return false;
    return true;
}

/*
 * Asks the kernel for huge pages outright: scattered data otherwise waits for address translation
 * more than for itself. And before the other pages are there: then it has 2 MiB to clear, in a tenth
 * of a millisecond; of 512 pages that are there it copies and frees each, in six. Many at once,
 * because each question waits for all processors. What does not come in time stays as it is.
 */
static void make_huge(struct making *making, uint64_t at, uint64_t bytes)
{
    bytes -= bytes % HUGE_BYTES;
    if (bytes == 0 || clock_now_ns() > making->huge_until_ns)
        return;
    if (!sow(making->fd, at, at + bytes) ||
        (madvise(making->base + at, bytes, MADV_COLLAPSE) < 0 && errno != EAGAIN))
        making->huge_until_ns = 0; /* this kernel never will */
}

static int make_piece(struct making *making, uint64_t at, uint64_t bytes)
{
    if (making->pages == REGION_PAGES_TRY_HUGE)
        make_huge(making, at, bytes);
    if (madvise(making->base + at, bytes, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno == EINVAL) /* a kernel before 5.14 does not know it */
        return fallocate(making->fd, 0, (off_t)at, (off_t)bytes) < 0 ? -errno : 0;
    return -errno;
}

/* Reserved huge pages are not taken from what is available. A sixteenth is left to those who are
 * not asked. */
static int check_available(const struct making *making, uint64_t bytes, uint64_t total_bytes,
                           const char *what)
{
    const char *limit;
    if (making->pages == REGION_PAGES_HUGE)
        return 0;
    uint64_t available = available_bytes(&limit);
    if (bytes <= available - available / 16)
        return 0;
    return error_set(
        -ENOMEM,
        "%s of %llu bytes: %llu are available (%s), of which a sixteenth is kept: free "
        "memory, ask for less, or have the limit raised",
        what, (unsigned long long)total_bytes, (unsigned long long)available, limit);
}

int region_memory_make(int fd, void *base, uint64_t bytes, uint32_t pages, const char *what)
{
    struct making making = {fd, base, pages, clock_now_ns() + HUGE_MOST_NS};
    int r = check_available(&making, bytes, bytes, what);
    if (pages == REGION_PAGES_TRY_HUGE) /* where the administrator allows it for shared memory */
        madvise(base, bytes, MADV_HUGEPAGE);
    for (uint64_t at = 0; r == 0 && at < bytes; at += PIECE_BYTES) {
        uint64_t piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        /* Others may be at it, too. */
        if (at > 0 && (r = check_available(&making, piece, bytes, what)) < 0)
            return r;
        int error = make_piece(&making, at, piece);
        if (error < 0)
            r = error_set(-ENOMEM, "no memory for %s of %llu bytes: %s", what,
                          (unsigned long long)bytes,
                          pages == REGION_PAGES_HUGE
                              ? "the reserved huge pages have run out: raise vm.nr_hugepages"
                              : strerrordesc_np(-error));
    }
    return r;
}
