#include "daemon/rails/nearness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MUCH_FASTER = 2 }; /* times: another kind of adapter, rather than another measurement */

struct nearness {
    hwloc_topology_t topology;
    struct hwloc_distances_s *distances; /* of the firmware; NULL: none */
};

int nearness_of(hwloc_topology_t topology, struct nearness **ret_nearness)
{
    struct nearness *nearness = calloc(1, sizeof(*nearness));
    unsigned count = 1;
    int r = nearness ? 0 : -ENOMEM;
    if (r == 0 && hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) < 2)
        r = -ENODEV;
    if (r < 0) {
        hwloc_topology_destroy(topology);
        free(nearness);
        return r;
    }
    nearness->topology = topology;
    if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &nearness->distances,
                                    HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) < 0 ||
        count == 0)
        nearness->distances = NULL;
    *ret_nearness = nearness;
    return 0;
}

int nearness_new(struct nearness **ret_nearness)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) < 0)
        return -ENOMEM;
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology) < 0) {
        hwloc_topology_destroy(topology);
        return -ENODEV;
    }
    return nearness_of(topology, ret_nearness);
}

struct nearness *nearness_free(struct nearness *nearness)
{
    if (!nearness)
        return NULL;
    if (nearness->distances)
        hwloc_distances_release(nearness->topology, nearness->distances);
    hwloc_topology_destroy(nearness->topology);
    free(nearness);
    return NULL;
}

/* ---- places ---- */

static int only_one(hwloc_const_nodeset_t places)
{
    return places && hwloc_bitmap_weight(places) == 1 ? hwloc_bitmap_first(places)
                                                      : NEARNESS_UNKNOWN;
}

int nearness_device(const struct nearness *nearness, const char *device)
{
    const size_t length = strcspn(device, ":");
    hwloc_obj_t object = NULL;
    while (nearness && (object = hwloc_get_next_osdev(nearness->topology, object)))
        if (strlen(object->name) == length && memcmp(object->name, device, length) == 0)
            return only_one(hwloc_get_non_io_ancestor_obj(nearness->topology, object)->nodeset);
    return NEARNESS_UNKNOWN;
}

int nearness_processors(const struct nearness *nearness, hwloc_const_cpuset_t processors)
{
    hwloc_nodeset_t places = hwloc_bitmap_alloc();
    int place = NEARNESS_UNKNOWN;
    if (places && hwloc_cpuset_to_nodeset(nearness->topology, processors, places) == 0)
        place = only_one(places);
    hwloc_bitmap_free(places);
    return place;
}

int nearness_process(const struct nearness *nearness, pid_t pid)
{
    hwloc_cpuset_t processors = nearness && pid > 0 ? hwloc_bitmap_alloc() : NULL;
    int place = NEARNESS_UNKNOWN;
    if (processors && hwloc_get_proc_cpubind(nearness->topology, pid, processors, 0) == 0)
        place = nearness_processors(nearness, processors);
    hwloc_bitmap_free(processors);
    return place;
}

/* ---- distances ---- */

uint64_t nearness_distance(const struct nearness *nearness, int from, int to)
{
    hwloc_uint64_t there, back;
    if (!nearness || from == NEARNESS_UNKNOWN || to == NEARNESS_UNKNOWN)
        return 0;
    hwloc_obj_t a = hwloc_get_numanode_obj_by_os_index(nearness->topology, (unsigned)from),
                b = hwloc_get_numanode_obj_by_os_index(nearness->topology, (unsigned)to);
    if (nearness->distances && a && b &&
        hwloc_distances_obj_pair_values(nearness->distances, a, b, &there, &back) == 0)
        return there;
    return from != to;
}

bool nearness_prefers(struct nearness_choice a, struct nearness_choice b)
{
    const struct nearness_choice near = a.distance < b.distance ? a : b,
                                 far = a.distance < b.distance ? b : a;
    if (a.distance == b.distance || near.predicted_ns / MUCH_FASTER > far.predicted_ns)
        return a.predicted_ns < b.predicted_ns;
    return a.distance < b.distance;
}
