/* Regions and landings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/hca/hca.h"

int hca_region_add(struct driver *driver, const struct driver_memory *memory,
                   struct driver_region **ret_region)
{
    struct hca_driver *hca = hca_of(driver);
    struct hca_region *region = malloc(sizeof *region);
    if (!region)
        return -ENOMEM;
    *region = (struct hca_region){
        .base = memory->base,
        .length_bytes = memory->length_bytes,
        .gone = memory->gone,
        .context = memory->context,
    };
    region->mr = ibv_reg_mr(hca->pd, memory->base, memory->length_bytes,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!region->mr) {
        const int r = errno > 0 ? -errno : -ENOMEM;
        free(region);
        return r;
    }
    pthread_mutex_lock(&hca->lock);
    region->number = ++hca->regions;
    pthread_mutex_unlock(&hca->lock);
    *ret_region = (struct driver_region *)region;
    return 0;
}

void hca_region_remove(struct driver *driver, struct driver_region *driver_region)
{
    struct hca_region *region = (struct hca_region *)driver_region;
    if (!region)
        return;
    hca_parts_remove(hca_of(driver), region);
    if (region->told)
        hca_region_recall(hca_of(driver), region);
    else
        hca_region_free(region);
}

static void free_landing(struct hca_driver *hca, struct hca_landing *landing)
{
    if (landing->part)
        hca_part_give(hca, landing->region, landing->part);
    packed_deinit(&landing->target);
    free(landing);
}

int hca_landing_new(struct driver *driver, const struct driver_landing_args *args,
                    struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes)
{
    struct hca_driver *hca = hca_of(driver);
    struct hca_region *region = (struct hca_region *)args->region;
    if (region && !layout_fits(args->layout, args->offset_bytes, region->length_bytes))
        return -ERANGE;
    struct hca_landing *landing = calloc(1, sizeof *landing);
    if (!landing)
        return -ENOMEM;
    landing->notify = args->notify;
    landing->token = args->token;
    landing->region = region;
    int r = 0;
    if (region)
        r = hca_part_take(hca, region, args->part_offset_bytes, args->part_bytes, &landing->part);
    if (region && r == 0)
        r = packed_target_init(&landing->target, region->base + args->offset_bytes, args->layout,
                               args->program);
    if (r == 0)
        r = landings_add(&hca->landings, landing, &landing->index, &landing->generation);
    if (r < 0) {
        free_landing(hca, landing);
        return r;
    }
    const struct hca_blob blob = {
        .magic = HCA_BLOB_MAGIC,
        .landing = landing->index,
        .generation = landing->generation,
        .rkey = region ? landing->part->mr->rkey : 0,
        .address = region ? (uintptr_t)region->base + args->offset_bytes : 0,
        .size_bytes = landing->target.size_bytes,
        .id = hca->address.id,
        .region = region ? landing->part->number : 0,
    };
    if (region)
        landing->part->told = true;
    memcpy(ret_blob, &blob, sizeof blob);
    *ret_blob_bytes = sizeof blob;
    *ret_landing = (struct driver_landing *)landing;
    return 0;
}

static_assert(sizeof(struct hca_landing) + 2 * sizeof(struct landing_slot) <= DRIVER_LANDING_BYTES,
              "a landing is charged as this");

uint64_t hca_landing_bytes(const struct driver_landing *landing)
{
    return packed_memory_bytes(&((const struct hca_landing *)landing)->target);
}

void hca_landing_free(struct driver *driver, struct driver_landing *driver_landing)
{
    struct hca_landing *landing = (struct hca_landing *)driver_landing;
    landings_remove(&hca_of(driver)->landings, landing->index);
    free_landing(hca_of(driver), landing);
}
