/* Repeating plans (TCA_PLAN_REPEAT). Those of the daemon's seat repeat in the daemon
 * (daemon/engine/engine_repeat.c). */
#pragma once

#include "client/plan/plan.h"

/* Whether the plan can repeat: 0 or -EINVAL. */
int repeat_check(const struct tca_plan *plan);

/* Its chains repeat in this process. */
static inline bool repeats_here(const struct tca_plan *plan)
{
    return plan->flags & TCA_PLAN_REPEAT && plan->client_count > 0;
}

/* No round follows: ends the chains that have not begun this one. */
void repeat_cut(struct tca_plan *plan);

/* All chains in the client's seat are complete: begins the next round. False: none follows, the start
 * is over. */
bool repeat_begin(struct tca_plan *plan);
