#include "daemon/plans/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"

int parts_check_put(struct plan *plan, uint32_t step, const Tca__Put *put,
                    struct plan_transfer *transfer)
{
    const struct layout *source = transfer->source_layout, *target = transfer->target_layout;
    if (source->size_bytes != target->size_bytes &&
        (!put->parts || (!layout_is_contiguous(source) && !layout_is_contiguous(target))))
        return plan_fail(plan, -EINVAL,
                         "step %u: the source layout has %" PRIu64
                         " bytes, the target layout %" PRIu64 ": they must be equal%s",
                         step, source->size_bytes, target->size_bytes,
                         put->parts ? ", because neither is contiguous" : "");
    if (put->parts && put->combine != OPERATOR_REPLACE)
        return plan_fail(plan, -EINVAL, "step %u: a reduction is moved as a whole, not in parts",
                         step);
    transfer->parts = put->parts;
    transfer->part_index = plan->run.parts_at + plan->part_count;
    plan->part_count += transfer->parts;
    if (transfer->parts && (plan->run.parts_at >= START_PARTS_MAX ||
                            plan->part_count > START_PARTS_MAX - plan->run.parts_at))
        return plan_fail(plan, -EINVAL,
                         "%" PRIu32 " puts with parts from index %" PRIu32
                         " on: the session's table has %d",
                         plan->part_count, plan->run.parts_at, START_PARTS_MAX);
    return 0;
}

uint64_t parts_moved(const struct plan *plan, const struct plan_transfer *transfer)
{
    const uint64_t most = plan_starts(plan) * transfer->bytes;
    const uint32_t index = transfer->part_index;
    if (most == 0 || index >= START_PARTS_MAX) /* a plan whose parts are too many has failed */
        return 0;
    const uint64_t moved = atomic_load_explicit(&plan->session->segment->parts[index].moved_bytes,
                                                memory_order_relaxed);
    return moved < most ? moved : most;
}

uint64_t parts_moved_all(const struct plan *plan, uint64_t starts)
{
    uint64_t bytes = starts * plan->bytes;
    for (uint32_t i = 0; plan->part_count > 0 && i < plan->transfer_count; i++)
        if (plan->transfers[i].parts)
            bytes += parts_moved(plan, &plan->transfers[i]) - starts * plan->transfers[i].bytes;
    return bytes;
}

int parts_prepare(struct plan *plan)
{
    struct engine_plan *run = &plan->run;
    if (plan->part_count == 0)
        return 0;
    if (!run->parts)
        run->parts = calloc(plan->part_count, sizeof(*run->parts));
    if (!run->parts)
        return plan_fail(plan, -ENOMEM, "out of memory for %" PRIu32 " puts with parts",
                         plan->part_count);
    run->part_count = plan->part_count;
    run->other_bytes = run->bytes;
    struct engine_part *part = run->parts;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        const struct plan_transfer *transfer = &plan->transfers[i];
        if (!transfer->parts)
            continue;
        part->driver = transfer->driver;
        part->put = transfer->put;
        part->source_bytes = transfer->source_layout->size_bytes;
        part->target_bytes = transfer->target_layout->size_bytes;
        part->tied = !layout_is_contiguous(transfer->source_layout) &&
                     !layout_is_contiguous(transfer->target_layout);
        run->other_bytes -= part->put ? transfer->bytes : 0;
        part++;
    }
    engine_parts_apply(run);
    return 0;
}
