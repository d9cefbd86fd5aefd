#include "drivers/shm/attached.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

enum { VECTORS = 256 };

/* Process ids are reused and differ between containers, so the process must prove itself by the
 * region's name in its memory. */
static int check_process(const struct attached *attached)
{
    uint64_t name[2];
    struct iovec here = {name, sizeof(name)},
                 there = {(void *)(uintptr_t)attached->name_address, sizeof(name)};
    ssize_t n = process_vm_readv(attached->pid, &here, 1, &there, 1, 0);
    if (n < 0)
        return errno == EFAULT ? -EOWNERDEAD : -errno;
    return n == sizeof(name) && memcmp(name, attached->name, sizeof(name)) == 0 ? 0 : -EOWNERDEAD;
}

static int write_vectors(const struct attached *attached, const uint8_t *packed, uint64_t bytes,
                         const struct iovec *there, unsigned long count)
{
    struct iovec here = {(void *)(uintptr_t)packed, bytes};
    ssize_t n = process_vm_writev(attached->pid, &here, 1, there, count, 0);
    if (n < 0)
        return -errno;
    return (uint64_t)n == bytes ? 0 : -EFAULT;
}

int attached_write(const struct attached *attached, uint64_t position_bytes, const void *packed,
                   uint64_t length_bytes)
{
    const uint8_t *from = packed;
    struct layout_cursor cursor;
    int r = check_process(attached);
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
