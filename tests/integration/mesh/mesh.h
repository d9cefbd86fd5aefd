/*
 * mesh: every process of a group puts into the memory of every other one, all at once. Each pair
 * has its own random layouts, source to target, made from a seed that both know; the expected bytes
 * are computed independently of the layouts. Memory is the daemon's, or attached: from the heap,
 * the stack, or globals, at any address, with guard bytes around it.
 */
#pragma once

#include "client/include/tca.h"
#include "tests/unit/drivers/random_layout.h"

enum memory_kind { MEMORY_REGION, MEMORY_HEAP, MEMORY_STACK, MEMORY_GLOBAL, MEMORY_KINDS };
enum { GUARD_BYTES = 96 };

/* Where attached memory outside the heap comes from; emptied by resetting `used`. */
struct pool {
    uint8_t *bytes;
    uint64_t size, used;
};

/* One side of a put, here: place p of the layout is base[p]. */
struct side {
    struct random_layout layout;
    enum memory_kind kind;
    struct tca_region *region;
    uint64_t offset_bytes; /* of place 0 in the region */
    void *heap;
    uint8_t *arena; /* all of it, guards included */
    uint64_t arena_bytes;
    uint8_t *base;
};

/* Memory for a side whose layout is made. 0, or the library's error. */
int side_new(struct tca *session, struct random *random, struct pool pools[MEMORY_KINDS],
             struct side *side);
void side_free(struct side *side);

/* The byte at a place of a source in this start, and between the blocks of a target. */
uint8_t content(uint64_t seed, uint64_t start, int64_t place);
uint8_t guard(uint64_t seed, int64_t place);

void source_fill(const struct side *source, uint64_t seed, uint64_t start);
void target_fill(const struct side *target, uint64_t seed);
/* Prints the places that are wrong. */
bool source_check(const struct side *source, uint64_t seed, uint64_t start);
bool target_check(const struct side *target, const struct random_layout *source, uint64_t seed,
                  uint64_t start);
/* Checks only that nothing outside the layout was written. */
bool target_check_guards(const struct side *target, uint64_t seed);
