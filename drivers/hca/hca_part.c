/*
 * Domains, and parts of regions. A key lets a peer write to all that was registered with it, so a
 * landing in a part that has a handle of its own gets the key of a registration of that part. (A
 * memory window would be cheaper, but soft-RoCE of Linux 6.1 ignores its bounds.) A process
 * registers each part once for each peer that may use it. Landings and puts share the
 * registrations, and some unused ones are kept for later.
 */
#include <errno.h>
#include <stdlib.h>

#include "drivers/hca/hca.h"

enum { PARTS_KEPT = 16 }; /* of a region, unused */

/* ---- domains ---- */

int hca_domain_new(struct hca_driver *hca, struct hca_domain **ret_domain)
{
    struct hca_domain *domain = malloc(sizeof(*domain));
    if (!domain)
        return -ENOMEM;
    *domain = (struct hca_domain){.pd = ibv_alloc_pd(hca->context), .users = 1};
    if (!domain->pd) {
        free(domain);
        return errno > 0 ? -errno : -ENOMEM;
    }
    *ret_domain = domain;
    return 0;
}

struct hca_domain *hca_domain_take(struct hca_driver *hca, struct hca_domain *domain)
{
    if (!domain)
        return NULL;
    pthread_mutex_lock(&hca->lock);
    domain->users++;
    pthread_mutex_unlock(&hca->lock);
    return domain;
}

void hca_domain_give(struct hca_driver *hca, struct hca_domain *domain)
{
    if (!domain)
        return;
    pthread_mutex_lock(&hca->lock);
    const bool is_used = --domain->users > 0;
    pthread_mutex_unlock(&hca->lock);
    if (is_used)
        return;
    ibv_dealloc_pd(domain->pd);
    free(domain);
}

/* ---- parts ---- */

static bool is_region(const struct hca_region *region, const struct hca_part *wanted)
{
    return wanted->domain == region->domain && wanted->offset_bytes == 0 &&
           wanted->bytes == region->length_bytes;
}

/* The lock is held. */
static struct hca_region *find(struct hca_region *region, const struct hca_part *wanted)
{
    struct hca_region *part = region->parts;
    while (part && (part->base != region->base + wanted->offset_bytes ||
                    part->length_bytes != wanted->bytes || part->domain != wanted->domain ||
                    part->remote != wanted->remote))
        part = part->next_part;
    return part;
}

static int make(struct hca_driver *hca, struct hca_region *region, const struct hca_part *wanted)
{
    const struct driver_memory memory = {
        .base = region->base, .fd = region->dmabuf, .dmabuf = region->dmabuf >= 0};
    struct hca_region *part;
    hca_domain_take(hca, wanted->domain);
    int r = hca_region_make(hca, wanted, &memory, &part);
    if (r < 0)
        return r;
    pthread_mutex_lock(&hca->lock);
    const bool is_new = !find(region, wanted);
    if (is_new) {
        part->whole = region;
        atomic_fetch_add(&region->registered, 1);
        part->next_part = region->parts;
        region->parts = part;
    }
    pthread_mutex_unlock(&hca->lock);
    if (!is_new)
        hca_region_free(hca, part);
    return 0;
}

static struct hca_region *take(struct hca_driver *hca, struct hca_region *region,
                               const struct hca_part *wanted)
{
    pthread_mutex_lock(&hca->lock);
    struct hca_region *part = find(region, wanted);
    if (part)
        part->users++;
    pthread_mutex_unlock(&hca->lock);
    return part;
}

int hca_part_take(struct hca_driver *hca, struct hca_region *region, const struct hca_part *args,
                  struct hca_region **ret_part)
{
    struct hca_part wanted = *args;
    struct hca_region *part = region;
    int r = 0;
    if (wanted.bytes == 0)
        wanted.bytes = region->length_bytes;
    if (!is_region(region, &wanted))
        while (!(part = take(hca, region, &wanted)) && r == 0)
            r = make(hca, region, &wanted);
    if (!part)
        return r;
    *ret_part = part;
    return 0;
}

int hca_region_part(struct driver *driver, struct driver_region *driver_region, uint64_t offset,
                    uint64_t bytes)
{
    struct hca_driver *hca = hca_of(driver);
    struct hca_region *region = (struct hca_region *)driver_region, *part;
    const struct hca_part wanted = {
        .domain = hca->domain, .remote = true, .offset_bytes = offset, .bytes = bytes};
    int r = hca_part_take(hca, region, &wanted, &part);
    if (r == 0)
        hca_part_give(hca, region, part);
    return r;
}

/* Takes the unused part that was added first out of the list, if too many are unused. The lock is
 * held. */
static struct hca_region *take_oldest(struct hca_region *region)
{
    struct hca_region **oldest = NULL;
    unsigned unused = 0;
    for (struct hca_region **at = &region->parts; *at; at = &(*at)->next_part) {
        if ((*at)->users > 0)
            continue;
        oldest = at;
        unused++;
    }
    if (unused <= PARTS_KEPT)
        return NULL;
    struct hca_region *part = *oldest;
    *oldest = part->next_part;
    return part;
}

void hca_part_give(struct hca_driver *hca, struct hca_region *region, struct hca_region *part)
{
    struct hca_region *old = NULL;
    if (part == region)
        return;
    pthread_mutex_lock(&hca->lock);
    if (--part->users == 0)
        old = take_oldest(region);
    pthread_mutex_unlock(&hca->lock);
    hca_region_remove(&hca->driver, (struct driver_region *)old);
}

void hca_parts_remove(struct hca_driver *hca, struct hca_region *region)
{
    while (region->parts) {
        struct hca_region *part = region->parts;
        region->parts = part->next_part;
        hca_region_remove(&hca->driver, (struct driver_region *)part);
    }
}
