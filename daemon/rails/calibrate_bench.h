/* Measures puts through one driver, for calibrate_driver(). */
#pragma once

#include <stdint.h>

#include "drivers/driver.h"

struct bench;
struct calibrate_subject; /* calibrate.h */

int bench_new(const struct calibrate_subject *subject, struct bench **ret_bench);
struct bench *bench_free(struct bench *bench);

/* Makes many puts between these layouts, in one thread and between two. Returns their time from
 * post to remote completion, in ns, or a negative errno. */
int64_t bench_measure(struct bench *bench, const struct layout *source,
                      const struct layout *target);

/* The widest spread so far of the times of such puts: upper by lower quartile. */
double bench_spread(const struct bench *bench);

/* Makes the following puts go to the neighbour's device and back. */
void bench_go_far(struct bench *bench);
