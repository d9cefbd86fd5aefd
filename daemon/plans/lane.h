/* Lanes (proto/lane.h) between sessions of this node. The daemon creates them and tells both ends
 * which puts may use them; it does not take part in the copying. */
#pragma once

#include <stdbool.h>

struct plan;
struct plan_transfer;
struct session;

/* Offers a put of a client-seat chain to the receiving session and sets transfer->share to its id.
 * If the sending client does not have the lane yet, *ret_lane_fd is its descriptor, for the reply
 * to the commit; the caller closes it. Returns false if the sender must copy alone. */
bool lane_offer(struct plan *plan, struct plan_transfer *transfer, int *ret_lane_fd);
/* Withdraws the offer, if there is one. */
void lane_withdraw(struct plan *plan, struct plan_transfer *transfer);

/* The session is about to be freed. */
void lanes_drop(struct session *session);
