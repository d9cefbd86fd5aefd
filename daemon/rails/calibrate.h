/* Measures the parameters of the cost model on this machine, through the driver interface. */
#pragma once

#include "drivers/cost.h"
#include "drivers/driver.h"

struct engine;

/* A driver instance of the engine, with a peer that is the instance itself. */
struct calibrate_shared {
    struct engine *engine;
    struct driver *driver;
    struct driver_peer *peer;
    struct driver_peer *neighbour; /* connected by one cable; NULL: none, or the driver has no
                                      scratch_landing() */
};

/* Measures a driver between two instances in the calling thread, which takes about a tenth of a
 * second: the parameters for the seat in which the starting thread moves the data. With `shared`,
 * uses that instance, on the engine's thread, a few milliseconds at a time, while the calling
 * thread waits; if a device is stuck, until the driver times out. With a neighbour, measures what
 * the cable and the neighbour's device add; otherwise, that device is assumed to cost as much as
 * this node's. Raises *spread to the widest of the times of one kind of put (struct cost_table). */
int calibrate_driver(const struct driver_ops *ops, const struct driver_config *config,
                     const struct calibrate_shared *shared, struct cost_parameters *ret_parameters,
                     double *spread);

/* Time to pass a cache line from one thread to another (ns, one way, undisturbed), which is the
 * additional cost of a start in the daemon's seat. */
double calibrate_line_ns(void);
/* Of the times of its rounds, which it sorts; a typical time if there are none. */
double calibrate_undisturbed_ns(int64_t *ns, size_t count);
