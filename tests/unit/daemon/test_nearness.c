/* Which of several adapters is nearest, on machines that hwloc makes up. */
#include "daemon/rails/nearness.h"

#include <criterion/criterion.h>
#include <errno.h>

/* Four sockets of two processors each. */
static hwloc_topology_t sockets(const char *text)
{
    hwloc_topology_t topology;
    cr_assert(hwloc_topology_init(&topology) == 0);
    cr_assert(hwloc_topology_set_synthetic(topology, text) == 0);
    cr_assert(hwloc_topology_load(topology) == 0);
    return topology;
}

static void add_distances(hwloc_topology_t topology, hwloc_uint64_t *values)
{
    hwloc_obj_t places[4];
    for (unsigned i = 0; i < 4; i++)
        places[i] = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, i);
    hwloc_distances_add_handle_t handle = hwloc_distances_add_create(
        topology, "NUMALatency",
        HWLOC_DISTANCES_KIND_FROM_USER | HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0);
    cr_assert(handle);
    cr_assert(hwloc_distances_add_values(topology, handle, 4, places, values, 0) == 0);
    cr_assert(hwloc_distances_add_commit(topology, handle, 0) == 0);
}

Test(nearness, one_place_has_no_distances)
{
    struct nearness *nearness;
    cr_expect_eq(nearness_of(sockets("pack:1 core:2 pu:1"), &nearness), -ENODEV);
    cr_expect_eq(nearness_distance(NULL, 0, 1), 0);
    cr_expect_eq(nearness_device(NULL, "mlx5_0"), NEARNESS_UNKNOWN);
    cr_expect_eq(nearness_process(NULL, 1), NEARNESS_UNKNOWN);
}

Test(nearness, the_firmware_says_how_far_sockets_are)
{
    hwloc_uint64_t values[] = {10, 12, 32, 32, 12, 10, 32, 32, 32, 32, 10, 12, 32, 32, 12, 10};
    hwloc_topology_t topology = sockets("pack:4 [numa] core:2 pu:1");
    struct nearness *nearness;
    add_distances(topology, values);
    cr_assert(nearness_of(topology, &nearness) == 0);
    for (int i = 0; i < 16; i++)
        cr_expect_eq(nearness_distance(nearness, i / 4, i % 4), values[i], "%d to %d", i / 4,
                     i % 4);
    cr_expect_eq(nearness_distance(nearness, NEARNESS_UNKNOWN, 1), 0);
    cr_expect_eq(nearness_distance(nearness, 1, NEARNESS_UNKNOWN), 0);
    nearness_free(nearness);
}

Test(nearness, without_firmware_all_other_sockets_are_as_far)
{
    struct nearness *nearness;
    cr_assert(nearness_of(sockets("pack:4 [numa] core:2 pu:1"), &nearness) == 0);
    cr_expect_eq(nearness_distance(nearness, 2, 2), 0);
    cr_expect_eq(nearness_distance(nearness, 2, 0), nearness_distance(nearness, 2, 3));
    cr_expect_gt(nearness_distance(nearness, 2, 0), 0);
    nearness_free(nearness);
}

Test(nearness, processors_have_a_place_unless_they_have_several)
{
    hwloc_topology_t topology = sockets("pack:4 [numa] core:2 pu:1");
    hwloc_bitmap_t processors = hwloc_bitmap_alloc();
    struct nearness *nearness;
    cr_assert(nearness_of(topology, &nearness) == 0);
    hwloc_bitmap_only(processors, 5);
    cr_expect_eq(nearness_processors(nearness, processors), 2);
    hwloc_bitmap_set(processors, 4);
    cr_expect_eq(nearness_processors(nearness, processors), 2);
    hwloc_bitmap_set(processors, 6);
    cr_expect_eq(nearness_processors(nearness, processors), NEARNESS_UNKNOWN);
    cr_expect_eq(nearness_device(nearness, "none:1"), NEARNESS_UNKNOWN);
    hwloc_bitmap_free(processors);
    nearness_free(nearness);
}

Test(nearness, the_nearer_rail_is_better)
{
    const struct nearness_choice near = {10, 1000}, far = {32, 900}, fast = {32, 400};
    cr_expect(nearness_prefers(near, far) && !nearness_prefers(far, near));
    cr_expect(nearness_prefers(fast, near) && !nearness_prefers(near, fast), "another adapter");
    cr_expect(nearness_prefers(fast, far) && !nearness_prefers(far, fast), "as far: the faster");
    cr_expect(!nearness_prefers(near, near));
    const struct nearness_choice unknown = {32, UINT64_MAX}, known = {10, UINT64_MAX};
    cr_expect(nearness_prefers(known, unknown) && !nearness_prefers(unknown, known),
              "nothing was calibrated");
}
