/*
 * Plans that find their seat by trial: where this process puts to processes of other nodes itself, without having been
 * asked to, the first starts of the plan try whether tcad is faster, for example because the receiver computes for long
 * without calling the library. tcad binds the chains in its own seat, too (daemon/plans/plan_seat.c), and then each start
 * takes one seat or the other. The measure, the blocks and the wisdom are those of rails (trial_rails.h).
 *
 * The seat changes between two starts, and not before the data of all earlier ones has arrived, so that the starts of the
 * plan stay in order: the start that ends a block completes only then. If this takes long, it completes anyway, and the
 * next one makes another attempt.
 *
 * Only plans for which any seat will do, all of whose chains this process runs over pairs; and only if the data of a start
 * is predicted to take as long as its way to tcad and back at least.
 *
 * Plans of which tcad runs all chains because there could be no pair, or because the pair has ended meanwhile, wait for one
 * (daemon/plans/plan_rise.c). When there is, the chains are bound in both seats, and the plan moves up as in a trial. tcad
 * then releases them, and the trial may begin. Plans that a trial has settled in tcad's seat stay there.
 */
#pragma once

#include <stdbool.h>

#include "client/include/tca.h"
#include "proto/segment.h"
#include "proto/tca.pb-c.h"

struct tca_plan;

/* How long a start may be held until its data has arrived. */
#define SEAT_HOLD_NS UINT64_C(20000000)

/* Before a commit: whether the plan may try seats. *ret_found: the one that an earlier trial has found; SEAT_NONE: it is not
 * known. */
bool trial_seat_known(struct tca_plan *plan, enum tca_seat seat, enum seat *ret_found);
/* Call after the commit. Begins the trial if there is a choice. */
void trial_seat_begin(struct tca_plan *plan, const Tca__PlanCommitted *committed);
/* Call at each start of a plan with PLAN_TRIES, before it is begun: may change its seat. */
void trial_seat_start(struct tca_plan *plan);
/* All chains of a start are complete: whether it is held until its data has arrived. */
bool trial_seat_holds(struct tca_plan *plan);
/* Whether the data of the start that is held has arrived; then the trial goes on. */
bool trial_seat_arrived(struct tca_plan *plan);
/* The start is not held any longer, though its data may not have arrived. */
void trial_seat_late(struct tca_plan *plan);
/* The event PLAN_MOVED. */
void trial_seat_moved(struct tca_plan *plan, const Tca__Event *event);
/* The event PLAN_PAIRED. */
void trial_seat_paired(struct tca_plan *plan, const Tca__PlanCommitted *committed);
/* A connection that the plan can put over has ended with this error: whether it goes on in tcad's seat, where all its starts
 * run from now on. */
bool trial_seat_goes_on(struct tca_plan *plan, int error);
/* Frees plan->seat_trial, after which the plan stays in its seat; NULL is a no-op. */
void trial_seat_end(struct tca_plan *plan);
