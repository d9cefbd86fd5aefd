#include "drivers/shm/attached.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { VECTORS = 256 };

/* ---- the writer ---- */

/* Process ids are reused and differ between containers, so the process must prove itself by the
 * region's name in its memory. */
static int check_gate(const struct attached *attached, uint64_t *ret_marks_address)
{
    struct {
        uint64_t name[2], self_address, marks_address;
    } head;
    static_assert(sizeof(head) == sizeof(struct attached_gate), "as in the owner's memory");
    struct iovec here = {&head, sizeof(head)},
                 there = {(void *)(uintptr_t)attached->gate_address, sizeof(head)};
    ssize_t n = process_vm_readv(attached->pid, &here, 1, &there, 1, 0);
    if (n < 0)
        return errno == EFAULT ? -EOWNERDEAD : -errno;
    if (n != sizeof(head) || head.self_address != attached->gate_address)
        return -EOWNERDEAD;
    if (memcmp(head.name, attached->name, sizeof(attached->name)) != 0)
        return -ESTALE;
    *ret_marks_address = head.marks_address;
    return 0;
}

static int write_vectors(const struct attached *attached, const void *packed, uint64_t bytes,
                         const struct iovec *there, unsigned long count)
{
    struct iovec here = {(void *)(uintptr_t)packed, bytes};
    ssize_t n = process_vm_writev(attached->pid, &here, 1, there, count, 0);
    if (n < 0)
        return -errno;
    return (uint64_t)n == bytes ? 0 : -EFAULT;
}

/* Sets this thread's mark, and says where the owner must look for it. Returns the mark's address. */
static int set_mark(const struct attached *attached, uint64_t marks_address, uint64_t *ret_address)
{
    const uint64_t thread = (uint64_t)gettid();
    uint64_t region = attached->name[1];
    uint8_t used = 1;
    if (thread >= ATTACHED_THREADS)
        return -EPERM;
    const uint64_t address =
        marks_address + offsetof(struct attached_marks, regions) + thread * sizeof(region);
    const uint64_t used_address =
        marks_address + offsetof(struct attached_marks, used) + thread / ATTACHED_PAGE_THREADS;
    const struct iovec here[] = {{&region, sizeof(region)}, {&used, sizeof(used)}},
                       there[] = {{(void *)(uintptr_t)address, sizeof(region)},
                                  {(void *)(uintptr_t)used_address, sizeof(used)}};
    ssize_t n = process_vm_writev(attached->pid, here, 2, there, 2, 0);
    if (n < 0)
        return -errno;
    if (n != sizeof(region) + sizeof(used))
        return -EFAULT;
    *ret_address = address;
    return 0;
}

int attached_enter(const struct attached *attached, uint64_t *ret_mark_address)
{
    uint64_t marks, mark = 0;
    if (attached->pid == 0)
        return -EPERM;
    int r = check_gate(attached, &marks); /* not into memory that is none */
    if (r == 0)
        r = set_mark(attached, marks, &mark);
    if (r < 0)
        return r;
    /* our mark before the second look, as the owner's closing before its look at the marks */
    atomic_thread_fence(memory_order_seq_cst);
    r = check_gate(attached, &marks);
    if (r < 0)
        attached_leave(attached, mark);
    else
        *ret_mark_address = mark;
    return r;
}

void attached_leave(const struct attached *attached, uint64_t mark_address)
{
    const uint64_t nothing = 0;
    const struct iovec there = {(void *)(uintptr_t)mark_address, sizeof(nothing)};
    atomic_thread_fence(memory_order_release); /* after what was stored */
    write_vectors(attached, &nothing, sizeof(nothing), &there, 1);
}

int attached_write(const struct attached *attached, uint64_t position_bytes, const void *packed,
                   uint64_t length_bytes)
{
    const uint8_t *from = packed;
    struct layout_cursor cursor;
    int r = 0;
    layout_cursor_init(&cursor, attached->layout, position_bytes);
    while (r == 0 && length_bytes > 0) {
        struct iovec there[VECTORS];
        unsigned long count = 0;
        uint64_t bytes = 0, block;
        int64_t offset;
        while (count < VECTORS && bytes < length_bytes &&
               layout_cursor_next(&cursor, length_bytes - bytes, &offset, &block)) {
            there[count++] =
                (struct iovec){(void *)(uintptr_t)(attached->address + (uint64_t)offset), block};
            bytes += block;
        }
        r = write_vectors(attached, from, bytes, there, count);
        from += bytes;
        length_bytes -= bytes;
    }
    return r;
}

/* ---- the owner ---- */

struct attached_marks *attached_marks_new(void)
{
    struct attached_marks *marks = mmap(NULL, sizeof(*marks), PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (marks == MAP_FAILED)
        return NULL;
    madvise(marks, sizeof(*marks), MADV_NOHUGEPAGE); /* few places are used */
    return marks;
}

void attached_gate_open(struct attached_gate *gate, const struct attached_marks *marks,
                        const uint64_t name[2])
{
    gate->self_address = (uint64_t)(uintptr_t)gate;
    gate->marks_address = (uint64_t)(uintptr_t)marks;
    for (unsigned i = 0; i < 2; i++)
        atomic_store_explicit(&gate->name[i], name[i], memory_order_relaxed);
}

void attached_gate_close(struct attached_gate *gate)
{
    for (unsigned i = 0; i < 2; i++)
        atomic_store_explicit(&gate->name[i], 0, memory_order_relaxed);
    /* before the look at the marks; pairs with attached_enter() */
    atomic_thread_fence(memory_order_seq_cst);
}

/* A thread that was killed leaves its mark. Also of a zombie, the kernel says that it has no memory. */
static bool has_ended(pid_t thread)
{
    uint8_t byte;
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    return process_vm_readv(thread, &here, 1, &there, 1, 0) < 0 && errno == ESRCH;
}

pid_t attached_writer(const struct attached_marks *marks, uint64_t region)
{
    for (pid_t thread = 0; thread < ATTACHED_THREADS; thread++) {
        if (thread % ATTACHED_PAGE_THREADS == 0 &&
            atomic_load_explicit(&marks->used[thread / ATTACHED_PAGE_THREADS],
                                 memory_order_acquire) == 0) {
            thread += ATTACHED_PAGE_THREADS - 1;
            continue;
        }
        /* acquire: what it has stored is there */
        if (atomic_load_explicit(&marks->regions[thread], memory_order_acquire) == region &&
            !has_ended(thread))
            return thread;
    }
    return 0;
}
