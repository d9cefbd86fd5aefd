/* Chains in the client's seat that lead to a process of another node: those for which it was requested, and
 * those that can do without tcad and have no other rail than one over which processes put by themselves. If
 * such a chain, without a request, cannot be bound, it takes the daemon's seat. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"

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

static void choose(struct plan_chain *chain, unsigned rail, const char *why)
{
    chain->rail = chain->wanted_rail = chain->pair_rail = rail;
    chain->seat = SEAT_CLIENT;
    chain->direct = true;
    chain->predicted_ns = UINT64_MAX;
    chain->candidate_count = 1;
    chain->candidates[0] = (struct plan_candidate){.rail = rail,
                                                   .seat = SEAT_CLIENT,
                                                   .predicted_ns = UINT64_MAX,
                                                   .possible = true,
                                                   .chosen = true,
                                                   .why = why};
}

static const struct plan_unit *first_unit(const struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++)
        if (!chain->steps[i].is_wait)
            return &plan->units[chain->steps[i].unit];
    return NULL;
}

int plan_choose_direct(struct plan *plan, struct plan_chain *chain)
{
    const struct plan_unit *first = first_unit(plan, chain);
    for (uint32_t i = 0; i < chain->step_count; i++) {
        const struct plan_step *step = &chain->steps[i];
        const char *why =
            step->is_wait ? NULL : why_not(plan, &plan->units[step->unit], first->node);
        if (why)
            return plan_fail(plan, -EOPNOTSUPP,
                             "chain %u %s: only tcad can run it (TCA_SEAT_DAEMON)",
                             number_of(plan, chain), why);
    }
    choose(chain, pairs_rail(plan->tcad, first->node, plan->wanted_rails), "requested");
    if (chain->rail && pairs_can(plan->session, chain->rail))
        return 0;
    if (chain->rail)
        return plan_fail(plan, -ENODEV,
                         "this process could not use the device of the rail %s in tca_open(): it "
                         "needs write access to /dev/infiniband/uverbs* and the library libtca-%s, "
                         "or let tcad put (TCA_SEAT_DAEMON)",
                         rail_name(plan->tcad, chain->rail),
                         driver_name(rail_at(plan->tcad, chain->rail)->driver));
    return plan_fail(
        plan, -ENETDOWN,
        "chain %u goes to node %" PRIu32
        ", where the client can put only over rails of the drivers tcp and hca, none of "
        "which leads there",
        number_of(plan, chain), first->node);
}

/* A chain that waits or flushes goes on in tcad while its process computes. */
static bool needs_tcad(const struct plan *plan, const struct plan_chain *chain, uint32_t node)
{
    for (uint32_t i = 0; i < chain->step_count; i++) {
        const struct plan_step *step = &chain->steps[i];
        if (step->is_wait || step->flush)
            return true;
        const struct plan_unit *unit = &plan->units[step->unit];
        if (unit->ordered || why_not(plan, unit, node))
            return true;
    }
    return false;
}

/* A rail that may be better, or that the chain can move to when the first one is lost. */
static bool has_other_rail(const struct plan *plan, unsigned than, uint32_t node)
{
    const struct tcad *tcad = plan->tcad;
    const bool known = links_know(tcad->links, node);
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++)
        if (rail != than && links_possible(tcad, rail, node) &&
            (!known || links_exists(tcad->links, node, rail)))
            return true;
    return false;
}

unsigned plan_pair_rail(const struct plan *plan, const struct plan_chain *chain)
{
    const struct plan_unit *first = first_unit(plan, chain);
    if (plan->wanted_seat || plan->found_seat == SEAT_DAEMON || plan->repeat ||
        needs_tcad(plan, chain, first->node))
        return 0;
    const unsigned rail = pairs_rail(plan->tcad, first->node, plan->wanted_rails);
    return rail && pairs_can(plan->session, rail) && !has_other_rail(plan, rail, first->node) ? rail
                                                                                              : 0;
}

bool plan_prefers_direct(struct plan *plan, struct plan_chain *chain)
{
    const unsigned rail = plan_pair_rail(plan, chain);
    if (!rail)
        return false;
    choose(chain, rail, "the processes have a connection of their own");
    return true;
}

static bool may_fall_back(const struct plan *plan)
{
    const int error = plan->attempt.error;
    bool any = false;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        any |= plan->chains[i].direct;
    return any && !plan->wanted_seat && plan->bound_chains == plan->chain_count &&
           (error == -EOPNOTSUPP || error == -EDQUOT || error == -EBUSY || error == -ENETDOWN ||
            error == -ENOMEM);
}

/* All of the plan's requests have been answered; what they have bound for tcad stays. */
bool plan_fall_back(struct plan *plan)
{
    if (!may_fall_back(plan))
        return false;
    plan_note_below(plan);
    plan_begin_attempt(plan);
    plan_unbind_direct(plan);
    plan->ask_count = plan->asked = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct plan_chain *chain = &plan->chains[i];
        if (chain->direct) {
            chain->direct = false;
            chain->pair = 0;
            chain->seat = SEAT_DAEMON;
            chain->rail = chain->wanted_rail = RAIL_NONE;
            chain->candidate_count = 0;
        }
    }
    plan_bind_rest(plan);
    return true;
}

int plan_take_direct(struct plan *plan, struct plan_unit *unit, const Tca__BoundPut *bound)
{
    char text[256];
    struct pair *pair;
    struct plan_chain *chain = &plan->chains[unit->chain];
    int r = pair_to(plan->tcad, plan->session, unit->node, chain->pair_rail, bound, &pair, text,
                    sizeof text);
    if (r < 0)
        return plan_fail_unit(plan, unit, r, text);
    if (chain->pair && chain->pair != pair->id)
        return plan_fail(
            plan, -EOPNOTSUPP,
            "chain %u puts to several processes of another node, and order holds on one "
            "connection only: give each process a chain of its own, or let tcad run it "
            "(TCA_SEAT_DAEMON)",
            number_of(plan, chain));
    chain->pair = unit->pair = pair->id;
    unit->landing = bound->landing;
    unit->generation = bound->generation;
    return 0;
}
