/* The two processors: pinning, and the time that a cache line takes from one to the other. */
#pragma once

/* The processors of the two ranks. -1: any. */
struct cpus {
    int cpu[2];
};

/* The first two that this process may use; the same one twice if there is only one. */
struct cpus cpus_default(void);
/* Parses "2,3" or "none". 0 or -EINVAL. */
int cpus_parse(const char *text, struct cpus *ret_cpus);
/* -EINVAL: this process may not use the processor. -1 does nothing. */
int cpu_pin(int cpu);

/*
 * Half a round trip of one cache line between two spinning threads pinned to the two processors, in
 * ns; the median of some hundred short runs. The cores should be idle otherwise. 0: there are no
 * two processors. Takes about two milliseconds.
 */
double line_ns(const struct cpus *cpus);
