/* The choice of the copy mode near and far, the costs on which it depends, and their
 * calibration. */
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

static struct way_choice choose(struct layout *target, struct layout *source)
{
    struct way_choice choice = way_choose(&way_costs_default, target, source);
    free(target);
    if (source != target)
        free(source);
    return choice;
}

static bool chooses(struct layout *layout, enum way near, enum way far)
{
    struct way_choice choice = choose(layout, layout);
    return choice.near == near && choice.far == far;
}

Test(ways, the_ring_is_best_nearly_everywhere)
{
    cr_assert(chooses(contiguous(8192), WAY_RING, WAY_RING));
    cr_assert(chooses(strided(1024, 8, 64), WAY_RING, WAY_RING));
    cr_assert(chooses(strided(256, 256, 512), WAY_RING, WAY_RING));
    cr_assert(chooses(columns(16), WAY_RING, WAY_RING));
}

Test(ways, halves_are_for_much_near)
{
    cr_assert(chooses(strided(1023, 512, 4096), WAY_RING, WAY_RING));
    cr_assert(chooses(strided(1024, 512, 4096), WAY_HALF, WAY_RING));
    cr_assert(chooses(strided(1 << 14, 64, 128), WAY_HALF, WAY_RING));
    cr_assert(chooses(strided(1 << 17, 8, 128), WAY_RING, WAY_RING), "scattered over more lines");
    cr_assert(chooses(strided(1 << 20, 1, 1 << 20), WAY_RING, WAY_RING));
}

Test(ways, large_blocks_are_pushed_far)
{
    cr_assert(chooses(contiguous(65536), WAY_RING, WAY_PUSH));
    cr_assert(chooses(contiguous(1 << 20), WAY_HALF, WAY_PUSH));
    cr_assert(chooses(contiguous(UINT64_C(1) << 40), WAY_HALF, WAY_PUSH));
    cr_assert(chooses(strided(16, 8192, 16384), WAY_RING, WAY_PUSH));
    struct way_choice choice = choose(strided(8192, 8, 64), contiguous(65536));
    cr_assert(choice.near == WAY_RING && choice.far == WAY_RING, "from many into one is not large");
}

Test(ways, transposes_are_done_by_halves)
{
    struct way_choice choice = choose(columns(128), contiguous(128 * 128 * 8));
    cr_assert(choice.near == WAY_HALF && choice.far == WAY_HALF);
    choice = choose(contiguous(128 * 128 * 8), columns(128));
    cr_assert(choice.near == WAY_HALF && choice.far == WAY_HALF);
    choice = choose(columns(16), contiguous(16 * 16 * 8));
    cr_assert(choice.near == WAY_RING, "all of its lines stay in the cache");
}

Test(ways, near_reaches_as_far_as_half_is_cheap)
{
    struct layout *layout = contiguous(1 << 20);
    struct way_costs costs = way_costs_default;
    uint32_t usual = way_choose(&costs, layout, layout).up_to_ns;
    costs.ring_line_ns *= 2;
    cr_assert(way_choose(&costs, layout, layout).up_to_ns > usual);
    costs = way_costs_default;
    costs.half_line *= 2;
    cr_assert(way_choose(&costs, layout, layout).up_to_ns < usual);
    costs = (struct way_costs){.half_line = way_cost_fields[0].least,
                               .ring_line_ns = way_cost_fields[1].most};
    cr_assert(way_costs_valid(&costs) && way_choose(&costs, layout, layout).up_to_ns > usual,
              "no overflow");
    free(layout);
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
    cr_assert(pays(contiguous(UINT64_C(1) << 32)) && pays(strided(1 << 20, 8192, 16384)));
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

/* The measurements that a machine with these costs would yield. */
static struct way_samples samples_of(const struct way_costs *costs, double distance_ns)
{
    const double lines = (double)WAY_LARGE_BYTES / LINE_BYTES;
    return (struct way_samples){
        .distance_ns = distance_ns,
        .touch_ns = 30000,
        .half_ns = 30000 + costs->half_line * distance_ns * lines,
        .ring_ns = 30000 + costs->ring_line_ns * lines,
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
    const double bad[] = {0, -1, NAN, INFINITY};
    const struct way_samples good = samples_of(&way_costs_default, 100);
    struct way_costs costs = {.half_line = 42};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct way_samples samples[3] = {good, good, good};
        samples[0].distance_ns = samples[1].half_ns = samples[2].ring_ns = bad[i];
        for (unsigned j = 0; j < 3; j++)
            cr_assert(way_costs_fit(&samples[j], &costs) == -ERANGE, "%g at %u", bad[i], j);
    }
    cr_assert(costs.half_line == 42, "untouched");
}
