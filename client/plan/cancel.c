/* Ending a running start from outside. */
#include <errno.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/plan/plan.h"
#include "client/plan/progress.h"

int plan_order(struct tca_plan *plan, uint32_t order)
{
    struct tca *session = plan->session;
    const struct submit_entry entry = {.plan = plan->id | order,
                                       .sequence = (uint32_t)plan->starts};
    int r = ring_push(plan->submit, &entry);
    if (r < 0)
        return error_static(r, r == -EAGAIN ? "the submission ring is full: try again"
                                            : "the session's submission ring is corrupt");
    session_ring_engine(session, &session->segment->engine_armed);
    return 0;
}

int tca_plan_cancel(struct tca_plan *plan)
{
    if (plan->state != PLAN_RUNNING)
        return 0;
    int r = plan->daemon_left ? plan_order(plan, SUBMIT_CANCEL) : 0;
    if (r < 0)
        return r;
    plan_cancel_here(plan, -ECANCELED);
    session_progress(plan->session);
    return 0;
}
