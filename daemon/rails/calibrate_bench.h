/* Puts through one driver, timed: what calibrate_driver() concludes from. */
#pragma once

#include <stdint.h>

#include "drivers/driver.h"

struct bench;
struct calibrate_shared; /* calibrate.h */

/* With both ends in the calling thread, or with `shared` in that instance. */
int bench_new(const struct driver_ops *ops, const struct driver_config *config,
              const struct calibrate_shared *shared, struct bench **ret_bench);
struct bench *bench_free(struct bench *bench);

/* Many puts between these layouts, each from its post until it has landed: what the fastest quarter
 * took at most, ns, or negative. */
int64_t bench_measure(struct bench *bench, const struct layout *source,
                      const struct layout *target);

/* From now on the puts go to the neighbour's device, there and back. */
void bench_go_far(struct bench *bench);
