/* Plans that this process runs itself, for modules of this library that are built on tca.h. */
#pragma once

#include <stdbool.h>

#include "client/include/tca.h"

/* Whether this process copies all puts of a committed plan, within the node: when a start is
 * complete, its data has arrived and its notifications have been raised. */
bool plan_copies_here(const struct tca_plan *plan);

/* Whether this process puts all of a committed plan itself: within the node, or over one connection
 * to another process. What such plans of one channel put to one process arrives, with its
 * notifications, in the order of their starts, also when they move to another seat. */
bool plan_puts_in_order(const struct tca_plan *plan);

/* For a plan that is being built: nothing else is put where its puts go while they are in flight.
 * Within the node, they then wait for no earlier put whose copying its receiver shares, and are not
 * shared themselves: in the client's seat, a start of up to 4 MiB without waits and flushes is
 * complete when tca_start() returns, whatever the receiver does. */
void plan_puts_apart(struct tca_plan *plan);

/* The seat that plans of these arguments request: their own, or that of the session's settings. */
enum tca_seat session_seat(const struct tca *session, const struct tca_plan_args *args);

/* Whether this process may copy within the node what plans of these arguments would put: they
 * request neither a rail nor the daemon's seat. */
bool session_may_copy(const struct tca *session, const struct tca_plan_args *args);

/* As tca_start() and then tca_test(), which finds out only whether the start completed at once. */
int plan_start_and_test(struct tca_plan *plan);
