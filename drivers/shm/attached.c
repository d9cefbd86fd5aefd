#include "drivers/shm/attached.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { VECTORS = 256 };

/* ---- the writer ---- */

/* Process ids are reused and differ between containers, so the process must prove itself by the
 * region's name in its memory. */
static int check_gate(const struct attached *attached)
{
    uint64_t head[3]; /* name and writers_address */
    struct iovec here = {head, sizeof(head)},
                 there = {(void *)(uintptr_t)attached->gate_address, sizeof(head)};
    ssize_t n = process_vm_readv(attached->pid, &here, 1, &there, 1, 0);
    if (n < 0)
        return errno == EFAULT ? -EOWNERDEAD : -errno;
    if (n != sizeof(head) ||
        head[2] != attached->gate_address + offsetof(struct attached_gate, writers))
        return -EOWNERDEAD;
    return memcmp(head, attached->name, sizeof(attached->name)) == 0 ? 0 : -ESTALE;
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

static int set_writer(const struct attached *attached, uint32_t value)
{
    const uint64_t place = (uint64_t)getpid() % ATTACHED_WRITERS * sizeof(value);
    const struct iovec there = {(void *)(uintptr_t)(attached->gate_address +
                                                    offsetof(struct attached_gate, writers) +
                                                    place),
                                sizeof(value)};
    return write_vectors(attached, &value, sizeof(value), &there, 1);
}

int attached_enter(const struct attached *attached)
{
    int r = check_gate(attached); /* not into memory that is none */
    if (r == 0)
        r = set_writer(attached, (uint32_t)getpid());
    if (r < 0)
        return r;
    /* our id before the second look, as the owner's closing before its look at the ids */
    atomic_thread_fence(memory_order_seq_cst);
    r = check_gate(attached);
    if (r < 0)
        attached_leave(attached);
    return r;
}

void attached_leave(const struct attached *attached)
{
    atomic_thread_fence(memory_order_release); /* after what was stored */
    set_writer(attached, 0);
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

void attached_gate_open(struct attached_gate *gate, const uint64_t name[2])
{
    gate->writers_address = (uint64_t)(uintptr_t)gate->writers;
    for (unsigned i = 0; i < 2; i++)
        atomic_store_explicit(&gate->name[i], name[i], memory_order_relaxed);
}

void attached_gate_close(struct attached_gate *gate)
{
    for (unsigned i = 0; i < 2; i++)
        atomic_store_explicit(&gate->name[i], 0, memory_order_relaxed);
    /* before the look at the writers; pairs with attached_enter() */
    atomic_thread_fence(memory_order_seq_cst);
}

pid_t attached_gate_writer(const struct attached_gate *gate)
{
    for (unsigned i = 0; i < ATTACHED_WRITERS; i++) {
        /* acquire: what it has stored is there */
        const uint32_t pid = atomic_load_explicit(&gate->writers[i], memory_order_acquire);
        if (pid != 0 && (int32_t)pid > 0 && (kill((pid_t)pid, 0) == 0 || errno != ESRCH))
            return (pid_t)pid;
    }
    return 0;
}
