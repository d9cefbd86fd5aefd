/* What plans have tried, in the session's segment, for tcactl plan explain. */
#pragma once

#include <stdint.h>

#include "client/plan/tune.h"

struct tca_plan;

enum { TRIAL_KINDS_MAX = 8 }; /* of a plan */

/* What a kind has tried: candidates of its trial, as in struct trial_line (proto/segment.h). */
struct trial_shown {
    const struct tune *tune;
    uint32_t first; /* the first put or chain of the kind */
    unsigned count, choice;
    const uint32_t *modes;
};
void trial_lines_show(const struct tca_plan *plan, uint32_t kind, const struct trial_shown *shown);
/* All of the plan. */
void trial_lines_hide(const struct tca_plan *plan);
