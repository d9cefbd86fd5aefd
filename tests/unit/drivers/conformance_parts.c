/* Conformance of drivers: starts that move parts of their puts. Compiled once for each driver. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/drivers/world.h"

enum { REGION = 8 << 20, TARGET_OFFSET = REGION / 2 };

static const struct shape shapes[] = {
    {.block = 16, .count = 1, .outer = 1},
    {.block = 96000, .count = 1, .outer = 1},
    {.block = 2400000, .count = 1, .outer = 1, .offset = 16},
    {.block = 8, .count = 12000, .stride = 24, .outer = 1},
    {.block = 2400, .count = 40, .stride = 2500, .outer = 1, .offset = 4},
    {.block = 4096, .count = 50, .stride = 9000, .outer = 1},
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static bool is_contiguous(const struct shape *shape)
{
    return shape->count == 1;
}

static bool takes_parts(const struct shape *source, const struct shape *target)
{
    return is_contiguous(source) || is_contiguous(target) ||
           shape_bytes(source) == shape_bytes(target);
}

static uint64_t below(uint32_t *random, uint64_t end)
{
    return end == 0 ? 0 : ((uint64_t)next_random(random) << 16 ^ next_random(random)) % end;
}

/* Everything, nothing, a few bytes, whole multiples of a cache line, anything. */
static struct driver_part choose_part(const struct shape *source, const struct shape *target,
                                      unsigned round, uint32_t *random)
{
    const uint64_t source_bytes = shape_bytes(source), target_bytes = shape_bytes(target),
                   most = source_bytes < target_bytes ? source_bytes : target_bytes;
    const uint64_t grain = round % 3 == 1 ? 64 : 1;
    struct driver_part part = {.bytes = round == 0 ? most : below(random, most + 1)};
    if (round % 5 == 2)
        part.bytes = below(random, most < 64 ? most + 1 : 65);
    if (round == 1)
        part.bytes = 0;
    part.bytes = part.bytes / grain * grain;
    part.source_at_bytes = below(random, source_bytes - part.bytes + 1) / grain * grain;
    part.target_at_bytes = is_contiguous(source) || is_contiguous(target)
                               ? below(random, target_bytes - part.bytes + 1) / grain * grain
                               : part.source_at_bytes;
    return part;
}

static void expect_part(uint8_t *image, const struct shape *source, uint64_t source_offset,
                        const struct shape *target, uint64_t target_offset,
                        const struct driver_part *part)
{
    for (uint64_t i = 0; i < part->bytes; i++)
        image[(int64_t)target_offset + shape_place(target, part->target_at_bytes + i)] =
            world.from
                ->memory[(int64_t)source_offset + shape_place(source, part->source_at_bytes + i)];
}

static void check_pair(const struct shape *source, const struct shape *target, uint32_t seed)
{
    const uint64_t source_offset = GUARD, target_offset = TARGET_OFFSET + GUARD;
    const uint64_t end = source_offset + (uint64_t)shape_place(source, shape_bytes(source) - 1) + 1;
    struct transfer transfer;
    uint8_t *image = malloc(world.to->bytes);
    cr_assert(image);
    cr_assert(prepare_parts(&transfer, source, source_offset, target, target_offset, seed) == 0);
    for (unsigned round = 0; round < 12; round++) {
        const struct driver_part part = choose_part(source, target, round, &seed);
        fill(world.from->memory, end, seed);
        memcpy(image, world.to->memory, world.to->bytes);
        expect_part(image, source, source_offset, target, target_offset, &part);
        world.to->expected = image;
        world.to->notified_count = 0;
        start_part(&transfer, &part);
        cr_assert(pump_until(world.from, world.to, &transfer.op.done, 1));
        cr_assert(transfer.op.status == 0);
        cr_assert(pump_until(world.from, world.to, &world.to->notified_count, 1));
        cr_assert(!world.to->early, "notified before the data was there");
        cr_assert(memcmp(world.to->memory, image, world.to->bytes) == 0,
                  "round %u: %zu bytes from %zu to %zu: wrong bytes, or bytes outside the part",
                  round, (size_t)part.bytes, (size_t)part.source_at_bytes,
                  (size_t)part.target_at_bytes);
    }
    world.to->expected = NULL;
    release(&transfer);
    free(image);
}

Test(DRIVER_SUITE, parts_between_all_shapes, .timeout = 120)
{
    open_world(16384, REGION);
    for (unsigned s = 0; s < SHAPES; s++)
        for (unsigned t = 0; t < SHAPES; t++)
            if (takes_parts(&shapes[s], &shapes[t]))
                check_pair(&shapes[s], &shapes[t], 1 + s * SHAPES + t);
    close_world();
}

/* Short and long parts of puts in flight together arrive in order, none in another's place. */
Test(DRIVER_SUITE, parts_in_flight_together, .timeout = 120)
{
    enum { PUTS = 24, ROUNDS = 12, BYTES = 96000, ROOM = 128 << 10 };
    static struct transfer transfers[PUTS];
    struct driver_part part;
    uint32_t seed = 3;
    open_world(4096, REGION);
    uint8_t *image = malloc(world.to->bytes);
    cr_assert(image);
    for (unsigned i = 0; i < PUTS; i++)
        cr_assert(prepare_parts(&transfers[i], &shapes[1], i * 8, &shapes[1],
                                TARGET_OFFSET + i * ROOM, i) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        fill(world.from->memory, TARGET_OFFSET, round + 1);
        memcpy(image, world.to->memory, world.to->bytes);
        world.to->notified_count = 0;
        for (unsigned i = 0; i < PUTS; i++) {
            part = choose_part(&shapes[1], &shapes[1], round + i, &seed);
            expect_part(image, &shapes[1], i * 8, &shapes[1], TARGET_OFFSET + i * ROOM, &part);
            start_part(&transfers[i], &part);
        }
        for (unsigned i = 0; i < PUTS; i++)
            cr_assert(pump_until(world.from, world.to, &transfers[i].op.done, 1));
        cr_assert(pump_until(world.from, world.to, &world.to->notified_count, PUTS));
        for (unsigned i = 0; i < PUTS; i++)
            cr_assert(world.to->notified[i] == i);
        cr_assert(memcmp(world.to->memory, image, world.to->bytes) == 0);
    }
    for (unsigned i = 0; i < PUTS; i++)
        release(&transfers[i]);
    free(image);
    close_world();
}
