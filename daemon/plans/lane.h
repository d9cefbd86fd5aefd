/* Lanes (proto/lane.h) between sessions of this node: the daemon makes them, says to both ends
 * which puts may use them, and knows no more of what goes on there. */
#pragma once

#include <stdbool.h>

struct plan;
struct plan_unit;
struct session;

/* Offers a put of a client-seat chain to the session that it goes to: unit->share is its id then.
 * *ret_lane_fd becomes the lane, for the answer to the committing client, when that has not got it
 * yet (the caller closes it). False: the sender copies alone. */
bool lane_offer(struct plan *plan, struct plan_unit *unit, int *ret_lane_fd);
/* Takes it back, if it was made. */
void lane_withdraw(struct plan *plan, struct plan_unit *unit);

/* The session is about to be freed. */
void lanes_drop(struct session *session);
