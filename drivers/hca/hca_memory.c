/* Regions and landings. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/hca/hca.h"
#include "proto/wait.h"

/* The device refuses dmabufs, or this exporter's, which its mapping need not have pages for. */
static struct ibv_mr *register_dmabuf(const struct hca_region *region, int access)
{
    struct ibv_mr *mr =
        ibv_reg_dmabuf_mr(region->domain->pd, region->dmabuf_offset_bytes, region->length_bytes,
                          (uintptr_t)region->base, region->dmabuf, access);
    return mr ? mr : ibv_reg_mr(region->domain->pd, region->base, region->length_bytes, access);
}

static int register_memory(struct hca_region *region)
{
    const int access = region->remote ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
    if (!region->domain)
        return 0;
    region->mr = region->dmabuf >= 0
                     ? register_dmabuf(region, access)
                     : ibv_reg_mr(region->domain->pd, region->base, region->length_bytes, access);
    return region->mr ? 0 : errno > 0 ? -errno : -ENOMEM;
}

int hca_region_make(struct hca_driver *hca, const struct hca_part *part,
                    const struct driver_memory *memory, struct hca_region **ret_region)
{
    struct hca_region *region = malloc(sizeof(*region));
    if (region)
        *region = (struct hca_region){
            .domain = part->domain,
            .remote = part->remote,
            .base = (uint8_t *)memory->base + part->offset_bytes,
            .length_bytes = part->bytes,
            .dmabuf = memory->dmabuf ? memory->fd : -1,
            .dmabuf_offset_bytes = part->offset_bytes,
            .gone = memory->gone,
            .context = memory->context,
            .registered = 1,
        };
    int r = region ? register_memory(region) : -ENOMEM;
    if (r < 0) {
        hca_domain_give(hca, part->domain);
        free(region);
        return r;
    }
    pthread_mutex_lock(&hca->lock);
    region->number = ++hca->regions;
    pthread_mutex_unlock(&hca->lock);
    *ret_region = region;
    return 0;
}

int hca_region_add(struct driver *driver, const struct driver_memory *memory,
                   struct driver_region **ret_region)
{
    struct hca_driver *hca = hca_of(driver);
    const struct hca_part all = {
        .domain = hca_domain_take(hca, hca->domain), .remote = true, .bytes = memory->length_bytes};
    struct hca_region *region;
    int r = hca_region_make(hca, &all, memory, &region);
    if (r == 0)
        *ret_region = (struct driver_region *)region;
    return r;
}

void hca_region_remove(struct driver *driver, struct driver_region *driver_region)
{
    struct hca_region *region = (struct hca_region *)driver_region;
    if (!region)
        return;
    hca_parts_remove(hca_of(driver), region);
    if (region->told)
        recall_begin(&hca_of(driver)->recall, &region->recall, clock_now_ns());
    else
        hca_region_free(hca_of(driver), region);
}

void hca_landing_unmake(struct hca_driver *hca, struct hca_landing *landing)
{
    if (landing->part)
        hca_part_give(hca, landing->region, landing->part);
    packed_deinit(&landing->target);
    free(landing);
}

int hca_landing_make(struct hca_driver *hca, const struct driver_landing_args *args,
                     struct hca_landing **ret_landing)
{
    struct hca_region *region = (struct hca_region *)args->region;
    if (region && !layout_fits(args->layout, args->offset_bytes, region->length_bytes))
        return -ERANGE;
    struct hca_landing *landing = calloc(1, sizeof(*landing));
    if (!landing)
        return -ENOMEM;
    landing->notify = args->notify;
    landing->token = args->token;
    landing->region = region;
    landing->offset_bytes = args->offset_bytes;
    landing->part_offset_bytes = args->part_offset_bytes;
    landing->part_bytes = args->part_bytes;
    int r = region ? packed_target_init(&landing->target, region->base + args->offset_bytes,
                                        args->layout, args->program)
                   : 0;
    if (r < 0) {
        hca_landing_unmake(hca, landing);
        return r;
    }
    *ret_landing = landing;
    return 0;
}

int hca_landing_register(struct hca_driver *hca, struct hca_landing *landing,
                         struct hca_domain *domain)
{
    const struct hca_part wanted = {.domain = domain,
                                    .remote = true,
                                    .offset_bytes = landing->part_offset_bytes,
                                    .bytes = landing->part_bytes};
    int r = landing->region && !landing->part
                ? hca_part_take(hca, landing->region, &wanted, &landing->part)
                : 0;
    if (r == 0 && landing->part)
        landing->part->told = true;
    return r;
}

int hca_landing_new(struct driver *driver, const struct driver_landing_args *args,
                    struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes)
{
    struct hca_driver *hca = hca_of(driver);
    const struct hca_region *region = (const struct hca_region *)args->region;
    struct hca_landing *landing;
    int r = hca_landing_make(hca, args, &landing);
    if (r < 0)
        return r;
    r = hca_landing_register(hca, landing, hca->domain);
    if (r == 0)
        r = landings_add(&hca->landings, landing, &landing->index, &landing->generation);
    if (r < 0) {
        hca_landing_unmake(hca, landing);
        return r;
    }
    const struct hca_blob blob = {
        .magic = HCA_BLOB_MAGIC,
        .landing = landing->index,
        .generation = landing->generation,
        .rkey = landing->part ? landing->part->mr->rkey : 0,
        .address = landing->part ? (uintptr_t)region->base + args->offset_bytes : 0,
        .size_bytes = landing->target.size_bytes,
        .id = hca->address.id,
        .region = landing->part ? landing->part->number : 0,
    };
    memcpy(ret_blob, &blob, sizeof(blob));
    *ret_blob_bytes = sizeof(blob);
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
    struct hca_driver *hca = hca_of(driver);
    landings_remove(&hca->landings, landing->index);
    hca_landing_unmake(hca, landing);
}
