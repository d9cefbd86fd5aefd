/* line: the two processors themselves: pinning, and how long a cache line takes from one to the
 * other. */
#pragma once

#include <stdint.h>

/* Which processors the two ranks run on. -1: wherever the system likes. */
struct cpus {
    int cpu[2];
};

/* The first two that this process may use; the same one twice when there is only one. */
struct cpus cpus_default(void);
/* "2,3", "none"; -EINVAL. */
int cpus_parse(const char *text, struct cpus *ret_cpus);
/* -EINVAL: not one of those this process may use. -1 does nothing. */
int cpu_pin(int cpu);

/*
 * One way of a ping-pong through one cache line between two spinning threads pinned to the two
 * processors, in ns; the median of some hundred short runs. The cores should be idle otherwise. 0:
 * there are no two processors. Takes about two milliseconds.
 */
double line_ns(const struct cpus *cpus);
