/* Plans of a session that start together (tca_plan_args.together): where several rails lead to other
 * nodes, a chain takes the rail over which it ends first, behind what the others put there. */
#include "daemon/plans/plan_internal.h"
#include "daemon/sessions/session.h"

static uint64_t put_over(const struct plan *plan, const struct plan_chain *except, unsigned rail)
{
    uint64_t total_ns = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        const struct plan_chain *chain = &plan->chains[i];
        if (chain != except && chain->bound.seat == SEAT_DAEMON && chain->bound.rail == rail &&
            chain->predicted_ns != UINT64_MAX && !plan_chain_is_local(plan, chain))
            total_ns += chain->predicted_ns;
    }
    return total_ns;
}

uint64_t plan_behind_ns(const struct plan *plan, const struct plan_chain *chain, unsigned rail)
{
    uint64_t total_ns = 0;
    if (!plan->together || !plan->session || plan_chain_is_local(plan, chain))
        return 0;
    for (const struct plan *other = plan->session->plan_list; other; other = other->next_of_session)
        if (other->together == plan->together && !other->release_asked)
            total_ns += put_over(other, chain, rail);
    return total_ns;
}
