/* Registered memory. */
#include <errno.h>
#include <stdlib.h>

#include "drivers/ofi/ofi.h"

enum { KEY_ATTEMPTS = 16 };

static int register_once(struct ofi_driver *ofi, void *base, uint64_t length_bytes, uint64_t access,
                         struct fid_mr **ret_mr)
{
    /* Whoever knows the key can write: where the provider lets us choose it, nobody can guess it.
     */
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
    if (fi_mr_key(mr) == FI_KEY_NOTAVAIL) { /* a raw key: nothing that fits an address or a blob */
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
                           const uint8_t *place)
{
    if (ofi->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        return (uint64_t)(uintptr_t)place;
    return (uint64_t)(place - memory->base);
}

int ofi_region_add(struct driver *driver, const struct driver_memory *memory,
                   struct driver_region **ret_region)
{
    struct ofi_region *region = calloc(1, sizeof(*region));
    if (!region)
        return -ENOMEM;
    int r = ofi_memory_register(ofi_of(driver), memory->base, memory->length_bytes,
                                FI_WRITE | FI_REMOTE_WRITE, &region->memory);
    if (r < 0) {
        free(region);
        return r;
    }
    *ret_region = (struct driver_region *)region;
    return 0;
}

void ofi_region_remove(struct driver *driver, struct driver_region *driver_region)
{
    struct ofi_region *region = (struct ofi_region *)driver_region;
    ofi_memory_close(&region->memory);
    free(region);
}
