/*
 * Moves pages between private memory and the process's memfd, at the same addresses, piece by
 * piece: what a piece contains is copied to new pages, and these take its place in one step
 * (mremap()).
 *
 * Between the two nobody may store to the piece. The calling thread takes no signals. Other threads
 * are held by userfaultfd(2) when they store to the piece, and go on afterwards, in the new page.
 * Where the process may not hold accesses by the kernel (without CAP_SYS_PTRACE or
 * vm.unprivileged_userfaultfd), a system call of another thread that stores to the piece at that
 * moment fails with EFAULT.
 *
 * While a piece is held, this thread stores only to a stack of its own and the new pages: it would
 * wait for itself otherwise. So it makes system calls without errno, which may be in the piece.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "client/memory/inplace.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; older kernels return EINVAL */
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12) /* Linux 5.19 */
#endif

enum { PIECE_BYTES = 2 << 20, STACK_BYTES = 64 << 10 }; /* a piece is as long as a huge page */

struct moving {
    const struct inplace_parts *parts;
    enum inplace_kind kind;
    int fd;
    bool alone;      /* nobody else could store there */
    uint8_t *before; /* NULL, or what the parts contained when they became private, one after the
                    other. PRIVATE: stored there; SHARED: only what has changed since is copied */
    int hold;        /* userfaultfd, or -1 */
};

/* A negative errno instead of errno. */
static long call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "system calls without errno: add this processor"
#endif
}

static long map(uintptr_t at, size_t bytes, int protection, int flags, int fd, uintptr_t offset)
{
    return call(SYS_mmap, (long)at, (long)bytes, protection, flags, fd, (long)offset);
}

static long advise(uintptr_t at, size_t bytes, int advice)
{
    return call(SYS_madvise, (long)at, (long)bytes, advice, 0, 0, 0);
}

static long unmap(uintptr_t at, size_t bytes)
{
    return bytes > 0 ? call(SYS_munmap, (long)at, (long)bytes, 0, 0, 0, 0) : 0;
}

static long control(int fd, unsigned long request, void *argument)
{
    return call(SYS_ioctl, fd, (long)request, (long)argument, 0, 0, 0);
}

/* Neither sanitizers nor the dynamic linker see it. */
static void copy(void *to, const void *from, size_t bytes)
{
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) /* whole pages */
        ((volatile uint64_t *)to)[i] = ((const volatile uint64_t *)from)[i];
#endif
}

/* Leaves what other processes have stored meanwhile. On a stack, sanitizers have marked bytes. */
__attribute__((no_sanitize("address", "thread"))) static void
copy_changes(volatile uint8_t *to, const volatile uint8_t *from, const uint8_t *before,
             size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (from[i] != before[i])
            to[i] = from[i];
}

/* ---- holding those who store ---- */

/* Of initialized data, which userfaultfd does not know, the program must see to that itself
 * (tca.h). */
static bool must_hold(const struct moving *moving, const struct inplace_part *part)
{
    return !moving->alone && part->shared != (moving->kind == INPLACE_SHARED) &&
           (part->protection & PROT_WRITE) && (part->anonymous || part->shared);
}

static long hold(const struct moving *moving, uintptr_t at, size_t bytes)
{
    struct uffdio_register area = {.range = {at, bytes}, .mode = UFFDIO_REGISTER_MODE_WP};
    struct uffdio_writeprotect protect = {.range = {at, bytes},
                                          .mode = UFFDIO_WRITEPROTECT_MODE_WP};
    long r = control(moving->hold, UFFDIO_REGISTER, &area);
    return r < 0 ? r : control(moving->hold, UFFDIO_WRITEPROTECT, &protect);
}

/* They try again, with what is there now. */
static void release(const struct moving *moving, uintptr_t at, size_t bytes)
{
    struct uffdio_writeprotect protect = {.range = {at, bytes}};
    struct uffdio_range range = {at, bytes};
    control(moving->hold, UFFDIO_WRITEPROTECT, &protect); /* of no effect on new pages */
    control(moving->hold, UFFDIO_WAKE, &range);
    control(moving->hold, UFFDIO_UNREGISTER, &range);
}

/* ---- a piece ---- */

/* Where new pages are made: aligned to huge pages as the piece itself is. */
struct place {
    uintptr_t base, at;
    size_t bytes; /* of all of it */
};

static long place_new(const struct moving *moving, uintptr_t at, size_t bytes,
                      struct place *ret_place)
{
    const int flags = moving->kind == INPLACE_SHARED ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    ret_place->bytes = 2 * PIECE_BYTES;
    const long base =
        map(0, ret_place->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base < 0 && base > -4096)
        return base;
    ret_place->base = (uintptr_t)base;
    ret_place->at = (ret_place->base & ~(uintptr_t)(PIECE_BYTES - 1)) + (at & (PIECE_BYTES - 1));
    if (ret_place->at < ret_place->base)
        ret_place->at += PIECE_BYTES;
    const long r = map(ret_place->at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED,
                       moving->kind == INPLACE_SHARED ? moving->fd : -1,
                       moving->kind == INPLACE_SHARED ? at : 0);
    if (r < 0 && r > -4096) {
        unmap(ret_place->base, ret_place->bytes);
        return r;
    }
    return 0;
}

/* Allocates the pages, huge ones where a piece is as long: as client/memory/region_memory.c
 * does. */
static long place_fill(const struct moving *moving, const struct place *place, size_t bytes,
                       uintptr_t at)
{
    if (bytes == PIECE_BYTES) {
        if (moving->kind == INPLACE_PRIVATE)
            advise(place->at, bytes, MADV_HUGEPAGE);
        else if (call(SYS_fallocate, moving->fd, 0, (long)at, 1, 0, 0) == 0)
            advise(place->at, bytes, MADV_COLLAPSE);
    }
    const long r = advise(place->at, bytes, MADV_POPULATE_WRITE);
    return r == -EINVAL ? 0 : r; /* before Linux 5.14: allocated by the copy */
}

/* before: of the piece. */
static long move_piece(const struct moving *moving, const struct inplace_part *part, uintptr_t at,
                       size_t bytes, uint8_t *before)
{
    struct place place;
    const bool held = must_hold(moving, part);
    if (held) /* what does not exist yet cannot be protected */
        advise(at, bytes, MADV_POPULATE_WRITE);
    long r = place_new(moving, at, bytes, &place);
    if (r < 0)
        return r;
    r = place_fill(moving, &place, bytes, at);
    if (r == 0 && held && (r = hold(moving, at, bytes)) < 0)
        release(moving, at, bytes);
    if (r < 0) {
        unmap(place.base, place.bytes);
        return r;
    }
    if (before && moving->kind == INPLACE_SHARED)
        copy_changes((uint8_t *)place.at, (const uint8_t *)at, before, bytes);
    else
        copy((void *)place.at, (const void *)at, bytes);
    if (before && moving->kind == INPLACE_PRIVATE)
        copy(before, (const void *)place.at, bytes);
    if (part->protection != (PROT_READ | PROT_WRITE))
        r = call(SYS_mprotect, (long)place.at, (long)bytes, part->protection, 0, 0, 0);
    if (r == 0)
        r = call(SYS_mremap, (long)place.at, (long)bytes, (long)bytes,
                 MREMAP_MAYMOVE | MREMAP_FIXED, (long)at, 0);
    const long moved = r < 0 && r > -4096 ? r : 0;
    if (held)
        release(moving, at, bytes);
    unmap(place.base, place.at - place.base);
    unmap(place.at + bytes, place.base + place.bytes - (place.at + bytes));
    if (moved < 0) {
        unmap(place.at, bytes);
        return moved;
    }
    if (part->locked)
        call(SYS_mlock, (long)at, (long)bytes, 0, 0, 0, 0);
    return 0;
}

/* Of memory that may not be read now, the contents are kept, too. */
static long move_any(const struct moving *moving, const struct inplace_part *part, uintptr_t at,
                     size_t bytes, uint8_t *before)
{
    if (part->protection & PROT_READ)
        return move_piece(moving, part, at, bytes, before);
    long r = call(SYS_mprotect, (long)at, (long)bytes, PROT_READ, 0, 0, 0);
    if (r == 0 && (r = move_piece(moving, part, at, bytes, before)) < 0)
        call(SYS_mprotect, (long)at, (long)bytes, part->protection, 0, 0, 0);
    return r;
}

static uintptr_t piece_end(uintptr_t at, uintptr_t end)
{
    const uintptr_t next = (at & ~(uintptr_t)(PIECE_BYTES - 1)) + PIECE_BYTES;
    return next < end ? next : end;
}

static long move_all(const struct moving *moving, uintptr_t *ret_done)
{
    uint8_t *before = moving->before;
    for (size_t i = 0; i < moving->parts->count; i++) {
        const struct inplace_part *part = &moving->parts->list[i];
        if (part->shared == (moving->kind == INPLACE_SHARED))
            continue;
        for (uintptr_t at = part->first, to; at < part->end; at = to) {
            to = piece_end(at, part->end);
            const long r = move_any(moving, part, at, to - at, before);
            if (r < 0)
                return r;
            *ret_done = to;
            before = before ? before + (to - at) : NULL;
        }
    }
    return 0;
}

/* ---- all of it ---- */

/* Accesses by the kernel are held only if the process may. Without userfaultfd: -1. */
static int hold_new(enum inplace_kind kind)
{
    const uint64_t features = UFFD_FEATURE_PAGEFAULT_FLAG_WP |
                              (kind == INPLACE_PRIVATE ? UFFD_FEATURE_WP_HUGETLBFS_SHMEM : 0);
    struct uffdio_api api = {.api = UFFD_API, .features = features};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool may_move(const struct moving *moving)
{
    for (size_t i = 0; i < moving->parts->count; i++)
        if (moving->hold < 0 && must_hold(moving, &moving->parts->list[i]))
            return false;
    return true;
}

/* What moves runs on a stack of its own, because this thread's can be among the parts. */
struct aside {
    ucontext_t caller, here;
    const struct moving *moving;
    uintptr_t done;
    long result;
    _Alignas(64) uint8_t stack[STACK_BYTES];
};

static struct aside *aside; /* one at a time: under the lock of inplace.c */

static void move_aside(void)
{
    aside->result = move_all(aside->moving, &aside->done);
}

static long run(const struct moving *moving, uintptr_t *ret_done)
{
    sigset_t all, before;
    aside = mmap(NULL, sizeof(*aside), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (aside == MAP_FAILED)
        return -errno;
    aside->moving = moving;
    aside->done = *ret_done;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a handler could store to a piece */
    getcontext(&aside->here);
    aside->here.uc_stack.ss_sp = aside->stack;
    aside->here.uc_stack.ss_size = sizeof(aside->stack);
    aside->here.uc_link = &aside->caller;
    makecontext(&aside->here, move_aside, 0);
    swapcontext(&aside->caller, &aside->here);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    const long result = aside->result;
    *ret_done = aside->done;
    munmap(aside, sizeof(*aside));
    return result;
}

int inplace_move(const struct inplace_parts *parts, enum inplace_kind kind, int fd, bool alone,
                 uint8_t *before, uintptr_t *ret_done)
{
    struct moving moving = {.parts = parts,
                            .kind = kind,
                            .fd = fd,
                            .before = before,
                            .alone = alone,
                            .hold = alone ? -1 : hold_new(kind)};
    long r = -EBUSY;
    *ret_done = parts->count > 0 ? parts->list[0].first : 0;
    if (may_move(&moving))
        r = run(&moving, ret_done);
    if (moving.hold >= 0)
        close(moving.hold);
    return (int)r;
}
