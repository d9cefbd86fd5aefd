/* Chains in the client's seat that lead to a process of another node. */
#include <errno.h>
#include <inttypes.h>

#include "daemon/plans/pairs.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/sessions/region.h"
#include "daemon/tcad.h"

static unsigned number_of(const struct plan *plan, const struct plan_chain *chain)
{
    return (unsigned)(chain - plan->chains);
}

/* NULL: it can. */
static const char *why_not(const struct plan *plan, const struct plan_unit *unit, uint32_t node)
{
    if (unit->node == plan->tcad->node || unit->node != node)
        return "leads to several nodes";
    if (unit->source && unit->source->attached)
        return "puts from memory that was attached";
    if (unit->combine)
        return "combines elements on another node";
    return NULL;
}

int plan_choose_direct(struct plan *plan, struct plan_chain *chain)
{
    const struct plan_unit *first = NULL;
    for (uint32_t i = 0; i < chain->step_count; i++) {
        if (chain->steps[i].is_wait)
            continue;
        const struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        first = first ? first : unit;
        const char *why = why_not(plan, unit, first->node);
        if (why)
            return plan_fail(plan, -EOPNOTSUPP,
                             "chain %u %s: only tcad can run it (TCA_SEAT_DAEMON)",
                             number_of(plan, chain), why);
    }
    chain->rail = pairs_rail(plan->tcad, first->node, plan->wanted_rails);
    chain->wanted_rail = chain->rail;
    chain->seat = SEAT_CLIENT;
    chain->direct = true;
    chain->predicted_ns = UINT64_MAX;
    chain->candidate_count = 1;
    chain->candidates[0] = (struct plan_candidate){.rail = chain->rail,
                                                   .seat = SEAT_CLIENT,
                                                   .predicted_ns = UINT64_MAX,
                                                   .possible = true,
                                                   .chosen = true,
                                                   .why = "asked for"};
    if (chain->rail)
        return 0;
    return plan_fail(plan, -ENETDOWN,
                     "chain %u goes to node %" PRIu32
                     ", where the client can put only over the rail tcp, which does not lead there",
                     number_of(plan, chain), first->node);
}

int plan_take_direct(struct plan *plan, struct plan_unit *unit, const Tca__BoundPut *bound)
{
    char text[256];
    struct pair *pair;
    int r = pair_to(plan->tcad, plan->session, unit->node, plan->chains[unit->chain].rail, bound,
                    &pair, text, sizeof text);
    if (r < 0)
        return plan_fail_unit(plan, unit, r, text);
    unit->pair = pair->id;
    unit->landing = bound->landing;
    unit->generation = bound->generation;
    return 0;
}

/* Order holds on one connection. */
int plan_check_direct(struct plan *plan, const struct plan_chain *chain)
{
    uint64_t pair = 0;
    for (uint32_t i = 0; i < chain->step_count; i++) {
        if (chain->steps[i].is_wait)
            continue;
        const struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        if (pair && unit->pair != pair)
            return plan_fail(plan, -EOPNOTSUPP,
                             "chain %u puts to several processes of another node: give each a "
                             "chain of its own, or let tcad run it (TCA_SEAT_DAEMON)",
                             number_of(plan, chain));
        pair = unit->pair;
    }
    return 0;
}
