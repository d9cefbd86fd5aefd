/* Regions of this session, as the drivers of connections know them. */
#include <errno.h>
#include <stdlib.h>

#include "client/core/session.h"
#include "client/memory/mapping.h"
#include "client/plan/pair_internal.h"
#include "proto/list.h"

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

static void forget_region(struct mapped_region *region)
{
    while (region->landings) {
        struct landing *landing = region->landings;
        const struct pair_driver *via = landing->via;
        via->driver->ops->landing_free(via->driver, landing->driver_landing);
        landing->driver_landing = NULL;
        landing->region = NULL;
        LIST_REMOVE(landing, next_of_region, link_of_region);
    }
    pair_forget_region(region);
}

void pairs_forget_region(struct tca *session, struct mapped_region *region)
{
    standby_enter(session->standby);
    if (region->seat_regions)
        forget_region(region);
    standby_leave(session->standby);
}
