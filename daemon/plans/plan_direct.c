/* Routes over pairs: chains in the client's seat that lead to a process of another node. Such a
 * chain, unless that seat was requested, takes tcad's if it cannot be bound. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"

#include "daemon/bindings/pairs.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

static unsigned number_of(const struct plan *plan, const struct plan_chain *chain)
{
    return (unsigned)(chain - plan->chains);
}

/* Why only tcad can run the chain; NULL: the client can. */
static const char *needs_tcad(const struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->transfer_count; i++) {
        const struct plan_transfer *transfer = &chain->transfers[i];
        if (transfer->node == plan->tcad->node || transfer->node != chain->transfers->node)
            return "leads to several nodes";
        if (transfer->combine)
            return "combines elements on another node";
    }
    return NULL;
}

/* A chain that waits or flushes goes on in tcad while its process computes. */
static bool goes_on_in_tcad(const struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++) {
        const struct plan_step *step = &chain->steps[i];
        if (step->is_wait || step->flush || plan->transfers[step->transfer].ordered)
            return true;
    }
    return plan->repeat;
}

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

const char *plan_pair_why_not(const struct plan *plan, const struct plan_chain *chain,
                              unsigned rail)
{
    const uint32_t node = chain->transfers->node;
    if (needs_tcad(plan, chain))
        return "only tcad can run such a chain";
    if (pairs_rail(plan->tcad, node, plan->wanted_rails) != rail)
        return "the processes can have no connection on it, or have one on another rail";
    if (!pairs_can(plan->session, rail))
        return "this process cannot use its device";
    if (plan->wanted_seat)
        return NULL;
    if (goes_on_in_tcad(plan, chain))
        return "the chain is to go on while its process computes";
    if (chain->asked.seat == SEAT_DAEMON)
        return "slower by an earlier trial";
    if (has_other_rail(plan, rail,
                       node)) /* one that may be better, or is left when this one is lost */
        return "tcad can use other rails, too";
    return NULL;
}

int plan_no_pair(struct plan *plan, const struct plan_chain *chain)
{
    const char *why = needs_tcad(plan, chain);
    const uint32_t node = chain->transfers->node;
    if (why)
        return plan_fail(plan, -EOPNOTSUPP, "chain %u %s: only tcad can run it (TCA_SEAT_DAEMON)",
                         number_of(plan, chain), why);
    const unsigned rail = pairs_rail(plan->tcad, node, plan->wanted_rails);
    if (rail)
        return plan_fail(plan, -ENODEV,
                         "this process could not use the device of the rail %s in tca_open(): it "
                         "needs write access to /dev/infiniband/uverbs* and the library libtca-%s, "
                         "or let tcad put (TCA_SEAT_DAEMON)",
                         rail_name(plan->tcad, rail),
                         driver_name(rail_at(plan->tcad, rail)->driver));
    return plan_fail(
        plan, -ENETDOWN,
        "chain %u goes to node %" PRIu32
        ", where the client can put only over rails of the drivers tcp and hca, none of "
        "which leads there",
        number_of(plan, chain), node);
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

void plan_leave_pairs(struct plan *plan)
{
    plan_unbind(plan, SEAT_CLIENT);
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        plan->transfers[i].pair = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        plan->chains[i].direct = false;
        plan->chains[i].pair = 0;
    }
}

/* All of the plan's requests have been answered; what they have bound for tcad stays. */
bool plan_fall_back(struct plan *plan)
{
    if (!may_fall_back(plan))
        return false;
    plan_note_below(plan);
    plan_begin_attempt(plan);
    plan->ask_count = plan->asked = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct plan_chain *chain = &plan->chains[i];
        if (!chain->direct)
            continue;
        chain->bound.seat = SEAT_DAEMON;
        chain->bound.rail = chain->wanted.rail = RAIL_NONE;
        chain->candidate_count = 0;
    }
    plan_leave_pairs(plan);
    plan_bind_rest(plan);
    return true;
}

int plan_take_direct(struct plan *plan, struct plan_transfer *transfer, const Tca__BoundPut *bound)
{
    char text[256];
    struct pair *pair;
    struct plan_chain *chain = &plan->chains[transfer->chain];
    int r = pair_to(plan->tcad, plan->session, transfer->node, chain->pair_rail, bound, &pair, text,
                    sizeof(text));
    if (r < 0)
        return plan_fail_transfer(plan, transfer, r, text);
    if (chain->pair && chain->pair != pair->id)
        return plan_fail(
            plan, -EOPNOTSUPP,
            "chain %u puts to several processes of another node, and order holds on one "
            "connection only: give each process a chain of its own, or let tcad run it "
            "(TCA_SEAT_DAEMON)",
            number_of(plan, chain));
    chain->pair = transfer->pair = pair->id;
    transfer->landing = bound->landing;
    transfer->generation = bound->generation;
    return 0;
}

/* ---- which pairs are used ---- */

static bool may_put_over(const struct plan *plan, const struct pair *pair)
{
    const bool binding = plan->state < PLAN_READY || plan->move.state != ROUTE_SETTLED;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (plan->chains[i].pair == pair->id)
            return true;
    for (uint32_t i = 0; binding && i < plan->transfer_count; i++) {
        const struct plan_transfer *transfer = &plan->transfers[i];
        const uint64_t other = transfer->owner ? transfer->owner : transfer->notify_session;
        if (plan->chains[transfer->chain].direct && transfer->node == pair->node &&
            (other == 0 || other == pair->other))
            return true;
    }
    return false;
}

bool plans_put_over(const struct session *session, const struct pair *pair)
{
    for (const struct plan *plan = session->plan_list; plan; plan = plan->next_of_session)
        if (may_put_over(plan, pair))
            return true;
    return false;
}
