#include "client/plan/unit.h"

#include "client/core/error.h"
#include "client/core/segment.h"
#include "client/core/session.h"
#include "client/layout/layout.h"
#include "client/memory/lane.h"
#include "client/plan/pair.h"
#include "client/plan/parts.h"
#include "drivers/seat.h"
#include "drivers/shm/share.h"
#include "proto/handle.h"

/* Where the put writes: in a region of a peer, or of this process. */
static int place(struct tca *session, struct unit *unit, const struct step *put,
                 const Tca__Mapping *mapping, struct driver_landing_args *args)
{
    const struct layout *layout = put->put.target_layout->program;
    struct mapped_region *region;
    int r = mapping_region(session, mapping, &region);
    if (r < 0)
        return r;
    unit->region = region;
    region->uses++;
    if (!layout_fits(layout, mapping->offset, region->bytes))
        return error_set(-EPROTO, "tcad placed a put at offset %llu of a region of %llu bytes",
                         (unsigned long long)mapping->offset, (unsigned long long)region->bytes);
    args->region = region->driver_region;
    args->offset_bytes = mapping->offset;
    args->layout = layout;
    uint64_t first = mapping->offset + (uint64_t)layout->lower_bytes;
    unit->token.landing = mapping->region_address + first;
    return segment_populate(region->base + first,
                            (uint64_t)(layout->upper_bytes - layout->lower_bytes));
}

static int make_landing(struct tca *session, struct unit *unit, const struct joined *joined,
                        const Tca__Mapping *mapping, uint8_t blob[LANDING_MAX_BYTES],
                        size_t *ret_blob_bytes)
{
    struct driver_landing_args args = {.notify = joined->notify != NULL,
                                       .token = (uint64_t)(uintptr_t)&unit->token};
    int r = joined->put ? place(session, unit, joined->put, mapping, &args) : 0;
    if (r == 0 && joined->notify)
        r = mapping_counter(session, mapping, joined->notify->notification.slot, &unit->notified,
                            &unit->token.counter);
    if (r < 0)
        return r;
    r = session->shm->ops->landing_new(session->shm, &args, &unit->landing, blob, ret_blob_bytes);
    return r < 0 ? error_set(r, "cannot prepare a landing: %s", tca_strerror(r)) : 0;
}

/* Lets the receiver share the copying. If that is not possible, this process copies alone. */
static void share(struct tca *session, struct unit *unit, const struct step *put,
                  const Tca__Mapping *mapping)
{
    struct mapped_segment *segment;
    const struct layout *target = put->put.target_layout->program,
                        *source = put->put.source_layout->program;
    if (mapping_segment(session, mapping, &segment) < 0 ||
        process_map_lane(unit->process, segment->segment) < 0)
        return;
    unit->process->lane.meanwhile = lanes_help;
    unit->process->lane.context = session;
    if (!unit->process->receiver) {
        unit->process->receiver = segment;
        segment->uses++;
    }
    if (shm_put_share(unit->put, mapping->share, target, source) < 0)
        return;
    const struct copy_mode wanted = copy_mode_of((enum way)mapping->way, target, source);
    if (wanted.way != WAY_NONE)
        shm_put_mode(unit->put, &wanted);
    else
        unit->tried = put;
}

/* To a process of another node, which knows the landing from its tcad. */
static int make_pair_unit(struct tca_plan *plan, struct unit *unit, const struct joined *joined,
                          uint32_t rail, const Tca__Mapping *mapping)
{
    uint8_t blob[LANDING_MAX_BYTES];
    struct driver_put_args args = {.landing = blob, .flow = joined->flow};
    struct driver_put_info info;
    uint64_t bytes = 0;
    int r = pair_find(plan->session, mapping->pair, rail, &unit->pair);
    if (r < 0)
        return r;
    if (joined->put) {
        args.offset_bytes = joined->put->put.source_offset_bytes;
        args.layout = joined->put->put.source_layout->program;
        args.target_layout = joined->put->put.target_layout->program;
        args.parts = joined->put->put.part != 0;
        bytes = args.layout->size_bytes;
        r = pair_region(unit->pair->via, &joined->put->put.source->mapped, &args.region);
    }
    args.peer = unit->pair->peer;
    args.landing_bytes =
        unit->pair->via->seat->blob(mapping->landing, mapping->generation, bytes, blob);
    unit->driver = unit->pair->via->driver;
    if (r == 0)
        r = unit->driver->ops->put_prepare(unit->driver, &args, &unit->put, &info);
    if (r < 0)
        return error_set(r, "cannot prepare a put: %s", tca_strerror(r));
    plan->client_bytes += bytes;
    plan->client_descriptors += info.descriptors;
    if (args.parts)
        parts_bind(plan, joined->put, unit);
    return 0;
}

int unit_make(struct tca_plan *plan, struct unit *unit, const struct joined *joined, uint32_t rail,
              const Tca__Mapping *mapping)
{
    struct tca *session = plan->session;
    uint8_t blob[LANDING_MAX_BYTES];
    struct driver_put_args args = {.landing = blob, .flow = joined->flow};
    struct driver_put_info info;
    if (mapping->pair)
        return make_pair_unit(plan, unit, joined, rail, mapping);
    int r = make_landing(session, unit, joined, mapping, blob, &args.landing_bytes);
    if (r == 0)
        r = process_find(session, joined->put ? mapping->owner : mapping->session, &unit->process);
    if (r < 0)
        return r;
    unit->process->uses++;
    unit->notify = joined->notify;
    args.peer = unit->process->peer;
    if (joined->put) {
        args.region = joined->put->put.source->mapped.driver_region;
        args.offset_bytes = joined->put->put.source_offset_bytes;
        args.layout = joined->put->put.source_layout->program;
        args.target_layout = joined->put->put.target_layout->program;
        args.combine = joined->put->put.combine;
        args.type = joined->put->put.type;
        args.parts = joined->put->put.part != 0;
        plan->client_bytes += args.layout->size_bytes;
    }
    unit->driver = session->shm;
    r = unit->driver->ops->put_prepare(unit->driver, &args, &unit->put, &info);
    if (r < 0)
        return error_set(r, "cannot prepare a put: %s", tca_strerror(r));
    plan->client_descriptors += info.descriptors;
    if (plan->apart)
        shm_put_apart(unit->put);
    else if (joined->put && mapping->share)
        share(session, unit, joined->put, mapping);
    if (args.parts)
        parts_bind(plan, joined->put, unit);
    if (!plan->first_put && joined->put)
        plan->first_put = unit->put;
    return 0;
}
