/* Puts of the daemon's seat from memory that was attached, and into such memory (bounce.h). */
#include <errno.h>
#include <inttypes.h>

#include "daemon/bounce.h"
#include "daemon/plan.h"
#include "daemon/region.h"
#include "daemon/session.h"
#include "daemon/tcad.h"

/* What is put into memory that was attached is there once its process has copied it; that process
 * is told afterwards, but nobody else knows when that is. Unless the chain waits in between, for an
 * answer of its. */
static int check_told(struct plan *plan, const struct plan_chain *chain, uint32_t step)
{
    const struct plan_unit *put = &plan->units[chain->steps[step].unit];
    for (uint32_t i = step + 1; i < chain->step_count && !chain->steps[i].is_wait; i++) {
        const struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        if (unit->notify && (unit->node != put->node || unit->notify_session != put->owner))
            return plan_fail(plan, -EOPNOTSUPP,
                             "chain %u notifies rank %" PRIu32
                             " after a put into memory that another process has "
                             "attached: what is put there can only be told to that process, in the "
                             "daemon's seat; notify it first and "
                             "wait for its answer, or put into memory of tca_region_alloc()",
                             (unsigned)(chain - plan->chains), unit->rank);
    }
    return 0;
}

int plan_bounce_admit(struct plan *plan, const struct plan_chain *chain)
{
    char text[400];
    for (uint32_t i = 0; i < chain->step_count; i++) {
        const struct plan_unit *unit =
            chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        if (!unit || !unit->has_target)
            continue;
        if (unit->attached && plan->landed)
            return plan_fail(plan, -EOPNOTSUPP,
                             "region %" PRIu64 " of node %" PRIu32
                             " is memory that its process has attached: what is "
                             "put there lands when that process copies it (no TCA_PLAN_LANDED)",
                             unit->handle.region, unit->node);
        int r = unit->attached ? check_told(plan, chain, i) : 0;
        if (r < 0)
            return r;
        r = bounce_admit(unit->source, BOUNCE_OUT, text, sizeof text);
        if (r < 0)
            return plan_fail(plan, r, "%s", text);
    }
    return 0;
}

int plan_bounce_tell(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct plan_unit *unit = &plan->units[i];
        if (!unit->driver || !unit->source || !unit->source->attached || unit->fetch.bounce)
            continue;
        unit->fetch.session = plan->session->engine;
        int r = bounce_new(unit->source, BOUNCE_OUT, unit->source_offset, unit->source_layout,
                           &unit->fetch.bounce);
        if (r < 0)
            return plan_fail(plan, r, "region %" PRIu64 " has just gone", unit->source->id);
    }
    return 0;
}

void plan_bounce_end(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct engine_fetch *fetch = &plan->units[i].fetch;
        if (fetch->bounce && plan->session)
            bounce_end(plan->session, fetch->bounce);
        fetch->bounce = 0;
    }
}
