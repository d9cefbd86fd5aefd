/*
 * How far a rail's device is from the processors of a process (hwloc). Of several rails of one
 * driver, the nearest one is better, unless a farther one is much faster.
 *
 * A place is a NUMA node, by its number in hwloc, or NEARNESS_UNKNOWN: the device or the process
 * belongs to several.
 */
#pragma once

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NEARNESS_UNKNOWN (-1)

struct nearness;

/* Of this machine. -ENODEV: it has only one place. -ENOMEM. */
int nearness_new(struct nearness **ret_nearness);
/* Of a loaded topology, which it takes over, even on failure. */
int nearness_of(hwloc_topology_t topology, struct nearness **ret_nearness);
struct nearness *nearness_free(struct nearness *nearness);

/* nearness may be NULL: unknown. device: "mlx5_0", "eth0", or "mlx5_0:1". */
int nearness_device(const struct nearness *nearness, const char *device);
int nearness_process(const struct nearness *nearness, pid_t pid);
int nearness_processors(const struct nearness *nearness, hwloc_const_cpuset_t processors);

/* Comparable with other distances only; 0 if a place is unknown. */
uint64_t nearness_distance(const struct nearness *nearness, int from, int to);

/* A rail that may be taken: its distance, and what it is predicted to take. */
struct nearness_choice {
    uint64_t distance, predicted_ns;
};
/* Whether a is better than b, both of one driver. */
bool nearness_prefers(struct nearness_choice a, struct nearness_choice b);
