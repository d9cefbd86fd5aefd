/* The collective operation of a plan, and how its algorithm was chosen. */
#include <string.h>

#include "daemon/control/inspect.h"
#include "daemon/plans/plan_collective.h"

/* Segments of UINT64_MAX bytes: one piece. */
static json_t *number(uint64_t value)
{
    return value > INT64_MAX ? json_null() : json_integer((json_int_t)value);
}

static json_t *count(uint32_t number)
{
    return number ? json_integer((json_int_t)number) : json_null();
}

json_t *inspect_collective(const struct plan_collective *collective)
{
    if (!collective)
        return json_null();
    json_t *candidates = json_array();
    for (uint32_t i = 0; i < collective->candidate_count; i++) {
        const struct plan_collective_candidate *candidate = &collective->candidates[i];
        json_array_append_new(candidates,
                              json_pack("{s:s, s:o, s:o, s:b}", "algorithm", candidate->algorithm,
                                        "predicted_ns", number(candidate->predicted_ns),
                                        "segment_bytes", number(candidate->segment_bytes), "chosen",
                                        strcmp(candidate->algorithm, collective->algorithm) == 0));
    }
    return json_pack("{s:s, s:s, s:b, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "operation",
                     collective->operation, "algorithm", collective->algorithm, "requested",
                     collective->requested, "ranks", (json_int_t)collective->ranks, "root",
                     (json_int_t)collective->root, "per_node", count(collective->per_node),
                     "per_subcluster", count(collective->per_subcluster), "bytes",
                     number(collective->bytes), "segment_bytes", number(collective->segment_bytes),
                     "candidates", candidates);
}
