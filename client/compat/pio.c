/* CPU stores: into memory of this process by the CPU, into that of others by small plans
 * (stores.h). */
#include <string.h>

#include "client/compat/stores.h"
#include "client/compat/turn.h"

#define PIO_MAGIC 0x4f495054u /* "TPIO" */

/* The contents of a tcaPIOHandle. */
struct part {
    uint32_t magic;
    uint32_t reserved;
    uint64_t offset_bytes;
    struct reference remote;
};
_Static_assert(sizeof(struct part) <= sizeof(tcaPIOHandle), "fits into a PIO handle");

static tcaresult check_host(const struct reference *remote, const char *name)
{
    if (!remote->device)
        return TCA_SUCCESS;
    return compat_fail(TCA_ERROR_NOT_SUPPORTED,
                       "%s: the handle names GPU memory, which a CPU cannot store to: use a "
                       "descriptor (tcaDescSetMemcpy)",
                       name);
}

TCA_API tcaresult tcaSetPIORegion(tcaPIOHandle *ret_pio, const tcaHandle *remote, off_t off,
                                  size_t size)
{
    TAKE_TURN();
    struct part part = {.magic = PIO_MAGIC, .offset_bytes = (uint64_t)off};
    uint64_t end;
    tcaresult result = reference_read(remote, "tcaSetPIORegion", &part.remote);
    if (result == TCA_SUCCESS)
        result = check_host(&part.remote, "tcaSetPIORegion");
    if (result != TCA_SUCCESS)
        return result;
    if (!ret_pio)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaSetPIORegion: the PIO handle is NULL");
    if (off < 0 || __builtin_add_overflow(part.offset_bytes, (uint64_t)size, &end) ||
        end > part.remote.bytes)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "tcaSetPIORegion: %zu bytes at offset %lld exceed the %llu "
                           "bytes of the handle",
                           size, (long long)off, (unsigned long long)part.remote.bytes);
    memset(ret_pio, 0, sizeof(*ret_pio));
    memcpy(ret_pio, &part, sizeof(part));
    return TCA_SUCCESS;
}

static tcaresult read_part(const tcaPIOHandle *handle, off_t off, size_t size,
                           struct part *ret_part)
{
    struct part part;
    uint64_t end;
    int64_t begin;
    tcaresult result = compat_ready();
    if (result != TCA_SUCCESS)
        return result;
    if (!handle)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaSendPIO: the PIO handle is NULL");
    memcpy(&part, handle, sizeof(part));
    if (part.magic != PIO_MAGIC || part.remote.rank >= compat.size)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "tcaSendPIO: not a PIO handle from tcaSetPIORegion()");
    if (__builtin_add_overflow((int64_t)part.offset_bytes, (int64_t)off, &begin) || begin < 0 ||
        __builtin_add_overflow((uint64_t)begin, (uint64_t)size, &end) || end > part.remote.bytes)
        return compat_fail(
            TCA_ERROR_INVALID_VALUE,
            "tcaSendPIO: %zu bytes at %llu + %lld exceed the %llu bytes of the handle", size,
            (unsigned long long)part.offset_bytes, (long long)off,
            (unsigned long long)part.remote.bytes);
    part.offset_bytes = (uint64_t)begin;
    *ret_part = part;
    return check_host(&part.remote, "tcaSendPIO");
}

/* ---- to this process ---- */

static void store_last(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    uint64_t word;
    uint32_t half;
    if (bytes == sizeof(word) && ((uintptr_t)to & 7) == 0) {
        memcpy(&word, from, sizeof(word));
        __atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
    } else if (bytes == sizeof(half) && ((uintptr_t)to & 3) == 0) {
        memcpy(&half, from, sizeof(half));
        __atomic_store_n((uint32_t *)to, half, __ATOMIC_RELEASE);
    } else {
        __atomic_thread_fence(__ATOMIC_RELEASE);
        memcpy(to, from, bytes);
    }
}

static tcaresult store_here(const struct part *part, const void *src, size_t size)
{
    struct tca_region *region;
    uint64_t offset;
    tcaresult result = reference_region(&part->remote, &region, &offset);
    if (result != TCA_SUCCESS)
        return result;
    uint8_t *to = (uint8_t *)(uintptr_t)(part->remote.address + part->offset_bytes);
    uint64_t head = store_head((uintptr_t)to, size);
    memcpy(to, src, head);
    store_last(to + head, (const uint8_t *)src + head, size - head);
    return TCA_SUCCESS;
}

TCA_API tcaresult tcaSendPIO(const tcaPIOHandle *handle, off_t off, const void *src, size_t size)
{
    TAKE_TURN();
    struct part part;
    tcaresult result = read_part(handle, off, size, &part);
    if (result != TCA_SUCCESS || size == 0)
        return result;
    if (!src)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaSendPIO: the source of %zu bytes is NULL",
                           size);
    return part.remote.rank == compat.rank
               ? store_here(&part, src, size)
               : stores_send(&part.remote, part.offset_bytes, src, size);
}

TCA_API tcaresult tcaSendPIOCommit(void)
{
    TAKE_TURN();
    tcaresult result = compat_ready();
    return result == TCA_SUCCESS ? stores_finish("tcaSendPIOCommit", TCA_FOREVER) : result;
}
