#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/mesh/mesh.h"

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
    struct random random = {a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c};
    return random_next(&random);
}

uint8_t content(uint64_t seed, uint64_t start, int64_t place)
{
    return (uint8_t)mix(seed, start + 1, (uint64_t)place);
}

uint8_t guard(uint64_t seed, int64_t place)
{
    return (uint8_t)mix(seed, 0, (uint64_t)place);
}

/* The bytes that the layout needs from its base on. */
static uint64_t span(const struct side *side)
{
    return (uint64_t)side->layout.layout->upper_bytes;
}

static int from_tcad(struct tca *session, struct side *side)
{
    int r = tca_region_alloc(session, span(side) + 2 * GUARD_BYTES, &side->region);
    if (r < 0)
        return r;
    side->offset_bytes = GUARD_BYTES;
    side->arena = tca_region_address(side->region);
    side->arena_bytes = tca_region_bytes(side->region);
    return 0;
}

static int attached(struct tca *session, struct random *random, struct pool *pool,
                    struct side *side)
{
    const uint64_t shift = random_below(random, 17);
    side->arena_bytes = span(side) + 2 * GUARD_BYTES;
    if (pool->size - pool->used > side->arena_bytes + shift) {
        side->arena = pool->bytes + pool->used + shift;
        pool->used += side->arena_bytes + shift;
    } else {
        side->kind = MEMORY_HEAP;
        side->heap = malloc(side->arena_bytes + shift);
        side->arena = side->heap ? (uint8_t *)side->heap + shift : NULL;
    }
    if (!side->arena)
        return -ENOMEM;
    return tca_region_attach(session, side->arena + GUARD_BYTES, span(side), &side->region);
}

int side_new(struct tca *session, struct random *random, struct pool pools[MEMORY_KINDS],
             struct side *side)
{
    side->kind = (enum memory_kind)random_below(random, MEMORY_KINDS);
    int r = side->kind == MEMORY_REGION ? from_tcad(session, side)
                                        : attached(session, random, &pools[side->kind], side);
    side->base = side->arena + GUARD_BYTES;
    return r;
}

void side_free(struct side *side)
{
    tca_region_free(side->region);
    free(side->heap);
    random_layout_free(&side->layout);
    *side = (struct side){0};
}

/* Walks over an arena: the place of its byte `at`. */
static int64_t place_of(const struct side *side, uint64_t at)
{
    return (int64_t)at - (side->base - side->arena);
}

void source_fill(const struct side *source, uint64_t seed, uint64_t start)
{
    for (uint64_t at = 0; at < source->arena_bytes; at++)
        source->arena[at] = content(seed, start, place_of(source, at));
}

void target_fill(const struct side *target, uint64_t seed)
{
    for (uint64_t at = 0; at < target->arena_bytes; at++)
        target->arena[at] = guard(seed, place_of(target, at));
}

static bool compare(const struct side *side, const uint8_t *now, const uint8_t *expected,
                    const char *what, uint64_t seed)
{
    static const char *const kinds[] = {"tcad's memory", "the heap", "the stack", "globals"};
    for (uint64_t at = 0; at < side->arena_bytes; at++) {
        if (now[at] == expected[at])
            continue;
        printf(
            "%s in %s, seed %llu: place %lld is 0x%02x, not 0x%02x (layout to %lld, %llu bytes)\n",
            what, kinds[side->kind], (unsigned long long)seed, (long long)place_of(side, at),
            now[at], expected[at], (long long)side->layout.layout->upper_bytes,
            (unsigned long long)side->layout.layout->size_bytes);
        return false;
    }
    return true;
}

bool source_check(const struct side *source, uint64_t seed, uint64_t start)
{
    uint8_t *expected = malloc(source->arena_bytes);
    for (uint64_t at = 0; at < source->arena_bytes; at++)
        expected[at] = content(seed, start, place_of(source, at));
    bool right = compare(source, source->arena, expected, "source", seed);
    free(expected);
    return right;
}

bool target_check(const struct side *target, const struct random_layout *source, uint64_t seed,
                  uint64_t start)
{
    uint8_t *expected = malloc(target->arena_bytes);
    for (uint64_t at = 0; at < target->arena_bytes; at++)
        expected[at] = guard(seed, place_of(target, at));
    for (uint64_t i = 0; i < source->layout->size_bytes; i++)
        expected[target->base - target->arena + target->layout.places[i]] =
            content(seed, start, source->places[i]);
    bool right = compare(target, target->arena, expected, "target", seed);
    free(expected);
    return right;
}

bool target_check_guards(const struct side *target, uint64_t seed)
{
    /* Other ranks may still be putting: data that arrives meanwhile is no error, so each place is
     * read once, and places of the layout are left out. */
    uint8_t *now = malloc(target->arena_bytes), *expected = malloc(target->arena_bytes);
    memcpy(now, target->arena, target->arena_bytes);
    for (uint64_t at = 0; at < target->arena_bytes; at++)
        expected[at] = guard(seed, place_of(target, at));
    for (uint64_t i = 0; i < target->layout.layout->size_bytes; i++) {
        const int64_t at = target->base - target->arena + target->layout.places[i];
        expected[at] = now[at];
    }
    bool right = compare(target, now, expected, "guard of a target", seed);
    free(now);
    free(expected);
    return right;
}
