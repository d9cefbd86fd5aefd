/*
 * Order between seats. Starts on one channel that put to a process of another node over a pair
 * (pair.h) arrive in their order. Plans may leave the pair for tcad's seat and come back
 * (trial_route.h), or wait for a pair there: they keep their place. While there are such plans in
 * a session (`movers`), a start that takes the other seat than earlier ones of its channel to the
 * same process first lets the data of these arrive. Otherwise a start costs nothing: pairs keep the
 * order, and so does tcad.
 *
 * A plan is *ordered* from its commit on if it puts over pairs, or would if it could. Those that
 * belong in tcad's seat, by request or because only tcad can run them, have an order of their own.
 * tests/model/order.pml proves it.
 */
#pragma once

#include <stdbool.h>

struct tca_plan;

/* The plan was committed, and is ordered. */
void order_begin(struct tca_plan *plan);
/* Call when tcad begins or ceases to take its starts. */
void order_changed(struct tca_plan *plan);
/* Its next start takes the other seat: all data of its earlier starts has arrived. */
void order_moved(struct tca_plan *plan);
/* Call at each start of an ordered plan with PACE_MEASURED, when its seat is known and before it is
 * begun. -EAGAIN: the data of earlier starts has not arrived within the session's time-out; other
 * errors: the plan has been broken meanwhile. */
int order_start(struct tca_plan *plan);
/* It is about to be freed: its data in tcad's seat arrives before starts of the other plans that
 * there are. */
void order_leave(struct tca_plan *plan);
/* It is ordered no more. */
void order_end(struct tca_plan *plan);
