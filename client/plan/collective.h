/* The collective operation of a plan, as a message. */
#pragma once

#include "client/core/collective.h"
#include "proto/tca.pb-c.h"

/* Refers to the texts of the description. */
struct collective_draft {
    Tca__Collective collective;
    Tca__Collective__Candidate candidates[COLLECTIVE_CANDIDATES_MAX];
    Tca__Collective__Candidate *pointers[COLLECTIVE_CANDIDATES_MAX];
};
Tca__Collective *collective_draft_init(struct collective_draft *draft,
                                       const struct collective *collective);
