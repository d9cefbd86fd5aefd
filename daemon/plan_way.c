/* How a put is copied when the client does it itself: alone, or with the receiver's help. */
#include "daemon/plan.h"
#include "daemon/session.h"
#include "drivers/shm/ways.h"

/* Whether the receiver could help: it owns the memory, and gets the notification of just this put. */
static bool can_share(const struct plan *plan, const struct plan_unit *unit)
{
    return unit->notify && unit->notify_session == unit->owner && unit->owner != plan->session->id;
}

enum way plan_way(const struct plan *plan, const struct plan_unit *unit)
{
    if (!can_share(plan, unit))
        return WAY_PUSH;
    if (plan->wanted_way)
        return plan->wanted_way;
    return way_share_pays(unit->target_layout, unit->source_layout) ? WAY_NONE : WAY_PUSH;
}
