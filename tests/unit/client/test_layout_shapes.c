/* Random nested layouts against their type maps. A failure prints its seed; TCA_TEST_SEED=n repeats
 * just that one. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/layout/layout.h"
#include "tests/unit/client/shapes.h"

enum { SHAPES = 6000, DEPTH_MAX = 4, GUARD = 64 };

/* Memory that covers all that the map touches, with guards around it. */
struct arena {
    uint8_t *bytes;
    size_t count;
    uint8_t *base; /* place 0 of the layout */
};

static struct arena arena_new(const struct map *map, struct random *random)
{
    struct arena arena;
    int64_t lower, upper;
    map_bounds(map, &lower, &upper);
    arena.count = (size_t)(upper - lower) + 2 * GUARD;
    arena.bytes = malloc(arena.count);
    arena.base = (uint8_t *)((uintptr_t)arena.bytes + GUARD - (uintptr_t)lower);
    for (size_t i = 0; i < arena.count; i++)
        arena.bytes[i] = (uint8_t)random_next(random);
    return arena;
}

/* Walks over the map's bytes in packed order: calls for each with its offset and number. */
#define EACH_BYTE(map, place, number)                                                              \
    for (uint64_t entry_ = 0, number = 0; entry_ < (map)->count; entry_++)                         \
        if ((map)->entries[entry_].type < MARK_LOWER)                                              \
            for (int64_t place = (map)->entries[entry_].place,                                     \
                         end_ = place + shape_type_bytes((map)->entries[entry_].type);             \
                 place < end_; place++, number++)

static uint64_t blocks_of(const struct map *map)
{
    uint64_t blocks = 0;
    int64_t end = INT64_MIN;
    EACH_BYTE(map, place, number)
    {
        blocks += place != end;
        end = place + 1;
    }
    return blocks;
}

static void compare_numbers(const struct tca_layout *layout, const struct map *map, uint64_t seed,
                            const char *text)
{
    int64_t lower, upper, extent, expected_lower, expected;
    cr_assert_eq(tca_layout_size(layout), map_size(map), "seed %lu: size %lu, not %lu: %s", seed,
                 tca_layout_size(layout), map_size(map), text);
    tca_layout_bounds(layout, &lower, &upper);
    map_bounds(map, &expected_lower, &expected);
    cr_assert(lower == expected_lower && upper == expected,
              "seed %lu: bounds %ld to %ld, not %ld to %ld: %s", seed, lower, upper, expected_lower,
              expected, text);
    cr_assert_eq(tca_layout_blocks(layout), blocks_of(map), "seed %lu: %lu blocks, not %lu: %s",
                 seed, tca_layout_blocks(layout), blocks_of(map), text);
    tca_layout_extent(layout, &lower, &extent);
    map_extent(map, &expected_lower, &expected);
    cr_assert(lower == expected_lower && extent == expected,
              "seed %lu: lb %ld extent %ld, not %ld and %ld: %s", seed, lower, extent,
              expected_lower, expected, text);
}

/* By Horner's rule, one element after the other. */
static void compare_signature(const struct tca_layout *layout, const struct map *map, uint64_t seed)
{
    uint64_t signature = 0;
    for (size_t i = 0; i < map->count; i++) {
        if (map->entries[i].type >= MARK_LOWER)
            continue;
        for (uint32_t b = 0; b < shape_type_bytes((enum tca_type)map->entries[i].type); b++)
            signature *= 0x9e3779b97f4a7c15;
        signature += (uint64_t)map->entries[i].type;
    }
    cr_assert_eq(layout_of(layout)->signature, signature, "seed %lu: signature", seed);
}

static void compare_pack(const struct tca_layout *layout, const struct map *map,
                         struct random *random, uint64_t seed, const char *text)
{
    struct arena arena = arena_new(map, random);
    const uint64_t size = map_size(map), before = random_below(random, 20);
    uint8_t *buffer = malloc(before + size + 1);
    uint64_t position = before;
    memset(buffer, 0xee, before + size + 1);
    if (size > 0)
        cr_assert_eq(tca_pack(layout, arena.base, buffer, before + size - 1, &position), -ENOSPC);
    cr_assert_eq(position, before);
    cr_assert_eq(tca_pack(layout, arena.base, buffer, before + size, &position), 0);
    cr_assert_eq(position, before + size);
    EACH_BYTE(map, place, number)
    cr_assert_eq(buffer[before + number], arena.base[place], "seed %lu: byte %lu, from %ld: %s",
                 seed, number, place, text);
    for (uint64_t i = 0; i < before; i++)
        cr_assert_eq(buffer[i], 0xee, "seed %lu: in front of the buffer", seed);
    cr_assert_eq(buffer[before + size], 0xee, "seed %lu: behind the buffer", seed);
    free(buffer);
    free(arena.bytes);
}

static void compare_unpack(const struct tca_layout *layout, const struct map *map,
                           struct random *random, uint64_t seed, const char *text)
{
    struct arena arena = arena_new(map, random);
    const uint64_t size = map_size(map);
    uint8_t *expected = malloc(arena.count), *buffer = malloc(size + 1), *touched;
    uint64_t position = 0;
    const bool overlaps = map_overlaps(map);
    touched = calloc(1, arena.count);
    memcpy(expected, arena.bytes, arena.count);
    for (uint64_t i = 0; i < size; i++)
        buffer[i] = (uint8_t)random_next(random);
    EACH_BYTE(map, place, number)
    {
        expected[&arena.base[place] - arena.bytes] = buffer[number];
        touched[&arena.base[place] - arena.bytes] = 1;
    }
    cr_assert_eq(tca_unpack(layout, arena.base, buffer, size, &position), 0);
    cr_assert_eq(position, size);
    for (size_t i = 0; i < arena.count; i++)
        cr_assert(arena.bytes[i] == expected[i] || (overlaps && touched[i]),
                  "seed %lu: byte %ld of memory: %s", seed, &arena.bytes[i] - arena.base, text);
    free(touched);
    free(buffer);
    free(expected);
    free(arena.bytes);
}

/* Programs pass the checks of messages. */
static void check_program(const struct tca_layout *layout, uint64_t seed, const char *text)
{
    const struct layout *program = layout_of(layout);
    const char *why = "";
    cr_assert_eq(layout_check(program, layout_bytes(program), &why), 0, "seed %lu: %s: %s", seed,
                 why, text);
    struct layout *again;
    cr_assert_eq(layout_shift(program, 0, &again), 0);
    cr_assert(layout_bytes(again) == layout_bytes(program) &&
                  memcmp(again, program, layout_bytes(program)) == 0,
              "seed %lu: not in normal form: %s", seed, text);
    free(again);
}

static void compare(uint64_t seed)
{
    struct random random = {seed};
    struct shape *shape = shape_random(&random, 1 + (unsigned)random_below(&random, DEPTH_MAX),
                                       (struct shape_choice){0});
    struct tca_layout *layout;
    struct map map;
    char text[8000];
    if (shape_map(shape, &map)) {
        shape_print(shape, text, sizeof(text));
        cr_assert_eq(shape_layout(shape, &layout), 0, "seed %lu: %s: %s", seed, tca_error_text(),
                     text);
        compare_numbers(layout, &map, seed, text);
        compare_signature(layout, &map, seed);
        check_program(layout, seed, text);
        for (int i = 0; i < 2; i++) { /* the second time, it is compiled */
            compare_pack(layout, &map, &random, seed, text);
            compare_unpack(layout, &map, &random, seed, text);
        }
        tca_layout_describe(layout, text, sizeof(text));
        tca_layout_free(layout);
        map_free(&map);
    }
    shape_free(shape);
}

Test(layout_shapes, equal_their_type_maps)
{
    const char *only = getenv("TCA_TEST_SEED");
    uint64_t first = only ? strtoull(only, NULL, 0) : random_seed();
    for (uint64_t seed = first; seed < first + (only ? 1 : SHAPES); seed++)
        compare(seed);
}
