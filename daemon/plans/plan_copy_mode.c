/* The copy mode of a put in the client's seat: by the sender alone, or shared with the receiver (proto/lane.h). */
#include <string.h>

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
    for (uint32_t i = chain->step_count; i-- > 0;) {
        if (chain->steps[i].is_wait)
            continue;
        struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        notified = add_notified(notified, unit);
        unit->only_owner_notified = notified.who == NOTIFIED_ONE && notified.session == unit->owner;
    }
}

/* Attached memory cannot be mapped by the sender: the receiver copies, also when it is notified later. It must be in
 * the sender's group, and the only one to be notified. */
static bool must_share(const struct plan *plan, const struct plan_unit *unit)
{
    const struct session *from = plan->session, *to = session_find(plan->tcad, unit->owner);
    return unit->region->attached && unit->only_owner_notified && to && to != from &&
           to->uid == from->uid && from->joined && to->joined &&
           strcmp(to->group, from->group) == 0;
}

/* By the process id that each of them knows. */
uint32_t plan_pid_of(const struct plan *plan, const struct session *owner)
{
    const uint64_t here = plan->session->pid_namespace;
    return here != 0 && here == owner->pid_namespace ? owner->own_pid : 0;
}

bool plan_out_of_reach(const struct plan *plan, const struct plan_unit *unit)
{
    const struct session *owner = session_find(plan->tcad, unit->owner);
    return unit->region && unit->region->attached && owner && owner != plan->session &&
           plan_pid_of(plan, owner) == 0 && plan_copy_mode(plan, unit) != WAY_RING;
}

enum way plan_copy_mode(const struct plan *plan, const struct plan_unit *unit)
{
    if (unit->combine || unit->parts)
        return WAY_PUSH;
    if (must_share(plan, unit))
        return WAY_RING;
    if (unit->region->dmabuf || unit->source->dmabuf) /* only the sender minds its ordering */
        return WAY_PUSH;
    if (plan->chains[unit->chain].unshared || unit->owner == plan->session->id ||
        unit->region->attached)
        return WAY_PUSH;
    if (plan->wanted_copy_mode && !(unit->source->attached && plan->wanted_copy_mode != WAY_PUSH))
        return plan->wanted_copy_mode;
    if (!way_share_pays(unit->target_layout, unit->source_layout))
        return WAY_PUSH;
    return unit->source->attached ? WAY_RING
                                  : WAY_NONE; /* the receiver cannot map an attached source */
}
