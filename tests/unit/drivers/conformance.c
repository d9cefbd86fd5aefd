/* Conformance of drivers: data and notifications. Compiled once for each driver. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/drivers/world.h"

enum { REGION = 12 << 20, TARGET_OFFSET = REGION / 2, TOKEN = 0x5eed };

/* The expected content of the target's whole region: every byte outside the layout is a guard
 * byte. */
static uint8_t *expect(const struct shape *source, uint64_t source_offset,
                       const struct shape *target, uint64_t target_offset)
{
    uint8_t *image = malloc(world.to->bytes);
    memcpy(image, world.to->memory, world.to->bytes);
    for (uint64_t i = 0; i < shape_bytes(source); i++)
        image[(int64_t)target_offset + shape_place(target, i)] =
            world.from->memory[(int64_t)source_offset + shape_place(source, i)];
    return image;
}

static void check_transfer(const struct shape *source, const struct shape *target, uint32_t seed)
{
    const uint64_t source_offset = GUARD + seed % 61,
                   target_offset = world.to->bytes / 2 + GUARD + seed % 67;
    struct transfer transfer;
    fill(world.from->memory, world.from->bytes, seed);
    if (world.to != world.from)
        memset(world.to->memory, 0xa5, world.to->bytes);
    uint8_t *image = expect(source, source_offset, target, target_offset);
    world.to->expected = image;
    world.to->early = false;
    world.to->notified_count = 0;

    cr_assert(
        prepare(&transfer, source, source_offset, target, target_offset, true, TOKEN + seed) == 0);
    cr_assert(transfer.info.descriptors >= 1);
    start(&transfer);
    cr_assert(pump_until(world.from, world.to, &transfer.op.done, 1), "put does not complete");
    cr_assert(transfer.op.status == 0);
    cr_assert(pump_until(world.from, world.to, &world.to->notified_count, 1), "no notification");
    cr_assert(world.to->notified[0] == TOKEN + seed);
    cr_assert(!world.to->early, "notified before the data was there");
    cr_assert(memcmp(world.to->memory, image, world.to->bytes) == 0,
              "wrong bytes, or bytes outside the layout");
    world.to->expected = NULL;
    release(&transfer);
    free(image);
}

/* Shapes of one size: contiguous, block-stride of several blocks, backwards, planes of rows. */
static unsigned shapes_of(uint64_t bytes, struct shape *shapes)
{
    unsigned n = 0;
    shapes[n++] = (struct shape){.block = bytes, .count = 1, .outer = 1};
    shapes[n++] = (struct shape){.block = bytes, .count = 1, .outer = 1, .offset = 13};
    const uint64_t blocks[] = {1, 4, 8, 16, 24, 1000, 4096};
    for (unsigned i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        uint64_t count = bytes / blocks[i];
        if (bytes % blocks[i] != 0 || count < 2 ||
            count * (blocks[i] + 8) > world.to->bytes / 2 - 3 * GUARD)
            continue;
        int64_t stride = (int64_t)blocks[i] + 1 + i;
        shapes[n++] =
            (struct shape){.block = blocks[i], .count = count, .stride = stride, .outer = 1};
        if (i == 2)
            shapes[n++] = (struct shape){.block = blocks[i],
                                         .count = count,
                                         .stride = -stride,
                                         .outer = 1,
                                         .offset = (int64_t)(count - 1) * stride};
        if (count % 4 == 0 && count > 4)
            shapes[n++] = (struct shape){.block = blocks[i],
                                         .count = count / 4,
                                         .stride = stride,
                                         .outer = 4,
                                         .outer_stride = (int64_t)(count / 4) * stride + 5,
                                         .offset = 3};
    }
    return n;
}

static void check_sizes(const uint64_t *sizes, unsigned count)
{
    uint32_t seed = 1;
    for (unsigned i = 0; i < count; i++) {
        struct shape shapes[32];
        unsigned n = shapes_of(sizes[i], shapes);
        for (unsigned s = 0; s < n; s++)
            for (unsigned t = 0; t < n; t++)
                if (s < 3 || t < 3 || (s + t) % 5 == 0)
                    check_transfer(&shapes[s], &shapes[t], seed++);
    }
}

Test(DRIVER_SUITE, small_sizes_between_all_shapes, .timeout = 120)
{
    const uint64_t sizes[] = {1, 7, 8, 16, 64, 65, 200};
    open_world(0, 64 << 10);
    check_sizes(sizes, sizeof(sizes) / sizeof(sizes[0]));
    close_world();
}

Test(DRIVER_SUITE, large_sizes_between_all_shapes, .timeout = 300)
{
    const uint64_t sizes[] = {4000, 192000};
    open_world(16384, 1 << 20);
    check_sizes(sizes, sizeof(sizes) / sizeof(sizes[0]));
    close_world();
}

Test(DRIVER_SUITE, some_mebibytes, .timeout = 120)
{
    const struct shape contiguous = {.block = 3072000, .count = 1, .outer = 1};
    const struct shape strided = {.block = 24, .count = 128000, .stride = 32, .outer = 1};
    open_world(0, 12 << 20);
    check_transfer(&contiguous, &contiguous, 1);
    check_transfer(&contiguous, &strided, 2);
    check_transfer(&strided, &contiguous, 3);
    check_transfer(&strided, &strided, 4);
    close_world();
}

Test(DRIVER_SUITE, nothing_but_a_notification, .timeout = 60)
{
    struct transfer transfer;
    const struct shape empty = {.block = 0, .count = 1, .outer = 1};
    open_world(0, REGION);
    memset(world.to->memory, 0x77, world.to->bytes);
    cr_assert(prepare(&transfer, NULL, 0, NULL, 0, true, 42) == 0);
    for (unsigned i = 1; i <= 3; i++) {
        start(&transfer);
        cr_assert(pump_until(world.from, world.to, &transfer.op.done, 1));
        cr_assert(pump_until(world.from, world.to, &world.to->notified_count, i));
        cr_assert(world.to->notified[i - 1] == 42);
    }
    release(&transfer);
    cr_assert(prepare(&transfer, &empty, GUARD, &empty, GUARD, true, 43) == 0);
    start(&transfer);
    cr_assert(pump_until(world.from, world.to, &transfer.op.done, 1));
    cr_assert(pump_until(world.from, world.to, &world.to->notified_count, 4));
    cr_assert(world.to->notified[3] == 43);
    release(&transfer);
    for (size_t i = 0; i < world.to->bytes; i++)
        cr_assert(world.to->memory[i] == 0x77);
    close_world();
}

Test(DRIVER_SUITE, a_silent_put_notifies_nobody, .timeout = 60)
{
    struct transfer silent, loud;
    const struct shape strided = {.block = 8, .count = 100, .stride = 16, .outer = 1};
    open_world(0, REGION);
    cr_assert(prepare(&silent, &strided, 0, &strided, TARGET_OFFSET, false, 1) == 0);
    cr_assert(prepare(&loud, &strided, 0, &strided, TARGET_OFFSET, true, 2) == 0);
    start(&silent);
    cr_assert(pump_until(world.from, world.to, &silent.op.done, 1));
    pump_rounds(world.from, world.to, 1000);
    cr_assert(world.to->notified_count == 0);
    start(&loud); /* still not notified after some rounds */
    cr_assert(pump_until(world.from, world.to, &loud.op.done, 1));
    cr_assert(pump_until(world.from, world.to, &world.to->notified_count, 1));
    pump_rounds(world.from, world.to, 1000);
    cr_assert(world.to->notified_count == 1 && world.to->notified[0] == 2);
    release(&silent);
    release(&loud);
    close_world();
}

Test(DRIVER_SUITE, short_puts_do_not_overtake_long_ones, .timeout = 60)
{
    struct transfer transfers[3];
    const struct shape word = {.block = 8, .count = 1, .outer = 1};
    const struct shape strided = {.block = 8, .count = 40000, .stride = 16, .outer = 1};
    open_world(4096, REGION);
    cr_assert(prepare(&transfers[0], &strided, 0, &strided, TARGET_OFFSET, true, 0) == 0);
    cr_assert(prepare(&transfers[1], &word, 0, &word, TARGET_OFFSET - 8, true, 1) == 0);
    cr_assert(prepare(&transfers[2], NULL, 0, NULL, 0, true, 2) == 0);
    for (unsigned i = 0; i < 3; i++)
        start(&transfers[i]);
    cr_assert(pump_until(world.from, world.to, &world.to->notified_count, 3));
    for (unsigned i = 0; i < 3; i++) {
        cr_assert(world.to->notified[i] == i);
        cr_assert(pump_until(world.from, world.to, &transfers[i].op.done, 1));
        release(&transfers[i]);
    }
    close_world();
}

/* A flush completes after the remote completion of earlier puts, however long that takes. */
Test(DRIVER_SUITE, a_flush_waits_for_what_was_put, .timeout = 60)
{
    struct transfer transfers[2];
    struct op flush;
    const struct shape strided = {.block = 8, .count = 40000, .stride = 16, .outer = 1};
    open_world(4096, REGION);
    cr_assert(prepare(&transfers[0], &strided, 0, &strided, TARGET_OFFSET, true, 0) == 0);
    cr_assert(prepare(&transfers[1], NULL, 0, NULL, 0, true, 1) == 0);
    for (unsigned round = 1; round <= 5; round++) {
        start(&transfers[0]);
        start(&transfers[1]);
        for (unsigned i = 0; i < 2; i++)
            cr_assert(pump_until(world.from, world.to, &transfers[i].op.done, 1));
        op_init(&flush);
        int r;
        while ((r = world.from->driver->ops->peer_flush(world.from->driver, world.peer,
                                                        &flush.op)) == -EAGAIN)
            pump_rounds(world.from, world.to, 1);
        cr_assert(r == 0);
        cr_assert(pump_until(world.from, world.to, &flush.done, 1));
        cr_assert(flush.status == 0);
        cr_assert(world.to->notified_count == 2 * round);
    }
    for (unsigned i = 0; i < 2; i++) {
        cr_assert(pump_until(world.from, world.to, &transfers[i].op.done, 1));
        release(&transfers[i]);
    }
    close_world();
}

static struct transfer told;
static struct op flush_of_told;

/* While the receiver is about to notify: once the put is complete locally, a flush must wait. */
static void flush_told(void)
{
    struct driver *from = world.from->driver;
    pump_rounds(world.from, NULL, 20);
    if (!told.op.done)
        return;
    op_init(&flush_of_told);
    if (from->ops->peer_flush(from, world.peer, &flush_of_told.op) == 0)
        pump_rounds(world.from, NULL, 20);
    world.to->early |= flush_of_told.done > 0;
}

Test(DRIVER_SUITE, a_flush_does_not_overtake_a_notification, .timeout = 60)
{
    const uint64_t sizes[] = {8, 12000, 192000};
    open_world(0, REGION);
    world.to->test = INSTANCES > 1 ? flush_told : NULL;
    for (unsigned i = 0; i < 9; i++) {
        const struct shape shape = {.block = sizes[i % 3], .count = 1, .outer = 1};
        cr_assert(prepare(&told, &shape, 0, &shape, TARGET_OFFSET, true, i) == 0);
        flush_of_told.done = 1;
        start(&told);
        cr_assert(pump_until(world.from, world.to, &world.to->notified_count, i + 1));
        cr_assert(pump_until(world.from, world.to, &told.op.done, 1));
        cr_assert(pump_until(world.from, world.to, &flush_of_told.done, 1));
        cr_assert(!world.to->early, "flushed before it was notified, %u bytes",
                  (unsigned)sizes[i % 3]);
        release(&told);
    }
    close_world();
}

/* Flushes in flight together each wait for the puts before them. */
Test(DRIVER_SUITE, many_flushes, .timeout = 60)
{
    enum { FLUSHES = 100 };
    struct transfer transfer;
    static struct op flushes[FLUSHES];
    struct driver *from;
    open_world(0, REGION);
    from = world.from->driver;
    cr_assert(prepare(&transfer, NULL, 0, NULL, 0, true, 0) == 0);
    for (unsigned i = 0; i < FLUSHES; i++) {
        start(&transfer);
        cr_assert(pump_until(world.from, world.to, &transfer.op.done, 1));
        op_init(&flushes[i]);
        int r;
        while ((r = from->ops->peer_flush(from, world.peer, &flushes[i].op)) == -EAGAIN)
            pump_rounds(world.from, world.to, 1);
        cr_assert(r == 0);
        for (unsigned k = 0; k <= i; k++)
            cr_assert(!flushes[k].done || world.to->notified_count > k);
    }
    for (unsigned i = 0; i < FLUSHES; i++) {
        cr_assert(pump_until(world.from, world.to, &flushes[i].done, 1));
        cr_assert(flushes[i].done == 1 && flushes[i].status == 0);
    }
    release(&transfer);
    close_world();
}

/* A probe completes only after the peer has replied, on a new link and on an idle one. */
Test(DRIVER_SUITE, a_probe_needs_a_reply, .timeout = 60)
{
    struct op probe;
    open_world(0, REGION);
    struct driver *from = world.from->driver;
    for (unsigned round = 0; round < 3; round++) {
        int r;
        op_init(&probe);
        probe.op.probe = true;
        while ((r = from->ops->peer_flush(from, world.peer, &probe.op)) == -EAGAIN)
            pump_rounds(world.from, world.to, 1);
        cr_assert(r == 0);
        for (unsigned i = 0; i < 1000 && INSTANCES > 1; i++) {
            cr_assert(from->ops->progress(from, 16) >= 0);
            cr_assert(!probe.done);
        }
        cr_assert(pump_until(world.from, world.to, &probe.done, 1));
        cr_assert(probe.status == 0);
    }
    close_world();
}

/* Puts of all kinds, all in flight together, repeatedly: each notification arrives once, in order,
 * and the data is right. */
Test(DRIVER_SUITE, many_in_flight, .timeout = 120)
{
    enum { PUTS = 64, ROUNDS = 8, BYTES = 48000 };
    static struct transfer transfers[PUTS];
    const struct shape shapes[] = {
        {.block = BYTES, .count = 1, .outer = 1},
        {.block = 8, .count = BYTES / 8, .stride = 10, .outer = 1},
        {.block = 16, .count = BYTES / 16, .stride = 20, .outer = 1},
    };
    open_world(4096, REGION);
    fill(world.from->memory, world.from->bytes, 7);
    for (unsigned i = 0; i < PUTS; i++)
        cr_assert(prepare(&transfers[i], &shapes[i % 3], i * 8, &shapes[i / 3 % 3],
                          TARGET_OFFSET + i * 64000, true, i) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        world.to->notified_count = 0;
        for (unsigned i = 0; i < PUTS; i++)
            start(&transfers[i]);
        for (unsigned i = 0; i < PUTS; i++) {
            cr_assert(pump_until(world.from, world.to, &transfers[i].op.done, 1));
            cr_assert(transfers[i].op.status == 0);
        }
        cr_assert(pump_until(world.from, world.to, &world.to->notified_count, PUTS));
        for (unsigned i = 0; i < PUTS; i++) {
            cr_assert(transfers[i].op.done == 1);
            cr_assert(world.to->notified[i] == i);
        }
    }
    pump_rounds(world.from, world.to, 100);
    cr_assert(world.to->notified_count == PUTS);
    for (unsigned i = 0; i < PUTS; i++)
        for (uint64_t n = 0; n < BYTES; n++)
            cr_assert(
                world.to->memory[TARGET_OFFSET + i * 64000 + shape_place(&shapes[i / 3 % 3], n)] ==
                world.from->memory[i * 8 + shape_place(&shapes[i % 3], n)]);
    for (unsigned i = 0; i < PUTS; i++)
        release(&transfers[i]);
    close_world();
}
