/* How a put is copied when the client does it itself: alone, or with the receiver's help. */
#include <string.h>

#include "daemon/plans/plan.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "drivers/shm/ways.h"

/* Whether the receiver could help: it owns the memory, and gets the notification of just this put.
 */
static bool can_share(const struct plan *plan, const struct plan_unit *unit)
{
    return unit->notify && unit->notify_session == unit->owner && unit->owner != plan->session->id;
}

/* Into memory that cannot be mapped: the receiver is told what comes even when it is notified of it
 * later, if it knows our rank. */
static bool must_share(const struct plan *plan, const struct plan_unit *unit)
{
    const struct session *from = plan->session, *to = session_find(plan->tcad, unit->owner);
    return unit->region->attached && to && to != from && to->uid == from->uid && from->joined &&
           to->joined && strcmp(to->group, from->group) == 0;
}

enum way plan_way(const struct plan *plan, const struct plan_unit *unit)
{
    if (must_share(plan, unit))
        return WAY_RING;
    if (plan->landed || !can_share(plan, unit) || unit->region->attached)
        return WAY_PUSH;
    if (plan->wanted_way && !(unit->source->attached && plan->wanted_way != WAY_PUSH))
        return plan->wanted_way;
    if (!way_share_pays(unit->target_layout, unit->source_layout))
        return WAY_PUSH;
    return unit->source->attached ? WAY_RING
                                  : WAY_NONE; /* the receiver could not copy from there itself */
}
