/* How a put is copied when the client does it itself: alone, or with the receiver's help. */
#include "daemon/plan.h"
#include "daemon/session.h"

/* Whether the receiver could help: it owns the memory, and gets the notification of just this put. */
static bool can_share(const struct plan *plan, const struct plan_unit *unit)
{
    return unit->notify && unit->notify_session == unit->owner && unit->owner != plan->session->id;
}

enum way plan_way(const struct plan *plan, const struct plan_unit *unit)
{
    uint64_t bytes = unit->source_layout->size_bytes;
    if (!can_share(plan, unit))
        return WAY_PUSH;
    if (plan->wanted_way)
        return plan->wanted_way;
    return bytes < 4096 ? WAY_PUSH : bytes < 2 << 20 ? WAY_RING : WAY_HALF;
}
