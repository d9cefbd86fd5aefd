/*
 * Parts of regions. A key lets a peer write to all that was registered with it, so a landing in a part
 * that has a handle of its own gets the key of a registration of that part. (A memory window would be
 * cheaper, but soft-RoCE of Linux 6.1 ignores its bounds.) Landings share the registrations, and some
 * unused ones are kept for later landings.
 */
#include <errno.h>
#include <stdlib.h>

#include "drivers/hca/hca.h"

enum { PARTS_KEPT = 16 }; /* of a region, unused */

static bool is_whole(const struct hca_region *region, uint64_t offset, uint64_t bytes)
{
    return bytes == 0 || (offset == 0 && bytes == region->length_bytes);
}

/* The lock is held. */
static struct hca_region *find(struct hca_region *region, const uint8_t *base, uint64_t bytes)
{
    struct hca_region *part = region->parts;
    while (part && (part->base != base || part->length_bytes != bytes))
        part = part->next_part;
    return part;
}

static int make(struct hca_driver *hca, struct hca_region *region, uint64_t offset, uint64_t bytes)
{
    const struct driver_memory memory = {.base = region->base + offset, .length_bytes = bytes};
    struct driver_region *made;
    int r = hca_region_add(&hca->driver, &memory, &made);
    if (r < 0)
        return r;
    struct hca_region *part = (struct hca_region *)made;
    pthread_mutex_lock(&hca->lock);
    const bool is_new = !find(region, part->base, bytes);
    if (is_new) {
        part->next_part = region->parts;
        region->parts = part;
    }
    pthread_mutex_unlock(&hca->lock);
    if (!is_new)
        hca_region_free(part);
    return 0;
}

static struct hca_region *take(struct hca_driver *hca, struct hca_region *region, uint64_t offset,
                               uint64_t bytes)
{
    pthread_mutex_lock(&hca->lock);
    struct hca_region *part = find(region, region->base + offset, bytes);
    if (part)
        part->users++;
    pthread_mutex_unlock(&hca->lock);
    return part;
}

int hca_part_take(struct hca_driver *hca, struct hca_region *region, uint64_t offset,
                  uint64_t bytes, struct hca_region **ret_part)
{
    struct hca_region *part = region;
    int r = 0;
    if (!is_whole(region, offset, bytes))
        while (!(part = take(hca, region, offset, bytes)) && r == 0)
            r = make(hca, region, offset, bytes);
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
    int r = hca_part_take(hca, region, offset, bytes, &part);
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

/* The region's own key follows those of its parts, so that its memory is kept for them. */
void hca_parts_remove(struct hca_driver *hca, struct hca_region *region)
{
    while (region->parts) {
        struct hca_region *part = region->parts;
        region->parts = part->next_part;
        region->told |= part->told;
        hca_region_remove(&hca->driver, (struct driver_region *)part);
    }
}
