/* What the files trial_rails*.c share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/plan/plan.h"
#include "client/plan/route_choose.h"
#include "client/plan/trial_lines.h"
#include "client/plan/trial_rails.h"

/* Chains that try together. */
struct rail_kind {
    uint64_t chains; /* one bit each */
    uint32_t first;  /* the first one */
    unsigned count;  /* of `rails`; */
    unsigned choice; /* index in them: found, known or, before the trial, used anyway */
    bool known;      /* nothing to try */
    bool unsent;     /* tcad was not told to move to: */
    uint32_t asked;  /* the rail, */
    bool found;      /* with which the trial has ended */
    uint8_t rails[TRIAL_MODES_MAX];
};

struct rail_trial {
    enum plan_pace pace; /* without trials */
    uint32_t turn;       /* of the last request to tcad */
    uint32_t trials;     /* begun so far */
    uint32_t starts;
    uint32_t at, kind_count; /* the kind that tries now */
    struct route_choose choose;
    struct rail_kind kinds[TRIAL_KINDS_MAX]; /* chains of further kinds stay where they are */
    /* by chain */
    uint64_t keys[PLAN_CHAINS_MAX][2]; /* in wisdom, if made: */
    uint64_t keyed;                    /* one bit each */
    uint32_t bound[PLAN_CHAINS_MAX];   /* rail, as tcad said last */
    uint32_t usual[PLAN_CHAINS_MAX];   /* of the commit */
    uint32_t rails[PLAN_CHAINS_MAX];   /* to try, one bit each */
};

/* ---- trial_rails_wisdom.c ---- */

/* Whether an earlier trial has chosen among the same rails; then that is the choice. */
bool rail_trial_is_known(const struct tca_plan *plan, struct rail_kind *kind);
/* Adds the choice to the session's wisdom. */
void rail_trial_note(const struct tca_plan *plan, const struct rail_kind *kind);
