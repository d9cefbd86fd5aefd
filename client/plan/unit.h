/* The puts and notifications of the chains that this process runs. */
#pragma once

#include "client/plan/plan.h"

/* What goes into one put: a put step, the notification after it, or either alone. */
struct joined {
    const struct step *put;
    const struct step *notify;
    uint64_t flow; /* of its chain */
};

/* Prepares a unit as tcad has mapped it: a landing and a put of the shm driver, or a put to a process of another node. What
 * it holds is released by plan_unbind(), also after an error. */
int unit_make(struct tca_plan *plan, struct unit *unit, const struct joined *joined, uint32_t rail,
              const Tca__Mapping *mapping);
