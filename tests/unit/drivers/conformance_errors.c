/* Conformance of drivers: errors and failed peers. Compiled once for each driver. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/peach2/config.h"
#include "tests/unit/drivers/world.h"

enum { REGION = 4 << 20, TARGET_OFFSET = REGION / 2 };

Test(DRIVER_SUITE, refuses_what_does_not_fit, .timeout = 60)
{
    struct transfer transfer;
    const struct shape small = {.block = 64, .count = 1, .outer = 1},
                       large = {.block = 65, .count = 1, .outer = 1};
    open_world(0, REGION);
    cr_assert(prepare(&transfer, &small, 0, &large, TARGET_OFFSET, true, 1) == -EMSGSIZE);
    release(&transfer);
    cr_assert(prepare(&transfer, &small, 0, NULL, 0, true, 1) == -EMSGSIZE);
    release(&transfer);
    close_world();
}

Test(DRIVER_SUITE, refuses_garbled_landings, .timeout = 60)
{
    struct transfer transfer;
    struct driver_put *put;
    struct driver_put_info info;
    const struct shape shape = {.block = 64, .count = 1, .outer = 1};
    open_world(0, REGION);
    cr_assert(prepare(&transfer, &shape, 0, &shape, TARGET_OFFSET, true, 1) == 0);
    struct driver_put_args args = {
        .peer = world.peer,
        .region = world.from->region,
        .layout = transfer.source,
        .landing = transfer.blob,
        .landing_bytes = transfer.blob_bytes - 1,
        .target_layout = transfer.target,
    };
    struct driver *from = world.from->driver;
    cr_assert(from->ops->put_prepare(from, &args, &put, &info) == -EINVAL);
    memset(transfer.blob, 0xee, transfer.blob_bytes);
    args.landing_bytes = transfer.blob_bytes;
    cr_assert(from->ops->put_prepare(from, &args, &put, &info) < 0);
    release(&transfer);
    close_world();
}

Test(DRIVER_SUITE, a_peer_that_its_owner_gave_up, .timeout = 60)
{
    enum { PUTS = 8 };
    struct transfer transfers[PUTS];
    const struct shape strided = {.block = 8, .count = 50000, .stride = 16, .outer = 1};
    struct op late;
    open_world(4096, REGION);
    for (unsigned i = 0; i < PUTS; i++) {
        cr_assert(prepare(&transfers[i], &strided, 0, &strided, TARGET_OFFSET, true, i) == 0);
        start(&transfers[i]);
    }
    world.from->driver->ops->peer_fail(world.from->driver, world.peer, -EHOSTDOWN);
    for (unsigned i = 0; i < PUTS; i++) {
        cr_assert(pump_until(world.from, world.to, &transfers[i].op.done, 1));
        cr_assert(transfers[i].op.status == -EHOSTDOWN);
    }
    op_init(&late);
    cr_assert(post(world.from, world.to, transfers[0].put, &late) == -EHOSTDOWN);
    cr_assert(late.done == 0);
    cr_assert(world.from->downs == 0);
    for (unsigned i = 0; i < PUTS; i++)
        release(&transfers[i]);
    close_world();
}

Test(DRIVER_SUITE, a_freed_landing_is_left_alone, .timeout = 60)
{
    struct transfer transfer;
    const struct shape strided = {.block = 8, .count = 1000, .stride = 16, .outer = 1};
    open_world(0, REGION);
    if (INSTANCES == 1) { /* there, the owner guarantees that no put is in flight */
        close_world();
        return;
    }
    cr_assert(prepare(&transfer, &strided, 0, &strided, TARGET_OFFSET, true, 1) == 0);
    start(&transfer);
    cr_assert(pump_until(world.from, world.to, &world.to->notified_count, 1));
    cr_assert(pump_until(world.from, world.to, &transfer.op.done, 1));
    struct driver_landing *again;
    struct driver_landing_args args = {.region = world.to->region,
                                       .offset_bytes = TARGET_OFFSET,
                                       .layout = transfer.target,
                                       .notify = true,
                                       .token = 2};
    world.to->driver->ops->landing_free(world.to->driver, transfer.landing);
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    cr_assert(world.to->driver->ops->landing_new(world.to->driver, &args, &again, blob,
                                                 &blob_bytes) == 0);
    transfer.landing = again;

    fill(world.from->memory, REGION, 3);
    memset(world.to->memory, 0x33, REGION);
    start(&transfer);
    cr_assert(pump_until(world.from, world.to, &transfer.op.done, 1));
    pump_rounds(world.from, world.to, 1000);
    cr_assert(world.to->notified_count == 1);
    for (size_t i = 0; i < REGION; i++)
        cr_assert(world.to->memory[i] == 0x33);
    release(&transfer);
    close_world();
}

Test(DRIVER_SUITE, many_landings, .timeout = 60)
{
    enum { LANDINGS = 100000 };
    struct driver_landing **landings = calloc(LANDINGS, sizeof(landings[0]));
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    open_world(0, REGION);
    struct driver *to = world.to->driver;
    struct driver_landing_args args = {.notify = true};
    for (unsigned i = 0; i < LANDINGS; i++)
        cr_assert(to->ops->landing_new(to, &args, &landings[i], blob, &blob_bytes) == 0);
    for (unsigned i = 0; i < LANDINGS; i++)
        to->ops->landing_free(to, landings[i]);
    free(landings);
    close_world();
}

Test(DRIVER_SUITE, probe_says_what_it_can)
{
    struct driver_caps caps;
    const struct peach2_config board = {.board = "/nowhere"};
    const struct driver_config config = {
        .own = strcmp(DRIVER, "peach2") == 0 ? &board : side_config(DRIVER)};
    const struct driver_ops *ops = driver_find(DRIVER);
    cr_assert(ops && driver_of_id(ops->id) == ops);
    cr_assert(ops->probe(&config, &caps) == 0);
    cr_assert(caps.same_node || caps.other_nodes);
    cr_assert(caps.detail[0] != '\0');
}
