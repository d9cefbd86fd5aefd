/* Registered memory. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/ofi/ofi.h"

enum { KEY_ATTEMPTS = 16 };

static int register_once(struct ofi_driver *ofi, void *base, uint64_t length_bytes, uint64_t access,
                         struct fid_mr **ret_mr)
{
    /* The key gives access, so it is random if the provider lets the driver choose it. */
    uint64_t key = 0;
    const int mr_mode = ofi->info->domain_attr->mr_mode;
    if (!(mr_mode & FI_MR_PROV_KEY)) {
        int r = ofi_random(&key, sizeof(key));
        if (r < 0)
            return r;
        if (ofi->info->domain_attr->mr_key_size < sizeof(key))
            key &= (UINT64_C(1) << ofi->info->domain_attr->mr_key_size * 8) - 1;
    }
    struct fid_mr *mr;
    int r = fi_mr_reg(ofi->domain, base, length_bytes, access, 0, key, 0, &mr, NULL);
    if (r < 0)
        return r;
    if (mr_mode & FI_MR_ENDPOINT) {
        r = fi_mr_bind(mr, &ofi->endpoint->fid, 0);
        if (r == 0)
            r = fi_mr_enable(mr);
        if (r < 0) {
            fi_close(&mr->fid);
            return r;
        }
    }
    if (fi_mr_key(mr) == FI_KEY_NOTAVAIL) { /* a raw key, too long for addresses and blobs */
        fi_close(&mr->fid);
        return -EOPNOTSUPP;
    }
    *ret_mr = mr;
    return 0;
}

int ofi_memory_register(struct ofi_driver *ofi, void *base, uint64_t length_bytes, uint64_t access,
                        struct ofi_memory *ret_memory)
{
    struct fid_mr *mr;
    int r = -FI_ENOKEY;
    for (int attempt = 0; attempt < KEY_ATTEMPTS && r == -FI_ENOKEY; attempt++)
        r = register_once(ofi, base, length_bytes, access, &mr);
    if (r < 0)
        return r == -FI_ENOKEY ? -EEXIST : r;
    *ret_memory = (struct ofi_memory){.mr = mr, .base = base, .length_bytes = length_bytes};
    return 0;
}

void ofi_memory_close(struct ofi_memory *memory)
{
    if (memory->mr)
        fi_close(&memory->mr->fid);
    *memory = (struct ofi_memory){0};
}

uint64_t ofi_memory_remote(const struct ofi_driver *ofi, const struct ofi_memory *memory,
                           const uint8_t *at)
{
    if (ofi->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        return (uint64_t)(uintptr_t)at;
    return (uint64_t)(at - memory->base);
}

/* ---- regions, which ofi_region_quarantine() frees ---- */

enum { ALIGN_BYTES = 2 << 20 }; /* the size of a huge page */

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Mappings of huge pages must consist of whole ones. */
static uint64_t page_bytes(int fd)
{
    struct stat status;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (fd >= 0 && fstat(fd, &status) == 0 && (uint64_t)status.st_blksize > page)
        page = (uint64_t)status.st_blksize;
    return page;
}

static int map(int fd, uint64_t offset_bytes, struct ofi_region *region, uint64_t length_bytes)
{
    const uint64_t page = page_bytes(fd), align = page > ALIGN_BYTES ? page : ALIGN_BYTES,
                   bytes = round_up(length_bytes, page);
    uint8_t *reserved =
        mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED)
        return -errno;
    uint8_t *base = (uint8_t *)round_up((uintptr_t)reserved, align);
    const int flags = fd >= 0 ? MAP_SHARED | MAP_POPULATE : MAP_PRIVATE | MAP_ANONYMOUS;
    if (mmap(base, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, (off_t)offset_bytes) ==
        MAP_FAILED) {
        int r = -errno;
        munmap(reserved, bytes + align);
        return r;
    }
    if (base > reserved)
        munmap(reserved, (size_t)(base - reserved));
    munmap(base + bytes, (size_t)(reserved + align - base));
    region->memory.base = base;
    region->mapped_bytes = bytes;
    region->shared = fd >= 0;
    return 0;
}

static void add_key(struct ofi_driver *ofi, struct ofi_region *region)
{
    struct ofi_region **first = &ofi->regions[ofi_key_bucket(fi_mr_key(region->memory.mr))];
    pthread_mutex_lock(&ofi->regions_lock);
    region->link_of_key = first;
    region->next_of_key = *first;
    if (*first)
        (*first)->link_of_key = &region->next_of_key;
    *first = region;
    pthread_mutex_unlock(&ofi->regions_lock);
}

void ofi_region_forget(struct ofi_driver *ofi, struct ofi_region *region)
{
    pthread_mutex_lock(&ofi->regions_lock);
    *region->link_of_key = region->next_of_key;
    if (region->next_of_key)
        region->next_of_key->link_of_key = region->link_of_key;
    pthread_mutex_unlock(&ofi->regions_lock);
}

bool ofi_region_known(struct ofi_driver *ofi, uint64_t key)
{
    pthread_mutex_lock(&ofi->regions_lock);
    const struct ofi_region *region = ofi->regions[ofi_key_bucket(key)];
    while (region && (!region->told || fi_mr_key(region->memory.mr) != key))
        region = region->next_of_key;
    pthread_mutex_unlock(&ofi->regions_lock);
    return region;
}

int ofi_region_new(struct ofi_driver *ofi, int fd, uint64_t offset_bytes, uint64_t length_bytes,
                   uint64_t access, struct ofi_region **ret_region)
{
    if (atomic_load_explicit(&ofi->quarantine_count, memory_order_relaxed) > OFI_QUARANTINE_MAX ||
        atomic_load_explicit(&ofi->quarantine_bytes, memory_order_relaxed) >
            (uint64_t)OFI_QUARANTINE_MAX_GIB << 30)
        return -EBUSY; /* senders do not confirm that they have stopped writing */
    struct ofi_region *region = calloc(1, sizeof(*region));
    if (!region)
        return -ENOMEM;
    int r = map(fd, offset_bytes, region, length_bytes);
    if (r == 0)
        r = ofi_memory_register(ofi, region->memory.base, length_bytes, access, &region->memory);
    if (r < 0) {
        if (region->mapped_bytes > 0)
            munmap(region->memory.base, region->mapped_bytes);
        free(region);
        return r;
    }
    add_key(ofi, region);
    *ret_region = region;
    return 0;
}

int ofi_region_add(struct driver *driver, const struct driver_memory *memory,
                   struct driver_region **ret_region)
{
    struct ofi_region *region;
    int r = memory->fd < 0
                ? -EBADF
                : ofi_region_new(ofi_of(driver), memory->fd, memory->offset_bytes,
                                 memory->length_bytes, FI_WRITE | FI_REMOTE_WRITE, &region);
    if (r < 0)
        return r;
    region->gone = memory->gone;
    region->context = memory->context;
    *ret_region = (struct driver_region *)region;
    return 0;
}

void ofi_region_remove(struct driver *driver, struct driver_region *driver_region)
{
    ofi_region_quarantine(ofi_of(driver), (struct ofi_region *)driver_region);
}
