#include "client/memory/inplace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/core/error.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels return EINVAL */
#endif

/* Beyond every address. Sparse: only pages that are shared exist. */
#define FILE_BYTES (UINT64_C(1) << 56)

struct range {
    uintptr_t first, end;
};

static struct {
    pthread_mutex_t lock;
    int fd; /* -1: nothing was shared yet */
    ino_t inode;
    struct range *ranges; /* that are shared now; they may overlap */
    size_t count, room;
    /* while fork() runs */
    struct inplace_parts parts; /* what the child copies */
    struct inplace_parts stack; /* of the forking thread: private meanwhile, */
    uint8_t *before;            /* and what they were then; NULL: still shared */
    int pipe[2];                /* the child closes its end when it has */
} inplace = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .pipe = {-1, -1}};

/* ---- the memfd ---- */

static int file_new(void)
{
    struct rlimit limit;
    struct stat status;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < FILE_BYTES)
        return error_set(-EFBIG,
                         "memory cannot be shared in place under a limit of file sizes (%llu "
                         "bytes): raise it (ulimit -f unlimited)",
                         (unsigned long long)limit.rlim_cur);
    const int fd = memfd_create("tca-process", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)FILE_BYTES) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
        fstat(fd, &status) < 0) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return error_set(-error, "cannot make shared memory: %s", strerrordesc_np(error));
    }
    inplace.fd = fd;
    inplace.inode = status.st_ino;
    return 0;
}

/* Pages that are not shared any more. Who has still mapped them gets zeros. */
static void file_drop(uintptr_t first, uintptr_t end)
{
    fallocate(inplace.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first,
              (off_t)(end - first));
}

/* ---- ranges ---- */

static int ranges_add(uintptr_t first, uintptr_t end)
{
    if (inplace.count == inplace.room) {
        const size_t room = inplace.room ? 2 * inplace.room : 16;
        void *ranges = realloc(inplace.ranges, room * sizeof(*inplace.ranges));
        if (!ranges)
            return error_static(-ENOMEM, "out of memory");
        inplace.ranges = ranges;
        inplace.room = room;
    }
    inplace.ranges[inplace.count++] = (struct range){first, end};
    return 0;
}

static void ranges_remove(uintptr_t first, uintptr_t end)
{
    for (size_t i = 0; i < inplace.count; i++) {
        if (inplace.ranges[i].first == first && inplace.ranges[i].end == end) {
            inplace.ranges[i] = inplace.ranges[--inplace.count];
            return;
        }
    }
}

/* The first part of [first, end) that no range contains; empty: there is none. */
static struct range uncovered(uintptr_t first, uintptr_t end)
{
    struct range part = {first, end};
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < inplace.count; i++) {
            const struct range *range = &inplace.ranges[i];
            if (range->first <= part.first && range->end > part.first) {
                part.first = range->end;
                moved = true;
            }
        }
    }
    if (part.first >= end)
        return (struct range){end, end};
    for (size_t i = 0; i < inplace.count; i++)
        if (inplace.ranges[i].first > part.first && inplace.ranges[i].first < part.end)
            part.end = inplace.ranges[i].first;
    return part;
}

/* ---- sharing ---- */

/* Whether this process has no other thread. */
static bool is_alone(void)
{
    unsigned count = 0;
    DIR *threads = opendir("/proc/self/task");
    if (!threads)
        return false;
    for (const struct dirent *entry; (entry = readdir(threads));)
        count += entry->d_name[0] != '.';
    closedir(threads);
    return count == 1;
}

/* Where a failed move has shared a part, it is made private again. */
static void undo(const struct inplace_parts *parts, uintptr_t done, bool alone)
{
    for (size_t i = 0; i < parts->count; i++) {
        struct inplace_part part = parts->list[i];
        const struct inplace_parts one = {.list = &part, .count = 1};
        uintptr_t ignored;
        part.end = part.end < done ? part.end : done;
        if (part.shared || part.first >= part.end)
            continue;
        part.shared = true;
        if (inplace_move(&one, INPLACE_PRIVATE, inplace.fd, alone, NULL, &ignored) == 0)
            file_drop(part.first, part.end);
    }
}

static int fail(int error, const void *address, uint64_t bytes)
{
    if (error == -EBUSY)
        return error_set(
            error,
            "%llu bytes at %p cannot be shared in place while other threads run: userfaultfd(2), "
            "which holds those that store there, is not permitted (a seccomp profile?): have it "
            "permitted, attach the memory before other threads begin, or use memory of tca_alloc()",
            (unsigned long long)bytes, address);
    return error_set(error, "cannot share %llu bytes at %p in place: %s", (unsigned long long)bytes,
                     address,
                     error == -ENOMEM ? "no memory, or too many mappings (vm.max_map_count)"
                                      : strerrordesc_np(-error));
}

static int share(uintptr_t first, uintptr_t end, const void *address, uint64_t bytes)
{
    struct inplace_parts parts = {0};
    const bool alone = is_alone();
    uintptr_t done;
    int r = inplace_check(first, end, inplace.inode, &parts);
    if (r == 0 && (r = inplace_move(&parts, INPLACE_SHARED, inplace.fd, alone, NULL, &done)) < 0) {
        undo(&parts, done, alone);
        r = fail(r, address, bytes);
    }
    free(parts.list);
    return r;
}

/* Libraries that keep memory registered with a device, as those of MPI do, intercept this function
 * to learn that pages were replaced. Shared pages lose nothing by it. */
static void tell_libraries(uintptr_t first, uintptr_t end)
{
    if (madvise((void *)first, end - first, MADV_DONTNEED) == 0)
        madvise((void *)first, end - first, MADV_POPULATE_WRITE);
}

static void whole_pages(const void *address, uint64_t bytes, uintptr_t *ret_first,
                        uintptr_t *ret_end)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)address;
    *ret_first = at & ~(page - 1);
    *ret_end = (at + bytes + page - 1) & ~(page - 1);
}

int inplace_share(const void *address, uint64_t bytes, int *ret_fd)
{
    uintptr_t first, end;
    whole_pages(address, bytes, &first, &end);
    pthread_mutex_lock(&inplace.lock);
    int r = inplace.fd < 0 ? file_new() : 0;
    if (r == 0)
        r = ranges_add(first, end);
    if (r == 0 && (r = share(first, end, address, bytes)) < 0)
        ranges_remove(first, end);
    if (r == 0) {
        tell_libraries(first, end);
        *ret_fd = inplace.fd;
    }
    pthread_mutex_unlock(&inplace.lock);
    return r;
}

static void make_private(uintptr_t first, uintptr_t end)
{
    struct inplace_parts parts = {0};
    uintptr_t done;
    if (inplace_find(first, end, inplace.inode, true, &parts) == 0) {
        inplace_move(&parts, INPLACE_PRIVATE, inplace.fd, is_alone(), NULL, &done);
        for (size_t i = 0; i < parts.count && parts.list[i].end <= done; i++)
            file_drop(parts.list[i].first, parts.list[i].end);
    }
    free(parts.list);
}

void inplace_unshare(const void *address, uint64_t bytes)
{
    uintptr_t first, end;
    whole_pages(address, bytes, &first, &end);
    pthread_mutex_lock(&inplace.lock);
    ranges_remove(first, end);
    while (first < end) {
        const struct range part = uncovered(first, end);
        if (part.first < part.end)
            make_private(part.first, part.end);
        first = part.end;
    }
    pthread_mutex_unlock(&inplace.lock);
}

/* ---- forks ---- */

static uint64_t bytes_of(const struct inplace_parts *parts)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < parts->count; i++)
        bytes += parts->list[i].end - parts->list[i].first;
    return bytes;
}

/* Shares the stack again, as far as it was made private: up to `done`. */
static void stack_share(uintptr_t done)
{
    const uint8_t *before = inplace.before;
    const bool alone = is_alone();
    for (size_t i = 0; i < inplace.stack.count; i++) {
        struct inplace_part part = inplace.stack.list[i];
        const struct inplace_parts one = {.list = &part, .count = 1};
        uintptr_t ignored;
        part.shared = false;
        part.anonymous = true;
        part.end = part.end < done ? part.end : done;
        if (part.first < part.end)
            inplace_move(&one, INPLACE_SHARED, inplace.fd, alone, (uint8_t *)before, &ignored);
        before += inplace.stack.list[i].end - part.first;
    }
    munmap(inplace.before, bytes_of(&inplace.stack));
    inplace.before = NULL;
}

static void stack_advise(int advice)
{
    for (size_t i = 0; i < inplace.stack.count; i++) {
        const struct inplace_part *part = &inplace.stack.list[i];
        madvise((void *)part->first, part->end - part->first, advice);
    }
}

/*
 * Of the forking thread, which parent and child would use at once. Where it cannot be made private,
 * the child gets none of its shared pages, and ends by a signal: it would run into its parent's
 * calls otherwise.
 */
static void stack_apart(void)
{
    uintptr_t first, end, done;
    inplace_stack(&first, &end);
    if (inplace_find(first, end, inplace.inode, true, &inplace.stack) < 0)
        inplace.stack.count = 0;
    if (inplace.stack.count == 0)
        return;
    void *before = mmap(NULL, bytes_of(&inplace.stack), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    inplace.before = before == MAP_FAILED ? NULL : before;
    if (inplace.before && inplace_move(&inplace.stack, INPLACE_PRIVATE, inplace.fd, is_alone(),
                                       inplace.before, &done) < 0)
        stack_share(done);
    if (!inplace.before)
        stack_advise(MADV_DONTFORK);
}

/* Of the parent. */
static void stack_together(void)
{
    if (inplace.before)
        stack_share(UINTPTR_MAX);
    else
        stack_advise(MADV_DOFORK);
    inplace.stack.count = 0;
}

/* The child must not store to shared memory before it has its own copies: what it needs is made
 * here. */
void inplace_before_fork(void)
{
    pthread_mutex_lock(&inplace.lock);
    inplace.parts.count = 0;
    if (inplace.fd < 0)
        return;
    stack_apart();
    if (inplace_find(0, UINTPTR_MAX, inplace.inode, false, &inplace.parts) < 0 ||
        inplace.parts.count == 0)
        return;
    if (pipe2(inplace.pipe, O_CLOEXEC) < 0)
        inplace.pipe[0] = inplace.pipe[1] = -1; /* the parent does not wait */
}

/* The parent stores to the memory only when the child has copied it, or has ended. */
void inplace_after_fork(void)
{
    char none;
    if (inplace.pipe[1] >= 0) {
        close(inplace.pipe[1]);
        while (read(inplace.pipe[0], &none, 1) < 0 && errno == EINTR)
            ;
        close(inplace.pipe[0]);
        inplace.pipe[0] = inplace.pipe[1] = -1;
    }
    stack_together();
    pthread_mutex_unlock(&inplace.lock);
}

/* Without memory for a copy, the child must not go on with its parent's. */
void inplace_in_child(void)
{
    static const char no_memory[] = "libtca: no memory for a forked process's copy of memory that "
                                    "its parent shares with others\n";
    uintptr_t done;
    if (inplace.parts.count > 0 &&
        inplace_move(&inplace.parts, INPLACE_PRIVATE, inplace.fd, true, NULL, &done) < 0) {
        if (write(STDERR_FILENO, no_memory, sizeof(no_memory) - 1) < 0)
            _exit(127);
        _exit(127);
    }
    for (unsigned i = 0; i < 2; i++)
        if (inplace.pipe[i] >= 0)
            close(inplace.pipe[i]);
    if (inplace.fd >= 0)
        close(inplace.fd);
    inplace.fd = inplace.pipe[0] = inplace.pipe[1] = -1;
    inplace.inode = 0;
    inplace.count = inplace.stack.count = 0;
    inplace.before = NULL;
    pthread_mutex_unlock(&inplace.lock);
}
