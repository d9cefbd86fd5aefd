#include "client/plan/collective.h"

#include "client/plan/plan.h"

void plan_describe_collective(struct tca_plan *plan, const struct collective *collective)
{
    plan->collective = collective;
}

Tca__Collective *collective_draft_init(struct collective_draft *draft,
                                       const struct collective *collective)
{
    for (uint32_t i = 0; i < collective->candidate_count; i++) {
        const struct collective_candidate *candidate = &collective->candidates[i];
        tca__collective__candidate__init(&draft->candidates[i]);
        draft->candidates[i].algorithm = (char *)candidate->algorithm;
        draft->candidates[i].predicted_ns = candidate->predicted_ns;
        draft->candidates[i].segment_bytes = candidate->segment_bytes;
        draft->pointers[i] = &draft->candidates[i];
    }
    tca__collective__init(&draft->collective);
    draft->collective.operation = (char *)collective->operation;
    draft->collective.algorithm = (char *)collective->algorithm;
    draft->collective.requested = collective->requested;
    draft->collective.ranks = collective->ranks;
    draft->collective.root = collective->root;
    draft->collective.per_node = collective->per_node;
    draft->collective.per_subcluster = collective->per_subcluster;
    draft->collective.bytes = collective->bytes;
    draft->collective.segment_bytes = collective->segment_bytes;
    draft->collective.candidates = draft->pointers;
    draft->collective.n_candidates = collective->candidate_count;
    return &draft->collective;
}
