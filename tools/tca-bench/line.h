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

/*
 * The same for two lines in each direction: eight bytes of data in one, and a flag in another that
 * the receiver waits for before it reads the data. A put into the receiver's memory with a
 * notification cannot be faster. On some processors a single line takes less than half as long,
 * because the thread that writes it has just received it.
 */
double stores_ns(const struct cpus *cpus);
