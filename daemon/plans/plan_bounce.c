/* Puts of the daemon's seat from memory that was attached, and into such memory (bounce.h). */
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

static int tell(struct plan *plan, struct plan_unit *unit)
{
    if (!unit->driver || !unit->source || !unit->source->attached || unit->fetch.bounce)
        return 0;
    unit->fetch.session = plan->session->engine;
    int r = bounce_new(unit->source, BOUNCE_OUT, unit->source_offset, unit->source_layout,
                       &unit->fetch.bounce);
    if (r < 0)
        plan_fail(plan, r, "region %" PRIu64 " was freed during the commit", unit->source->id);
    return r;
}

static bool tell_some(void *context);

/* The client has read what was queued for it, or has ended. */
static void tell_again(void *context)
{
    struct plan *plan = context;
    loop_job_begin(plan->tcad->loop, &plan->job, tell_some, plan);
}

static bool tell_some(void *context)
{
    struct plan *plan = context;
    while (plan->told_units < plan->unit_count && plan_goes_on(plan)) {
        plan->client_wait = (struct client_wait){.drained = tell_again, .context = plan};
        if (session_must_wait(plan->session, &plan->client_wait))
            return false;
        if (tell(plan, &plan->units[plan->told_units++]) < 0)
            break;
        if (loop_slice_over(plan->tcad->loop))
            return true;
    }
    plan->told(plan);
    return false;
}

void plan_bounce_tell(struct plan *plan, void (*told)(struct plan *plan))
{
    plan->told_units = 0;
    plan->told = told;
    tell_again(plan);
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
