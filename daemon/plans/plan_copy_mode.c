/* The copy mode of a put in the client's seat: by the sender alone, or shared with the receiver (proto/lane.h). */
#include "daemon/plans/plan_internal.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "drivers/shm/ways.h"

/* The receivers that a chain notifies from some step on. */
struct notified {
    enum { NOTIFIED_NOBODY, NOTIFIED_ONE, NOTIFIED_SEVERAL } who;
    uint64_t session; /* that session */
};

static struct notified add_notified(struct notified notified, const struct plan_unit *unit)
{
    if (!unit->notify || notified.who == NOTIFIED_SEVERAL)
        return notified;
    if (notified.who == NOTIFIED_ONE && notified.session != unit->notify_session)
        return (struct notified){.who = NOTIFIED_SEVERAL};
    return (struct notified){NOTIFIED_ONE, unit->notify_session};
}

/* A notified process may rely on the data, and only the receiver itself can take part in the copying before it does. */
void plan_mark_notified(struct plan *plan, const struct plan_chain *chain)
{
    struct notified notified = {.who = NOTIFIED_NOBODY};
    for (uint32_t i = chain->unit_count; i-- > 0;) {
        struct plan_unit *unit = &chain->units[i];
        notified = add_notified(notified, unit);
        unit->only_owner_notified = notified.who == NOTIFIED_ONE && notified.session == unit->owner;
    }
}

enum way plan_copy_mode(const struct plan *plan, const struct plan_unit *unit)
{
    if (unit->combine || unit->parts)
        return WAY_PUSH;
    if (unit->region->dmabuf || unit->source->dmabuf) /* only the sender minds its ordering */
        return WAY_PUSH;
    if (plan->chains[unit->chain].unshared || unit->owner == plan->session->id)
        return WAY_PUSH;
    if (plan->wanted_copy_mode)
        return plan->wanted_copy_mode;
    return way_share_pays(unit->target_layout, unit->source_layout) ? WAY_NONE : WAY_PUSH;
}
