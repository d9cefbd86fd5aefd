/* Measures what the cost model needs, on this machine, through the drivers' own contract. */
#pragma once

#include "drivers/cost.h"
#include "drivers/driver.h"

struct engine;

/* An instance that the engine has, and a peer of it that is itself. */
struct calibrate_shared {
    struct engine *engine;
    struct driver *driver;
    struct driver_peer *peer;
    struct driver_peer *neighbour; /* to whose device there is one cable; NULL: none, or it has no
                                      scratch_landing() */
};

/* One driver, between two instances of it in the calling thread: 0 and its parameters for the seat
 * where whoever starts also moves the data. A tenth of a second or so. With `shared` through that
 * instance instead, on the engine's thread, a few milliseconds at a time; this one waits, for as
 * long as the driver has patience where a device is stuck. With a neighbour, what the cable and its device add is measured, where otherwise its device is taken to
 * cost what our own does. */
int calibrate_driver(const struct driver_ops *ops, const struct driver_config *config,
                     const struct calibrate_shared *shared, struct cost_parameters *ret_parameters);

/* How long a cache line takes from one thread to another (ns, one way, undisturbed). What a start
 * through the daemon costs more than one in the client. */
double calibrate_line_ns(void);

/* What the ways of sharing a copy cost between two processors that we may run on, in a tenth of a
 * second at most. 0; -ENODEV: there are no two; -EBUSY: others run on them; -ERANGE: what was
 * measured makes no sense. */
int calibrate_ways(struct way_costs *ret_costs);
