/* times: a clock, and what is typical of many times. */
#pragma once

#include <stdint.h>

/* CLOCK_MONOTONIC */
uint64_t now_ns(void);

/* Median and 99th percentile; 0 of none. Sorts the times. */
void median_and_p99(uint64_t *times_ns, uint64_t count, uint64_t *ret_median_ns,
                    uint64_t *ret_p99_ns);
