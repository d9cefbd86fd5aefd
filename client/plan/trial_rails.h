/*
 * Plans that find their rail by trial: where several rails lead to the targets of chains in the daemon's seat, the first
 * starts of the plan try them, and the fastest stays (tune.h). tcad names the rails that are worth it, and moves the
 * chains between two starts (daemon/plans/plan_try.c). A block ends when all its data has arrived, so that a rail that only
 * buffers does not seem fast. The starts that wait for a move are not counted.
 *
 * Chains that put between the same layouts, to the same nodes, over the same rails are one kind, and try together. The
 * kinds of a plan, and the plans of a session, try one after the other.
 *
 * Only plans for which any seat will do, so that no order with other plans can break. They try again when a rail that
 * they may use comes or goes. The next run uses what one has found without trials (client/core/wisdom.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/include/tca.h"
#include "proto/limits.h"
#include "proto/tca.pb-c.h"

struct tca_plan;
struct wisdom_entry;

/* The rails that earlier trials have found, by chain; "": none is known. Owned by the session's wisdom. */
struct trial_rails_known {
    char *rails[PLAN_CHAINS_MAX];
};
/* One plan of a session after the other tries rails or seats: the moves of one hold up its starts, for which others would
 * be blamed. One that has not been started for a while loses its turn. */
bool trials_take_turn(struct tca_plan *plan, uint64_t now_ns);
void trials_give_turn(struct tca_plan *plan);
/* Keys of wisdom: adds data to one; that of a chain, from wisdom_seed(). The node numbers are part of it: the same rail may
 * lead to one node better than to another. */
void trial_mix(uint64_t key[2], const void *data, size_t bytes);
void rail_trial_key(const struct tca_plan *plan, uint32_t chain, uint64_t ret_key[2]);
/* Adds to an entry of wisdom what is shown of the puts among the steps first to end - 1. */
void trial_describe_puts(const struct tca_plan *plan, uint32_t first, uint32_t end,
                         struct wisdom_entry *entry);
/* Before a commit: whether the plan may try rails. */
bool trial_rails_known(struct tca_plan *plan, enum tca_seat seat,
                       struct trial_rails_known *ret_known);
/* Call after the commit. Begins trials if there is a choice. */
void trial_rails_begin(struct tca_plan *plan, const Tca__PlanCommitted *committed);
/* Call at each start of a plan with PLAN_TRIES, before it is submitted. */
void trial_rails_start(struct tca_plan *plan);
/* The event PLAN_MOVED. */
void trial_rails_moved(struct tca_plan *plan, const Tca__Event *event);
/* Frees plan->rail_trial; NULL is a no-op. */
void trial_rails_end(struct tca_plan *plan);
