/* Measures the parameters of the cost model on this machine, through the driver interface. */
#pragma once

#include "drivers/cost.h"
#include "drivers/driver.h"
#include "drivers/seat.h"

struct engine;

/* A driver instance of the engine, with a peer that is the instance itself. */
struct calibrate_shared {
    struct engine *engine;
    struct driver *driver;
    struct driver_peer *peer;
    struct driver_peer *neighbour; /* connected by one cable; NULL: none, or the driver has no
                                      scratch_landing() */
};

/* The driver in processes, which put over connections of their own. */
struct calibrate_seat {
    const struct driver_seat *seat;
    const void *device; /* driver_pair_ops.device */
    size_t device_bytes;
    bool encrypts, kernel; /* what is put, by the kernel */
};

/* What is measured: one of shared, seat and shares, or none of them. */
struct calibrate_subject {
    const struct driver_ops *ops;
    const struct driver_config *config;
    const struct calibrate_shared *shared;
    const struct calibrate_seat *seat;
    bool shares; /* shm: the receiver takes part in the copying, as processes do for one another */
};

/* Measures puts between two instances of a driver, which takes about two tenths of a second: first
 * with both in the calling thread, then with a thread for each, unless one instance has both ends.
 * With `shared`, uses that instance, on the engine's thread, a few milliseconds at a time, while
 * the calling thread waits; if a device is stuck, until the driver times out. With a neighbour,
 * measures what the cable and the neighbour's device add; otherwise, that device is assumed to cost
 * as much as this node's. Raises *spread to the widest of the times of one kind of put (struct
 * cost_table). */
int calibrate_driver(const struct calibrate_subject *subject,
                     struct cost_parameters *ret_parameters, double *spread);

/* What a put takes between two threads, from a time of such puts and from what they took in one
 * thread. Much longer times are those of a processor that did something else. */
int64_t calibrate_apart_ns(int64_t apart_ns, int64_t alone_ns);
/* Both are of the same work, and other threads only add time: each number of both becomes the
 * better of the two. */
void calibrate_same(struct cost_parameters *one, struct cost_parameters *other);
/* To the time of each put, which stays positive. */
void calibrate_add_ns(struct cost_parameters *parameters, double ns);

/* Time to pass a cache line from one thread to another (ns, one way, undisturbed), which is the
 * additional cost of a start in the daemon's seat. */
double calibrate_line_ns(void);
/* Of the times of its rounds, which it sorts; a typical time if there are none. */
double calibrate_undisturbed_ns(int64_t *ns, size_t count);
/* The same, or a typical time if threads took turns on one of several processors, because the
 * others were busy. */
double calibrate_way_ns(double line_ns, unsigned processors);
