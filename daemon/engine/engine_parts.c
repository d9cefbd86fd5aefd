/* Starts that move parts of their puts: the client writes the parts into the session's segment, and
 * submits the start with SUBMIT_PARTS. */
#include <errno.h>

#include "daemon/engine/engine_internal.h"

static bool lies_in(const struct driver_part *part, const struct engine_part *of)
{
    return part->bytes <= of->source_bytes && part->bytes <= of->target_bytes &&
           part->source_at_bytes <= of->source_bytes - part->bytes &&
           part->target_at_bytes <= of->target_bytes - part->bytes &&
           (!of->tied || part->source_at_bytes == part->target_at_bytes);
}

/* relaxed: the ring's tail, which the client has stored since, orders them */
static struct driver_part read_part(struct start_part *from)
{
    return (struct driver_part){
        .source_at_bytes = atomic_load_explicit(&from->source_at_bytes, memory_order_relaxed),
        .target_at_bytes = atomic_load_explicit(&from->target_at_bytes, memory_order_relaxed),
        .bytes = atomic_load_explicit(&from->bytes, memory_order_relaxed),
    };
}

static int take(struct engine_session *session, struct engine_plan *plan)
{
    for (uint32_t i = 0; i < plan->part_count; i++) {
        const struct driver_part part = read_part(&session->segment->parts[plan->parts_at + i]);
        if (!lies_in(&part, &plan->parts[i]))
            return -EINVAL;
        plan->parts[i].part = part;
    }
    return 0;
}

void engine_parts_apply(struct engine_plan *plan)
{
    uint64_t bytes = plan->other_bytes;
    if (plan->part_count == 0)
        return;
    for (uint32_t i = 0; i < plan->part_count; i++) {
        const struct engine_part *part = &plan->parts[i];
        if (!part->put)
            continue;
        part->driver->ops->put_part(part->driver, part->put, &part->part);
        bytes += part->part.bytes;
    }
    plan->bytes = bytes;
}

void engine_parts_start(struct engine_session *session, const struct submit_entry *entry)
{
    struct submit_entry start = *entry;
    start.plan &= ~SUBMIT_PARTS;
    struct engine_plan *plan =
        start.plan < PLANS_PER_SESSION_MAX ? session->plans[start.plan] : NULL;
    if (plan && engine_plan_takes_starts(plan)) {
        int r = take(session, plan);
        if (r < 0) {
            engine_plan_refuse(session, &start, r);
            return;
        }
        if (plan->state == ENGINE_PLAN_OPEN)
            engine_parts_apply(plan);
    }
    engine_plan_start(session, &start);
}
