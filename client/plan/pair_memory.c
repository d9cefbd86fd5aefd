/* Regions of this session, as the drivers of connections know them. */
#include <errno.h>
#include <stdlib.h>

#include "client/core/session.h"
#include "client/memory/mapping.h"
#include "client/plan/pair_internal.h"

int pair_region(const struct pair_driver *via, struct mapped_region *region,
                struct driver_region **ret_region)
{
    const struct driver_memory memory = {.base = region->base,
                                         .length_bytes = region->bytes,
                                         .fd = region->fd,
                                         .dmabuf = region->dmabuf};
    struct seat_region *known = region->seat_regions;
    while (known && known->via != via)
        known = known->next;
    if (known) {
        *ret_region = known->region;
        return 0;
    }
    known = malloc(sizeof *known);
    if (!known)
        return -ENOMEM;
    *known = (struct seat_region){.next = region->seat_regions, .via = via};
    int r = via->driver->ops->region_add(via->driver, &memory, &known->region);
    if (r < 0) {
        free(known);
        return r;
    }
    region->seat_regions = known;
    *ret_region = known->region;
    return 0;
}

void pair_forget_region(struct mapped_region *region)
{
    while (region->seat_regions) {
        struct seat_region *known = region->seat_regions;
        region->seat_regions = known->next;
        known->via->driver->ops->region_remove(known->via->driver, known->region);
        free(known);
    }
}

void pairs_forget_region(struct tca *session, struct mapped_region *region)
{
    standby_enter(session->standby);
    targets_end_in(session, region->targets, TARGET_LANDING, pair_end_landing);
    pair_forget_region(region);
    standby_leave(session->standby);
}
