/* Between plan_parse.c and plan_parse_step.c: a plan that is being parsed. */
#pragma once

#include "daemon/plans/plan_internal.h"

struct parser {
    struct plan *plan;
    const Tca__PlanCommit *commit;
    uint32_t chain, step;     /* the next */
    struct plan_unit *before; /* the directly preceding put */
    uint64_t plain_bytes;     /* of the plan without its layouts */
};

/* Adds a step to the chain, or a notification to the preceding put. */
int plan_parse_step(struct parser *parser, const Tca__Step *step);
/* What the client says about the collective operation of the plan. */
int plan_take_collective(struct plan *plan, const Tca__Collective *said);
/* Charges bytes of the plan to the session's limit. */
int plan_hold_bytes(struct plan *plan, uint64_t bytes);
