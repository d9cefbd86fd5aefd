/*
 * Stripes: a large put to another node moves over several rails of one driver at once, a share over
 * each (stripes.h). The shares are parts of one put: they have the landings of one binding, which
 * exist on every rail, so the target's node need not know. A notification is a step of its own,
 * behind a flush of all these rails (plan_prepare.c).
 *
 * A stripe is a transfer that no step names, behind those of the steps in plan->transfers. Its put
 * has room for as many as it can ever have (transfer->stripe_room); those in use have a share
 * (part_bytes).
 */
#pragma once

#include "daemon/plans/plan_internal.h"
#include "daemon/plans/stripes.h"

/* What a stripe is charged with. */
enum { PLAN_STRIPE_BYTES = sizeof(struct plan_transfer) + DRIVER_PUT_BYTES + 256 };

/* PARSING: how many stripes a put may have besides its own share; 0: it stays whole. */
uint32_t plan_stripe_room(const struct plan *plan, const struct plan_transfer *transfer);
/* All transfers are parsed: adds the stripes. -ENOMEM. */
int plan_add_stripes(struct plan *plan);

/* The put has the link of its chain's rail: divides it, and takes the links of its stripes. */
int plan_take_stripes(struct plan *plan, struct plan_transfer *transfer);
/* Whether some put of the chain, on its rail, would now be divided among other rails. */
bool plan_stripes_differ(const struct plan *plan, const struct plan_chain *chain);

/* The stripes of a put, those in use first. */
static inline struct plan_transfer *
plan_stripe(const struct plan *plan, const struct plan_transfer *transfer, uint32_t index)
{
    return &plan->transfers[transfer->stripes + index];
}
static inline uint32_t plan_stripe_count(const struct plan *plan,
                                         const struct plan_transfer *transfer)
{
    uint32_t count = 0;
    while (count < transfer->stripe_room && plan_stripe(plan, transfer, count)->part_bytes > 0)
        count++;
    return count;
}

/* What a rail has of a put that could be divided, and why. */
struct plan_share {
    unsigned rail;
    uint64_t bytes;        /* 0: no share */
    uint64_t predicted_ns; /* for its share; UINT64_MAX: none, or not calibrated */
    uint64_t alone_ns;     /* for the whole put; UINT64_MAX: not calibrated */
    const char *why;
};
struct plan_division {
    uint64_t predicted_ns; /* for all shares and their confirmation; UINT64_MAX: not calibrated */
    uint32_t count;        /* rails of the driver; 0: the put cannot be divided */
    struct plan_share shares[RAIL_SLOTS];
};
/* By the costs as they are now. */
void plan_explain_division(const struct plan *plan, const struct plan_transfer *transfer,
                           struct plan_division *ret_division);

/* Adds what so many starts of a chain put on each rail. */
void plan_add_bytes(const struct plan *plan, const struct plan_chain *chain, uint64_t starts,
                    uint64_t bytes[static RAIL_SLOTS]);
