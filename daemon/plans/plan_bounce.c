/* Puts of the daemon's seat from memory that was attached, and into such memory (bounce.h). */
#include <errno.h>
#include <inttypes.h>

#include "daemon/plans/plan_internal.h"
#include "daemon/sessions/bounce.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

int plan_bounce_admit(struct plan *plan, const struct plan_chain *chain)
{
    char text[512];
    for (uint32_t i = 0; i < chain->step_count; i++) {
        const struct plan_unit *unit =
            chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        if (!unit || !unit->has_target)
            continue;
        int r = bounce_admit(unit->source, BOUNCE_OUT, text, sizeof text);
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
            return plan_fail(plan, r, "region %" PRIu64 " was freed during the commit",
                             unit->source->id);
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
