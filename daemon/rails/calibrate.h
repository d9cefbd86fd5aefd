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

/* One driver, between two instances of it in the calling thread: 0 and its parameters for the seat
 * where whoever starts also moves the data. A tenth of a second or so. With `shared` through that
 * instance instead, on the engine's thread, a few milliseconds at a time; this one waits, for as
 * long as the driver has patience where a device is stuck. With a neighbour, what the cable and its
 * device add is measured, where otherwise its device is taken to cost what our own does. */
int calibrate_driver(const struct driver_ops *ops, const struct driver_config *config,
                     const struct calibrate_shared *shared, struct cost_parameters *ret_parameters);

/* Time to pass a cache line from one thread to another (ns, one way, undisturbed), which is the
 * additional cost of a start in the daemon's seat. */
double calibrate_line_ns(void);
