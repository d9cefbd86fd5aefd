/*
 * What an instance of the shm driver inside a client can do besides the contract: have the receiver
 * share the copying, through a lane (proto/lane.h). Same thread as the driver's other calls.
 */
#pragma once

#include "drivers/driver.h"
#include "drivers/shm/lane.h"
#include "drivers/shm/ways.h"

/* The lane to this peer, the sender's end, from now on; NULL: none any more. Nothing is in flight.
 */
void shm_peer_lane(struct driver_peer *peer, struct lane *lane);

/* The peer is this process itself: it will read from its own caches. */
void shm_peer_self(struct driver_peer *peer);

/* A prepared put with data, whose peer has a lane, is copied in this way from now on (WAY_NONE: the
 * best at each start, by these costs); id: the daemon's, known to the receiver. Its notification,
 * if any, goes to the lane's receiver. 0, -EEXIST, -EINVAL, -ENOMEM: then the sender copies it as
 * before. */
int shm_put_share(struct driver_put *put, enum way way, const struct way_costs *costs, uint32_t id,
                  const struct layout *target, const struct layout *source);

/* A put that waits for its receiver, if it does, is given up: its operation is done with this
 * error. What was left to the receiver may still land. */
void shm_put_cancel(struct driver *driver, struct driver_put *put, int error);

/* The target of a prepared put with data is memory that cannot be mapped; attached->layout is
 * copied, its address known already. 0, -ENOMEM. */
int shm_put_attached(struct driver_put *put, const struct attached *attached,
                     const struct layout *source);

/* A prepared put is copied by progress() only, in pieces, from now on: never in put_post(). */
void shm_put_defer(struct driver_put *put);

/* How it was copied the last time. WAY_NONE: never yet, and it will be decided then. */
enum way shm_put_way(const struct driver_put *put);

/* Whether everything that was put to the peer has landed: a put that is done may still wait in the
 * lane. Helps for a moment. To be true before a put is released. */
bool shm_peer_settled(struct driver_peer *peer);
