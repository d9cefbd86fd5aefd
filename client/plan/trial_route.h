/*
 * Plans that find their routes by trial: where there is a choice, the first starts of a plan try
 * it, and the fastest stays (route_choose.h). tcad names the routes that are worth it. The data of
 * a block of starts arrives before the next block begins, so that a route that only buffers does
 * not seem fast. Starts that wait for a change of the route are not counted.
 *
 * Rails of chains in tcad's seat: tcad moves the chains between two starts
 * (daemon/plans/plan_move.h). Chains that put between the same layouts, to the same nodes, over the
 * same rails are one kind, and try together. The kinds of a plan, and the plans of a session, try
 * one after the other. They try again when a rail that they may use comes or goes.
 *
 * Seats, where this process puts to processes of other nodes itself (pair.h), without having been
 * asked to: tcad may be faster, for example because the receiver computes for long without calling
 * the library. All chains are one kind. tcad binds them in its own seat, too, and then each start
 * takes one seat or the other. So that the starts of the plan stay in order, the start that ends a
 * block is held until all data has arrived. If this takes long, it completes anyway, and the next
 * one makes another attempt; after a few, the trial is given up, and the plan stays where it is: in
 * tcad's seat without its pair, until there is one again. Only if the data of a start is predicted
 * to take as long as its way to tcad and back at least.
 *
 * Plans of which tcad runs all chains because there could be no pair, or because the pair has ended
 * meanwhile, get one when there can be one (PLAN_PAIRED): the chains are bound in both seats, and
 * the plan moves up as in a trial. tcad then releases them, and the trial of seats may begin. Plans
 * that a trial has settled in tcad's seat stay there.
 *
 * Only plans for which any seat will do. order.h keeps their starts in order with those of others.
 * The next run uses what one has found without trials (client/core/wisdom.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/include/tca.h"
#include "proto/limits.h"
#include "proto/segment.h"
#include "proto/tca.pb-c.h"

struct tca_plan;

/* What earlier trials have found. */
struct routes_known {
    char *rails[PLAN_CHAINS_MAX]; /* by chain; "": none is known. Owned by the session's wisdom */
    enum seat seat;               /* SEAT_NONE: it is not known */
};

/* How long a start may be held until its data has arrived. */
#define TRIAL_HOLD_NS UINT64_C(20000000)

/* Before a commit: whether the plan may try routes. */
bool trial_route_known(struct tca_plan *plan, enum tca_seat seat, struct routes_known *ret_known);
/* Call after the commit. Begins trials if there is a choice. */
void trial_route_begin(struct tca_plan *plan, const Tca__PlanCommitted *committed);
/* Call at each start of a plan with PLAN_TRIES, before it is begun: may change its seat. */
void trial_route_start(struct tca_plan *plan);
/* All chains of a start are complete: whether it is held until its data has arrived. */
bool trial_route_holds(struct tca_plan *plan);
/* Whether the data of the start that is held has arrived; then the trial goes on. */
bool trial_route_arrived(struct tca_plan *plan);
/* The start is not held any longer, though its data may not have arrived. */
void trial_route_late(struct tca_plan *plan);
/* The event ROUTE_CHANGED. */
void trial_route_changed(struct tca_plan *plan, const Tca__RouteChanged *changed);
/* The event PLAN_PAIRED. */
void trial_route_paired(struct tca_plan *plan, const Tca__PlanCommitted *committed);
/* A connection that the plan can put over has ended with this error: whether it goes on in tcad's
 * seat, where all its starts run from now on. */
bool trial_route_goes_on(struct tca_plan *plan, int error);
/* Whether tcad takes its starts, perhaps beside this process. */
bool trial_route_in_tcad(const struct tca_plan *plan);
/* Whether tcad runs all of it, which this process would do if it had a pair, or if an earlier trial
 * had not found tcad to be faster. */
bool trial_route_below(const struct tca_plan *plan);
/* tcad takes its starts: asks when the data of those that are complete has arrived. False: tcad
 * cannot be told now. */
bool trial_route_flush(struct tca_plan *plan);
/* Whether it has. */
bool trial_route_flushed(const struct tca_plan *plan);
/* Frees plan->route_trial; NULL is a no-op. */
void trial_route_end(struct tca_plan *plan);
