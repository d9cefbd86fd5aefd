#include <criterion/criterion.h>
#include <stdlib.h>

#include "drivers/tcp/adopt.h"
#include "drivers/tcp/tcp_wire.h"
#include "tests/unit/drivers/world.h"

#ifndef ADOPTED /* 1: connections are given to instances of tcp; 2: processes connect over hca */
#define ADOPTED 0
#endif
#ifndef BRANCHED
#define BRANCHED 0
#endif
#define SEAT     (ADOPTED == 2 ? &tca_hca_seat : &tca_tcp_seat)
#define INSTANCE (ADOPTED == 1 ? TCP_SEAT : ADOPTED == 2 ? HCA_SEAT : DRIVER)
enum { GRANT = ADOPTED, GRANT_BACK };

struct world world;

static void join(void)
{
    static const uint8_t secret[TCP_SECRET_BYTES] = "known to both";
    cr_assert(tcp_seat_peer(world.from->driver, GRANT_BACK, &world.peer) == 0);
    cr_assert(tcp_seat_peer(world.to->driver, GRANT, &world.back) == 0);
    side_join(world.from, world.peer, world.to, world.back, secret);
}

static void join_by_offers(void)
{
    cr_assert(tca_hca_seat.peer_new(world.from->driver, GRANT_BACK, &world.peer) == 0);
    cr_assert(tca_hca_seat.peer_new(world.to->driver, GRANT, &world.back) == 0);
    side_exchange_offers(world.from, world.peer, world.to, world.back);
}

void open_world(uint64_t segment_bytes, size_t region_bytes)
{
    cr_assert(side_open(&world.sides[0], INSTANCE, segment_bytes, region_bytes) == 0);
    world.from = world.to = &world.sides[0];
    if (INSTANCES == 2) {
        cr_assert(side_open(&world.sides[1], INSTANCE, segment_bytes, region_bytes) == 0);
        world.to = &world.sides[1];
    }
    if (BRANCHED) {
        cr_assert(side_open_branch(&world.branch, &world.sides[0], region_bytes) == 0);
        world.from = &world.branch;
    }
    if (ADOPTED == 1)
        join();
    else if (ADOPTED == 2)
        join_by_offers();
    else
        cr_assert(connect_sides(world.from, world.to, &world.peer, &world.back) == 0);
}

void close_world(void)
{
    world.from->driver->ops->peer_disconnect(world.from->driver, world.peer);
    if (world.back)
        world.to->driver->ops->peer_disconnect(world.to->driver, world.back);
    pump_rounds(world.from, world.to, 100);
    side_close(&world.branch);
    side_close(&world.sides[0]);
    side_close(&world.sides[1]);
}

/* In a process, somebody else numbers them. */
int land(struct driver_landing_args *args, struct driver_landing **ret_landing, uint8_t *ret_blob,
         size_t *ret_blob_bytes)
{
    static uint32_t made;
    struct driver *to = world.to->driver;
    args->grant = GRANT;
    if (!ADOPTED)
        return to->ops->landing_new(to, args, ret_landing, ret_blob, ret_blob_bytes);
    const uint32_t index = made++, generation = made;
    const uint64_t bytes = args->layout ? args->layout->size_bytes : 0;
    *ret_blob_bytes = ADOPTED == 1 ? tcp_seat_blob(index, generation, bytes, ret_blob)
                                   : tca_hca_seat.blob(index, generation, bytes, ret_blob);
    return ADOPTED == 1 ? tcp_seat_landing(to, args, index, generation, ret_landing)
                        : tca_hca_seat.landing_new(to, args, index, generation, ret_landing);
}

static int prepare_put(struct transfer *transfer, const struct shape *source,
                       uint64_t source_offset, const struct shape *target, uint64_t target_offset,
                       bool notify, uint64_t token, bool parts)
{
    struct driver *from = world.from->driver;
    *transfer = (struct transfer){0};
    if (source)
        transfer->source = shape_layout(source);
    if (target)
        transfer->target = shape_layout(target);
    struct driver_landing_args landing = {
        .region = target ? world.to->region : NULL,
        .offset_bytes = target_offset,
        .layout = transfer->target,
        .notify = notify,
        .token = token,
    };
    cr_assert(land(&landing, &transfer->landing, transfer->blob, &transfer->blob_bytes) == 0);
    cr_assert(transfer->blob_bytes <= LANDING_MAX_BYTES);
    struct driver_put_args put = {
        .peer = world.peer,
        .region = source ? world.from->region : NULL,
        .offset_bytes = source_offset,
        .layout = transfer->source,
        .landing = transfer->blob,
        .landing_bytes = transfer->blob_bytes,
        .target_layout = transfer->target,
        .parts = parts,
    };
    op_init(&transfer->op);
    return from->ops->put_prepare(from, &put, &transfer->put, &transfer->info);
}

int prepare(struct transfer *transfer, const struct shape *source, uint64_t source_offset,
            const struct shape *target, uint64_t target_offset, bool notify, uint64_t token)
{
    return prepare_put(transfer, source, source_offset, target, target_offset, notify, token,
                       false);
}

int prepare_parts(struct transfer *transfer, const struct shape *source, uint64_t source_offset,
                  const struct shape *target, uint64_t target_offset, uint64_t token)
{
    return prepare_put(transfer, source, source_offset, target, target_offset, true, token, true);
}

void start_part(struct transfer *transfer, const struct driver_part *part)
{
    world.from->driver->ops->put_part(world.from->driver, transfer->put, part);
    start(transfer);
}

void release(struct transfer *transfer)
{
    if (transfer->put)
        world.from->driver->ops->put_release(world.from->driver, transfer->put);
    world.to->driver->ops->landing_free(world.to->driver, transfer->landing);
    free(transfer->source);
    free(transfer->target);
}

void start(struct transfer *transfer)
{
    op_init(&transfer->op);
    cr_assert(post(world.from, world.to, transfer->put, &transfer->op) == 0);
}
