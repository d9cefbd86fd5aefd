/* Landings: the targets of peers' puts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/ofi/ofi.h"

static void free_landing(struct ofi_landing *landing)
{
    packed_deinit(&landing->target);
    free(landing);
}

static struct ofi_blob make_blob(struct ofi_driver *ofi, struct ofi_region *region,
                                 const struct ofi_landing *landing)
{
    struct ofi_blob blob = {
        .magic = OFI_BLOB_MAGIC,
        .landing = landing->index,
        .generation = landing->generation,
        .cookie = ofi->address.cookie,
        .landing_key = landing->key,
        .size_bytes = landing->target.size_bytes,
    };
    if (blob.size_bytes > 0 && !landing->target.program) {
        blob.flags |= OFI_BLOB_CONTIGUOUS;
        blob.address = ofi_memory_remote(ofi, &region->memory, landing->target.base);
        blob.key = fi_mr_key(region->memory.mr);
        region->told = true;
    }
    return blob;
}

int ofi_landing_new(struct driver *driver, const struct driver_landing_args *args,
                    struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes)
{
    struct ofi_driver *ofi = ofi_of(driver);
    struct ofi_region *region = (struct ofi_region *)args->region;
    if (region && !layout_fits(args->layout, args->offset_bytes, region->memory.length_bytes))
        return -ERANGE;
    struct ofi_landing *landing = calloc(1, sizeof(*landing));
    if (!landing)
        return -ENOMEM;
    landing->notify = args->notify;
    landing->token = args->token;
    int r = ofi_random(&landing->key, sizeof(landing->key));
    if (r == 0 && region)
        r = packed_target_init(&landing->target, region->memory.base + args->offset_bytes,
                               args->layout, args->program);
    if (r == 0)
        r = landings_add(&ofi->landings, landing, &landing->index, &landing->generation);
    if (r < 0) {
        free_landing(landing);
        return r;
    }
    const struct ofi_blob blob = make_blob(ofi, region, landing);
    memcpy(ret_blob, &blob, sizeof(blob));
    *ret_blob_bytes = sizeof(blob);
    *ret_landing = (struct driver_landing *)landing;
    return 0;
}

static_assert(sizeof(struct ofi_landing) + 2 * sizeof(struct landing_slot) <= DRIVER_LANDING_BYTES,
              "a landing is charged as this");

uint64_t ofi_landing_bytes(const struct driver_landing *landing)
{
    return packed_memory_bytes(&((const struct ofi_landing *)landing)->target);
}

void ofi_landing_free(struct driver *driver, struct driver_landing *driver_landing)
{
    struct ofi_landing *landing = (struct ofi_landing *)driver_landing;
    landings_remove(&ofi_of(driver)->landings, landing->index);
    free_landing(landing);
}
