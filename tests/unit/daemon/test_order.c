/* Which steps of a chain wait for earlier ones. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "daemon/plans/order.h"
#include "tests/unit/proto/layouts.h"
#include "tests/unit/proto/random.h"

enum { HERE = 1, THERE = 2 };

/* A network: completion is local, routes keep their order. */
static const struct order_rules network = {.ordered = true};

static struct order_step put(uint64_t source, const struct layout *from, uint64_t route,
                             uint64_t target, const struct layout *to)
{
    return (struct order_step){.put = true,
                               .route = route,
                               .keeps = true,
                               .source = {HERE, source, from},
                               .target = {route, target, to}};
}

#define ORDER(rules, steps)                                                                        \
    cr_assert_eq(order_steps(rules, steps, sizeof(steps) / sizeof(steps[0])), 0)

Test(order, what_is_read_has_landed)
{
    struct layout *some = bytes(100);
    struct order_step steps[] = {put(0, some, HERE, 1000, some), put(5000, some, THERE, 0, some),
                                 put(1099, some, THERE, 5000, some), put(1000, some, 3, 0, some)};
    ORDER(&network, steps);
    cr_assert(!steps[0].waits && !steps[1].waits);
    cr_assert(steps[2].waits && steps[2].landed[0] == 0 && steps[2].after == 0);
    cr_assert_eq(steps[2].landed[1], ORDER_NOTHING);
    cr_assert(!steps[3].waits, "that has landed by then");
    free(some);
}

Test(order, what_is_overwritten_was_read)
{
    struct layout *some = bytes(100);
    struct order_step steps[] = {put(1000, some, THERE, 0, some), put(0, some, HERE, 1050, some)};
    ORDER(&network, steps);
    cr_assert(steps[1].waits && steps[1].after == 0);
    cr_assert(steps[1].landed[0] == ORDER_NOTHING && steps[1].landed[1] == ORDER_NOTHING);
    free(some);
}

/* Whichever of them is found first. */
Test(order, all_that_is_read_has_landed)
{
    struct layout *some = bytes(100), *both = bytes(1100);
    struct order_step steps[] = {put(0, some, HERE, 1000, some), put(0, some, HERE, 2000, some),
                                 put(1000, both, THERE, 5000, both)};
    ORDER(&network, steps);
    cr_assert(steps[2].waits && steps[2].landed[0] == 1 && !steps[2].all_landed);
    free(some);
    free(both);
}

/* Stripes go over routes of their own. */
Test(order, what_is_overwritten_has_landed_over_all_routes)
{
    const struct order_rules crossing = {.ordered = true, .crossing = true};
    struct layout *some = bytes(100), *both = bytes(200);
    struct order_step steps[] = {put(0, some, THERE, 1000, some), put(0, some, THERE, 1100, some),
                                 put(0, both, THERE, 1000, both)};
    steps[0].route = 3;
    steps[0].keeps = steps[1].keeps = false;
    ORDER(&crossing, steps);
    cr_assert(steps[2].waits && steps[2].all_landed);
    free(some);
    free(both);
}

/* The same route: what arrives later was read later. */
Test(order, the_same_route_keeps_it)
{
    struct layout *some = bytes(100);
    struct order_step steps[] = {put(1000, some, HERE, 0, some), put(500, some, HERE, 1050, some),
                                 put(800, some, THERE, 0, some), put(900, some, THERE, 50, some)};
    ORDER(&network, steps);
    for (unsigned i = 0; i < 4; i++)
        cr_assert(!steps[i].waits);
    free(some);
}

Test(order, what_is_overtaken_has_landed)
{
    struct layout *some = bytes(100);
    struct order_step steps[] = {put(0, some, THERE, 0, some), put(200, some, THERE, 50, some),
                                 put(400, some, 3, 50, some)};
    steps[0].keeps = false;
    ORDER(&network, steps);
    cr_assert(steps[1].waits && steps[1].landed[1] == 0);
    cr_assert(!steps[2].waits, "that is elsewhere");
    free(some);
}

Test(order, one_after_the_other_needs_nothing)
{
    const struct order_rules memory = {.ordered = true, .serial = true};
    struct layout *some = bytes(100);
    struct order_step steps[] = {put(0, some, HERE, 50, some), put(50, some, HERE, 80, some),
                                 put(80, some, HERE, 0, some)};
    for (unsigned i = 0; i < 3; i++)
        steps[i].lands = true;
    ORDER(&memory, steps);
    for (unsigned i = 0; i < 3; i++)
        cr_assert(!steps[i].waits);
    /* except for another route */
    steps[2].route = 7;
    ORDER(&memory, steps);
    cr_assert(!steps[0].waits && !steps[1].waits);
    cr_assert(steps[2].waits && steps[2].landed[0] == ORDER_NOTHING);
    free(some);
}

/* Two adjacent columns of a matrix: one is sent while the other is written. */
Test(order, steps_with_nothing_in_common_go_side_by_side)
{
    struct layout *column = repeat(bytes(8), 1000, 800), *row = bytes(800);
    struct order_step steps[] = {
        put(1 << 20, column, HERE, 0, column), put(8, column, THERE, 0, column),
        put(1 << 20, column, HERE, 16, column), put(800000, row, THERE, 8, row),
        put(1 << 20, column, HERE, 800, column)};
    ORDER(&network, steps);
    for (unsigned i = 0; i < 4; i++)
        cr_assert(!steps[i].waits, "step %u waits for %u", i, steps[i].after);
    steps[4].source.base = 16 + 800;
    ORDER(&network, steps);
    cr_assert(steps[4].waits && steps[4].after == 2);
    free(column);
    free(row);
}

Test(order, a_notification_comes_after_what_went_elsewhere)
{
    struct layout *some = bytes(100);
    struct order_step steps[] = {put(0, some, THERE, 0, some),
                                 {.notify = true, .route = THERE},
                                 {.notify = true, .route = 3},
                                 {.notify = true, .route = 4},
                                 put(0, some, 4, 0, some)};
    steps[4].notify = true;
    ORDER(&network, steps);
    cr_assert(!steps[0].waits && !steps[1].waits && !steps[3].waits && !steps[4].waits);
    cr_assert(steps[2].waits && steps[2].after == ORDER_NOTHING);
    const struct order_rules unordered = {.ordered = false};
    ORDER(&unordered, steps);
    cr_assert(steps[1].waits);
    free(some);
}

/* ---- random chains ---- */

enum { STEPS = 24, ROUTES = 3 };

static bool meet(const struct order_bytes *a, const struct order_bytes *b)
{
    return a->space == b->space &&
           layout_overlap(a->layout, a->base, b->layout, b->base, &(unsigned){1 << 20});
}

/* The guarantee of order.h for two steps. */
struct promise {
    bool done, landed;
};

static struct promise promised(const struct order_rules *rules, const struct order_step *earlier,
                               const struct order_step *later)
{
    const bool same_route = earlier->route == later->route;
    struct promise promise = {0};
    if (!earlier->put || !later->put)
        return promise;
    if (meet(&earlier->source, &later->target) && !(same_route && rules->ordered))
        promise.done = true;
    if ((meet(&earlier->target, &later->source) &&
         !(same_route && rules->serial && earlier->lands)) ||
        (meet(&earlier->target, &later->target) && !(same_route && earlier->keeps))) {
        promise.done = true;
        promise.landed = !earlier->lands;
    }
    return promise;
}

/* Whether the waits of steps `earlier` + 1 to `later` keep this guarantee. */
static bool kept(const struct order_step *steps, unsigned earlier, unsigned later,
                 struct promise promise)
{
    for (unsigned i = earlier + 1; i <= later; i++) {
        promise.done &= !steps[i].waits;
        for (unsigned k = 0; k < 2; k++)
            if (steps[i].landed[k] != ORDER_NOTHING &&
                (steps[i].all_landed || (steps[steps[i].landed[k]].route == steps[earlier].route &&
                                         steps[i].landed[k] >= earlier)))
                promise.landed = false;
    }
    return !promise.done && !promise.landed;
}

static struct layout *random_layout(struct random *random)
{
    struct layout *block = bytes(1 + random_below(random, 20));
    return random_below(random, 2) ? block
                                   : repeat(block, 1 + random_below(random, 5),
                                            (int64_t)random_below(random, 120) - 60);
}

static struct order_step random_step(struct random *random, bool crossing)
{
    const uint64_t route = HERE + random_below(random, ROUTES);
    struct order_step step = put(2000 + random_below(random, 800), random_layout(random), route,
                                 2000 + random_below(random, 800), random_layout(random));
    step.notify = random_below(random, 4) == 0;
    step.lands = random_below(random, 5) == 0;
    step.keeps = random_below(random, 2) == 0;
    if (crossing && random_below(random, 3) == 0) {
        step.route = HERE + ROUTES + random_below(random, 2);
        step.lands = random_below(random, 2) == 0;
        step.keeps = false;
    }
    return step;
}

static void check(const struct order_rules *rules, struct order_step *steps, unsigned count,
                  uint64_t seed, unsigned *needless)
{
    for (unsigned later = 0; later < count; later++) {
        bool asked = later > 0 && steps[later].notify;
        for (unsigned earlier = 0; earlier < later; earlier++) {
            const struct promise promise = promised(rules, &steps[earlier], &steps[later]);
            asked |= promise.done;
            cr_assert(kept(steps, earlier, later, promise), "steps %u and %u of seed %llu", earlier,
                      later, (unsigned long long)seed);
        }
        *needless += steps[later].waits && !asked;
    }
}

Test(order, of_random_chains)
{
    const uint64_t seed = random_seed();
    struct random random = {seed};
    unsigned waits = 0, needless = 0;
    for (unsigned round = 0; round < 3000; round++) {
        const struct order_rules rules = {.ordered = random_below(&random, 4) > 0,
                                          .serial = random_below(&random, 4) == 0,
                                          .crossing = random_below(&random, 4) == 0};
        struct order_step steps[STEPS];
        for (unsigned i = 0; i < STEPS; i++)
            steps[i] = random_step(&random, rules.crossing);
        ORDER(&rules, steps);
        check(&rules, steps, STEPS, seed, &needless);
        for (unsigned i = 0; i < STEPS; i++) {
            waits += steps[i].waits;
            free((struct layout *)steps[i].source.layout);
            free((struct layout *)steps[i].target.layout);
        }
    }
    cr_assert(waits > 3000 && waits < 3000 * STEPS / 2, "%u of all steps wait", waits);
    cr_assert_eq(needless, 0, "%u steps wait without need (seed %llu)", needless,
                 (unsigned long long)seed);
}

/* As many steps as a plan may have, all columns of one matrix: none waits except those that are too
 * many to distinguish. Comparing every step with all before it would take hours. */
Test(order, of_a_long_chain, .timeout = 60)
{
    enum { LONG = 65536 };
    struct layout *column = repeat(bytes(8), 1000, 8 * LONG), *piece = bytes(8 * 1000);
    struct order_step *steps = calloc(LONG, sizeof(*steps));
    unsigned waits = 0;
    for (unsigned i = 0; i < LONG; i++)
        steps[i] = put(UINT64_C(1) << 40, piece, HERE, 8 * i, column);
    for (unsigned i = 0; i < LONG; i++)
        steps[i].keeps = false;
    cr_assert_eq(order_steps(&network, steps, LONG), 0);
    for (unsigned i = 0; i < LONG; i++)
        waits += steps[i].waits;
    cr_assert(waits <= LONG / 64, "%u wait", waits);
    for (unsigned i = 0; i < LONG; i++)
        steps[i] = put((uint64_t)i * 8000, piece, i % 2 ? HERE : THERE,
                       (UINT64_C(1) << 40) + (uint64_t)i * 8000, piece);
    cr_assert_eq(order_steps(&network, steps, LONG), 0);
    for (unsigned i = 0; i < LONG; i++)
        cr_assert(!steps[i].waits);
    free(steps);
    free(column);
    free(piece);
}
