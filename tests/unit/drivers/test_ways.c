/* The model that chooses between half and ring, the costs that it is fed with, and how they come
 * from a calibration. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "drivers/shm/ways.h"
#include "proto/segment.h"

static struct layout *contiguous(uint64_t bytes)
{
    struct layout *layout;
    cr_assert(layout_contiguous(bytes, &layout) == 0);
    return layout;
}

static struct layout *strided(uint64_t count, uint64_t bytes, int64_t stride)
{
    struct layout *block = contiguous(bytes), *layout;
    cr_assert(layout_repeat(block, count, stride, &layout) == 0);
    free(block);
    return layout;
}

/* n columns of n words each, of a matrix that lies by rows. */
static struct layout *columns(uint64_t n)
{
    struct layout *column = strided(n, 8, (int64_t)(n * 8)), *layout;
    cr_assert(layout_repeat(column, n, 8, &layout) == 0);
    free(column);
    return layout;
}

static uint32_t up_to(const struct way_costs *costs, struct layout *target, struct layout *source)
{
    struct way_choice choice = way_choose(costs, target, source);
    free(target);
    if (source != target)
        free(source);
    return choice.up_to_ns;
}

static uint32_t up_to_both(const struct way_costs *costs, struct layout *layout)
{
    return up_to(costs, layout, layout);
}

Test(ways, near_reaches_less_far_the_more_there_is)
{
    uint32_t before = UINT32_MAX;
    for (uint64_t bytes = 8; bytes <= 1 << 28; bytes *= 2) {
        uint32_t now = up_to_both(&way_costs_default, contiguous(bytes));
        cr_assert(now <= before, "%llu bytes: %u after %u", (unsigned long long)bytes, now, before);
        before = now;
    }
    double limit = way_costs_default.ring_line_ns / way_costs_default.half_line;
    cr_assert(before >= (uint32_t)limit - 1 && before <= (uint32_t)limit + 1,
              "what a line costs is what is left: %u", before);
    cr_assert(up_to_both(&way_costs_default, strided(1024, 8, 64)) <
                  up_to_both(&way_costs_default, contiguous(8192)),
              "scattered over more lines");
}

Test(ways, near_reaches_farther_the_dearer_the_ring_is)
{
    for (unsigned field = 0; field < WAY_COST_FIELDS; field++) {
        struct way_costs costs = way_costs_default;
        bool of_ring = field >= 2 && field < 4; /* what a block costs is paid by both */
        uint32_t before = up_to_both(&costs, strided(512, 32, 64));
        *way_cost_at(&costs, field) *= 1.5;
        uint32_t now = up_to_both(&costs, strided(512, 32, 64));
        cr_assert(of_ring     ? now > before
                  : field < 2 ? now < before
                              : now >= before,
                  "%s: %u, then %u", way_cost_fields[field].name, before, now);
    }
}

static enum way near(struct layout *layout)
{
    enum way way = way_choose(&way_costs_default, layout, layout).near;
    free(layout);
    return way;
}

Test(ways, many_blocks_are_worth_help)
{
    cr_assert(near(contiguous(8192)) == WAY_PUSH);
    cr_assert(near(strided(16, 256, 512)) == WAY_PUSH);
    cr_assert(near(strided(256, 256, 512)) == WAY_PUSH);
    cr_assert(near(strided(1024, 256, 512)) == WAY_HALF, "much");
    cr_assert(near(strided(1024, 8, 64)) == WAY_HALF);
    cr_assert(near(columns(128)) == WAY_HALF);
}

Test(ways, transposes_are_done_by_halves)
{
    cr_assert(up_to(&way_costs_default, columns(128), contiguous(128 * 128 * 8)) == UINT32_MAX);
    cr_assert(up_to(&way_costs_default, contiguous(128 * 128 * 8), columns(128)) == UINT32_MAX);
    cr_assert(up_to(&way_costs_default, columns(16), contiguous(16 * 16 * 8)) < UINT32_MAX,
              "all of its lines stay in the cache");
}

Test(ways, edges)
{
    struct way_costs costs = way_costs_default;
    costs.half_base_ns = 1e6;
    cr_assert(up_to_both(&costs, contiguous(4096)) > 0, "a push needs no help");
    cr_assert(up_to_both(&costs, strided(1 << 20, 1, 2)) > 0);
    costs = (struct way_costs){.half_line = 1e-3, .ring_line_ns = 1e-2};
    cr_assert(up_to_both(&costs, contiguous(1)) == 0, "never");
    costs = (struct way_costs){
        .ring_base_ns = 1e6, .half_line = 1e-2, .ring_line_ns = 1e5, .ring_block_ns = 1e5};
    cr_assert(way_costs_valid(&costs));
    cr_assert(up_to_both(&costs, contiguous(1)) >= 100000000, "as good as always");
    cr_assert(up_to_both(&costs, contiguous(UINT64_C(1) << 40)) > 0);
    cr_assert(up_to_both(&costs, strided(UINT64_C(1) << 30, 1, 1 << 20)) > 0);
}

static bool pays(struct layout *layout)
{
    bool result = way_share_pays(layout, layout);
    free(layout);
    return result;
}

Test(ways, sharing_pays_from_some_lines_on)
{
    cr_assert(!pays(contiguous(0)) && !pays(contiguous(8)) && !pays(contiguous(1024)));
    cr_assert(!pays(strided(1024, 1, 1)) && !pays(strided(16, 8, 4096)));
    cr_assert(pays(contiguous(2048)) && pays(strided(1024, 8, 4096)));
    cr_assert(pays(strided(1 << 20, 1024, 4096)));
    cr_assert(!pays(contiguous(UINT64_C(1) << 32)) && !pays(strided(1 << 20, 8192, 16384)),
              "a push past the caches is better");
}

Test(ways, costs_are_checked)
{
    const double bad[] = {NAN, INFINITY, -INFINITY, -1, -0.001, 1e300};
    cr_assert(way_costs_valid(&way_costs_default));
    for (unsigned field = 0; field < WAY_COST_FIELDS; field++) {
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            struct way_costs costs = way_costs_default;
            *way_cost_at(&costs, field) = bad[i];
            cr_assert(!way_costs_valid(&costs), "%s = %g", way_cost_fields[field].name, bad[i]);
        }
        cr_assert(way_cost_valid(field, way_cost_fields[field].least) &&
                  way_cost_valid(field, way_cost_fields[field].most));
    }
}

/* What a machine with these costs would be measured to do. */
static struct way_samples samples_of(const struct way_costs *costs, double distance_ns)
{
    const double lines[] = {WAY_SHORT_BYTES / LINE_BYTES, WAY_LONG_BYTES / LINE_BYTES,
                            WAY_BLOCKS * 8 / LINE_BYTES};
    return (struct way_samples){
        .distance_ns = distance_ns,
        .half_short_ns = costs->half_base_ns + costs->half_line * distance_ns * lines[0],
        .half_long_ns = costs->half_base_ns + costs->half_line * distance_ns * lines[1],
        .ring_short_ns = costs->ring_base_ns + costs->ring_line_ns * lines[0],
        .ring_long_ns = costs->ring_base_ns + costs->ring_line_ns * lines[1],
        .ring_blocks_ns = costs->ring_base_ns + costs->ring_line_ns * lines[2] +
                          costs->ring_block_ns * WAY_BLOCKS,
    };
}

Test(ways, costs_come_back_from_samples)
{
    for (double distance_ns = 20; distance_ns < 500; distance_ns *= 2) {
        struct way_samples samples = samples_of(&way_costs_default, distance_ns);
        struct way_costs costs, expected = way_costs_default;
        cr_assert(way_costs_fit(&samples, &costs) == 0);
        for (unsigned field = 0; field < WAY_COST_FIELDS; field++)
            cr_assert_float_eq(*way_cost_at(&costs, field), *way_cost_at(&expected, field), 1e-6,
                               "%s", way_cost_fields[field].name);
    }
}

Test(ways, samples_that_make_no_sense)
{
    const struct way_samples good = samples_of(&way_costs_default, 100);
    struct way_costs costs = {.half_base_ns = 42};
    struct way_samples samples = good;
    samples.distance_ns = 0;
    cr_assert(way_costs_fit(&samples, &costs) == -ERANGE);
    samples.distance_ns = NAN;
    cr_assert(way_costs_fit(&samples, &costs) == -ERANGE);
    samples = good;
    samples.half_long_ns = samples.half_short_ns;
    cr_assert(way_costs_fit(&samples, &costs) == -ERANGE, "64 KiB as fast as 2 KiB");
    samples = good;
    samples.ring_long_ns = samples.ring_short_ns / 2;
    cr_assert(way_costs_fit(&samples, &costs) == -ERANGE);
    samples = good;
    samples.ring_blocks_ns = INFINITY;
    cr_assert(way_costs_fit(&samples, &costs) == -ERANGE);
    cr_assert(costs.half_base_ns == 42, "untouched");
    samples = good;
    samples.half_short_ns = samples.ring_short_ns = samples.ring_blocks_ns = 1;
    cr_assert(way_costs_fit(&samples, &costs) == 0, "less than nothing is nothing");
    cr_assert(costs.half_base_ns == 0 && costs.ring_base_ns == 0 && costs.ring_block_ns == 0);
}
