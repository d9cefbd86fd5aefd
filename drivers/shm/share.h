/*
 * Extensions of the driver contract for an instance of the shm driver in a client: the receiver
 * shares the copying, through a lane (proto/lane.h). Call from the thread that polls the driver.
 */
#pragma once

#include "drivers/driver.h"
#include "drivers/shm/copy_modes.h"
#include "drivers/shm/lane.h"

/* Sets the sender's end of the lane to this peer; NULL: no lane. Nothing may be in flight. */
void shm_peer_lane(struct driver_peer *peer, struct lane *lane);

/* Marks the peer as this process itself, which reads the data from its own caches. */
void shm_peer_self(struct driver_peer *peer);

/* Lets the receiver share the copying of a prepared put with data, whose peer has a lane; the copy
 * mode is then chosen at each start by the distance. id: assigned by the daemon, known to the
 * receiver. Its notification, if any, must go to the lane's receiver. Returns 0, or -EEXIST,
 * -EINVAL or -ENOMEM; then the sender copies it as before. */
int shm_put_share(struct driver_put *put, uint32_t id, const struct layout *target,
                  const struct layout *source);

/* Sets the copy mode of the next starts of a shared put, which must not be in flight. */
void shm_put_mode(struct driver_put *put, const struct copy_mode *mode);

/* Cancels a put that waits for its receiver, if it does: calls done() with this error. The receiver
 * may still process its part. */
void shm_put_cancel(struct driver *driver, struct driver_put *put, int error);

/* From now on, only progress() copies this prepared put, in pieces; put_post() does not. Back to
 * copying at once only with parts, before put_part(). */
void shm_put_defer(struct driver_put *put, bool defer);

/* Nothing else is put where this prepared put goes while it is in flight: it overtakes puts whose
 * copying the receiver shares. post() then completes it, whatever the receiver does, unless it is
 * deferred. Not for shared puts. */
void shm_put_apart(struct driver_put *put);

/* The copy mode of the last start. COPY_NONE: not started yet, or no data. */
enum copy_method shm_put_copy_method(const struct driver_put *put);

/* Whether all puts to the peer have completed remotely: a put that is done may still be in the
 * lane. Helps to drain the lane for a moment. Must be true before a put is released. */
bool shm_peer_copied(struct driver_peer *peer);
