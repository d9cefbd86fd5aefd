/* The schedules of collective operations: all ranks of thousands of random shapes, without a
 * daemon. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/unit/client/coll_world.h"

enum { ROUNDS = 120, STARTS = 4, SHORT_STARTS = 5 * COLL_LEAD + 1 };

static uint32_t random_size(struct random *random)
{
    static const uint32_t limits[] = {4, 9, 20, COLL_WORLD_RANKS};

    return 1 + (uint32_t)random_below(random, limits[random_below(random, 4)]);
}

/* Every algorithm that suits a random shape. */
static void try_shape(enum coll_operation operation, uint64_t seed)
{
    static const char *const names[COLL_OPERATIONS] = {
        "barrier", "broadcast", "allgather", "reduce", "allreduce", "reduce-scatter", "alltoall",
    };
    struct coll_world *world = calloc(1, sizeof(*world));
    struct random random = {seed};
    uint32_t tried = 0;

    cr_assert(world);
    coll_world_init(world, &random, operation, random_size(&random));
    for (int a = TCA_COLL_DIRECT; a <= TCA_COLL_HIERARCHICAL; a++) {
        if (!coll_schedule_suits(&world->shape, (enum tca_coll_algorithm)a))
            continue;
        cr_assert_eq(coll_world_schedule(world, (enum tca_coll_algorithm)a), 0);
        const char *problem =
            coll_world_run(world, world->programs[0].sets == COLL_SETS ? SHORT_STARTS : STARTS);
        cr_assert_null(problem, "seed %#lx, %s by algorithm %d, %u ranks: %s", seed,
                       names[operation], a, world->shape.places.size, problem);
        tried++;
    }
    cr_assert_gt(tried, 0, "seed %#lx: nothing suits", seed);
    coll_world_deinit(world);
    free(world);
}

static void try_many(enum coll_operation operation)
{
    uint64_t seed = random_seed();

    for (uint64_t round = 0; round < random_rounds(ROUNDS); round++)
        try_shape(operation, seed + round);
}

Test(coll_schedules, barrier)
{
    try_many(COLL_BARRIER);
}

Test(coll_schedules, broadcast)
{
    try_many(COLL_BROADCAST);
}

Test(coll_schedules, allgather)
{
    try_many(COLL_ALLGATHER);
}

Test(coll_schedules, reduce)
{
    try_many(COLL_REDUCE);
}

Test(coll_schedules, allreduce)
{
    try_many(COLL_ALLREDUCE);
}

Test(coll_schedules, reduce_scatter)
{
    try_many(COLL_REDUCE_SCATTER);
}

Test(coll_schedules, alltoall)
{
    try_many(COLL_ALLTOALL);
}

Test(coll_schedules, parts)
{
    struct random random = {random_seed()};

    for (int round = 0; round < 20000; round++) {
        uint64_t bytes = random_below(&random, 300), unit = 1 + random_below(&random, 20);
        uint32_t count = 1 + (uint32_t)random_below(&random, 20);
        uint64_t offset = 0;
        for (uint32_t i = 0; i < count; i++) {
            struct coll_span part = coll_part(bytes, unit, count, i);
            cr_assert(part.offset == offset && (offset % unit == 0 || offset == bytes),
                      "%lu bytes in %u parts of units of %lu: part %u at %lu", bytes, count, unit,
                      i, part.offset);
            offset += part.bytes;
        }
        cr_assert_eq(offset, bytes);
    }
}

/* ---- hierarchy */

static uint32_t groups_of(const uint32_t *groups, uint32_t size)
{
    uint32_t leaders[COLL_WORLD_RANKS], count = 0;

    cr_assert_eq(coll_leaders(groups, size, 0, leaders), 0);
    for (uint32_t rank = 0; rank < size; rank++)
        count += leaders[rank] == rank;
    return count;
}

/* Steps of a kind that lead to another group. */
static uint32_t crossings(const struct coll_world *world, enum coll_kind kind,
                          const uint32_t *groups)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < world->shape.places.size; rank++)
        for (uint32_t i = 0; i < world->programs[rank].chains[0].count; i++) {
            const struct coll_step *step = &world->programs[rank].chains[0].steps[i];
            count += step->kind == kind && groups[step->peer] != groups[rank];
        }
    return count;
}

/* The hierarchy sends data only once into each other cluster and each other node. */
static void try_hierarchy(enum coll_operation operation, enum coll_kind kind, uint32_t each)
{
    uint64_t seed = random_seed();

    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct coll_world *world = calloc(1, sizeof(*world));
        struct random random = {seed + round};
        uint32_t size = random_size(&random);
        cr_assert(world);
        coll_world_init(world, &random, operation, size);
        world->shape.segment_bytes = UINT64_MAX;
        world->shape.bytes += world->shape.element_bytes; /* not 0 */
        world->shape.ordered = false;
        cr_assert_eq(coll_world_schedule(world, TCA_COLL_HIERARCHICAL), 0);
        cr_expect_eq(crossings(world, kind, world->clusters),
                     each * (groups_of(world->clusters, size) - 1), "seed %#lx: clusters",
                     seed + round);
        cr_expect_eq(crossings(world, kind, world->nodes),
                     each * (groups_of(world->nodes, size) - 1), "seed %#lx: nodes", seed + round);
        coll_world_deinit(world);
        free(world);
    }
}

Test(coll_schedules, hierarchy)
{
    try_hierarchy(COLL_BARRIER, COLL_NOTIFY, 2); /* up and down */
    try_hierarchy(COLL_BROADCAST, COLL_PUT, 1);
    try_hierarchy(COLL_REDUCE, COLL_PUT, 1);
}
