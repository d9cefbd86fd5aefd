/* An honest peer of an instance that others attack. */
#pragma once

#include <criterion/criterion.h>

#include "tests/unit/drivers/kit.h"

/* A new instance puts into the victim's landing, which has this shape, at the offset, and
 * notifies. */
static inline void check_served(struct side *of, const char *driver, uint64_t segment_bytes,
                                const struct shape *shape, uint64_t offset_bytes, const void *blob,
                                size_t blob_bytes)
{
    struct side honest;
    struct driver_peer *peer, *back;
    struct driver_put *put;
    struct driver_put_info info;
    struct op op;
    struct layout *layout = shape_layout(shape);
    cr_assert(side_open(&honest, driver, segment_bytes, of->bytes) == 0);
    cr_assert(connect_sides(&honest, of, &peer, &back) == 0);
    const struct driver_put_args args = {.peer = peer,
                                         .region = honest.region,
                                         .layout = layout,
                                         .landing = blob,
                                         .landing_bytes = blob_bytes,
                                         .target_layout = layout};
    cr_assert(honest.driver->ops->put_prepare(honest.driver, &args, &put, &info) == 0);
    fill(honest.memory, honest.bytes, 5);
    of->notified_count = 0;
    op_init(&op);
    cr_assert(post(&honest, of, put, &op) == 0);
    cr_assert(pump_until(&honest, of, &of->notified_count, 1));
    cr_assert(pump_until(&honest, of, &op.done, 1));
    cr_assert(op.status == 0);
    for (uint64_t i = 0; i < shape_bytes(shape); i++)
        cr_assert(of->memory[(int64_t)offset_bytes + shape_place(shape, i)] ==
                  honest.memory[shape_place(shape, i)]);
    honest.driver->ops->put_release(honest.driver, put);
    honest.driver->ops->peer_disconnect(honest.driver, peer);
    if (back)
        of->driver->ops->peer_disconnect(of->driver, back);
    side_close(&honest);
    free(layout);
}
