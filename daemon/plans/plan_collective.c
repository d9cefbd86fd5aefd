#include "daemon/plans/plan_collective.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/plans/plan_parse.h"
#include "daemon/sessions/session.h"

int plan_take_collective(struct plan *plan, const Tca__Collective *said)
{
    if (said->n_candidates > COLLECTIVE_CANDIDATES_MAX)
        return plan_fail(plan, -EINVAL, "a collective operation of %zu algorithms: at most %d",
                         said->n_candidates, COLLECTIVE_CANDIDATES_MAX);
    struct plan_collective *collective = calloc(1, sizeof *collective);
    if (!collective)
        return plan_fail(plan, -ENOMEM, "out of memory for a plan");
    session_take_name(collective->operation, said->operation);
    session_take_name(collective->algorithm, said->algorithm);
    collective->requested = said->requested;
    collective->ranks = said->ranks;
    collective->root = said->root;
    collective->per_node = said->per_node;
    collective->per_subcluster = said->per_subcluster;
    collective->bytes = said->bytes;
    collective->segment_bytes = said->segment_bytes;
    collective->candidate_count = (uint32_t)said->n_candidates;
    for (uint32_t i = 0; i < collective->candidate_count; i++) {
        struct plan_collective_candidate *candidate = &collective->candidates[i];
        session_take_name(candidate->algorithm, said->candidates[i]->algorithm);
        candidate->predicted_ns = said->candidates[i]->predicted_ns;
        candidate->segment_bytes = said->candidates[i]->segment_bytes;
    }
    plan->collective = collective;
    return 0;
}
