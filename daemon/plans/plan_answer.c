/* What a client is told of its plan: seats, rails, and what to map for the chains that it runs
 * itself. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/plans/lane.h"
#include "daemon/plans/order.h"
#include "daemon/plans/plan.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

enum {
    ANSWER_FDS_MAX = FRAME_FDS_MAX - 1, /* one is left for a long payload's memfd */
    MAPPING_FDS_MAX = 3,                /* a region, a notification segment, a lane */
};

struct draft {
    struct session *session;
    Tca__Mapping **mappings; /* of all units so far */
    uint32_t count;
    uint32_t first; /* the first whose descriptors are in `fds` */
    int fds[ANSWER_FDS_MAX];
    uint32_t fd_count;
    int own[ANSWER_FDS_MAX]; /* those to be closed afterwards */
    uint32_t own_count;
};

/* Index of this descriptor in the frame + 1; each goes only once. There is room: see make_room().
 */
static uint32_t attach(struct draft *draft, int fd)
{
    for (uint32_t i = 0; i < draft->fd_count; i++)
        if (draft->fds[i] == fd)
            return i + 1;
    draft->fds[draft->fd_count++] = fd;
    return draft->fd_count;
}

static void forget_fds(struct draft *draft)
{
    for (uint32_t i = 0; i < draft->own_count; i++)
        close(draft->own[i]);
    draft->own_count = draft->fd_count = 0;
    draft->first = draft->count;
}

/* For the descriptors of one more mapping: if there is none, those so far go out before the answer,
 * which then says that they were sent. */
static void make_room(struct draft *draft)
{
    Tca__Event event = TCA__EVENT__INIT;
    if (draft->fd_count + MAPPING_FDS_MAX <= ANSWER_FDS_MAX)
        return;
    event.kind = TCA__EVENT__KIND__MAPPINGS;
    event.mappings = draft->mappings + draft->first;
    event.n_mappings = draft->count - draft->first;
    session_event_fds(draft->session, &event, draft->fds, draft->fd_count);
    for (uint32_t i = draft->first; i < draft->count; i++)
        draft->mappings[i]->region_fd = draft->mappings[i]->session_fd =
            draft->mappings[i]->lane_fd = 0;
    forget_fds(draft);
}

/* How its data are copied, and the lane for it. */
static void share_unit(struct plan *plan, struct plan_unit *unit, Tca__Mapping *mapping,
                       struct draft *draft)
{
    int lane_fd = -1;
    unit->way = plan_way(plan, unit);
    if (unit->way != WAY_PUSH && !lane_offer(plan, unit, &lane_fd))
        unit->way = WAY_PUSH;
    if (lane_fd >= 0) {
        draft->own[draft->own_count++] = lane_fd;
        mapping->lane_fd = attach(draft, lane_fd);
    }
    mapping->way = unit->way;
    mapping->share = unit->way == WAY_PUSH ? 0 : unit->share;
}

/* Whom a chain notifies, from some step on. */
struct told {
    enum { TOLD_NOBODY, TOLD_ONE, TOLD_SEVERAL } who;
    uint64_t session; /* that one */
};

static struct told tell_also(struct told told, const struct plan_unit *unit)
{
    if (!unit->notify || told.who == TOLD_SEVERAL)
        return told;
    if (told.who == TOLD_ONE && told.session != unit->notify_session)
        return (struct told){.who = TOLD_SEVERAL};
    return (struct told){TOLD_ONE, unit->notify_session};
}

/* Marks the puts that the steps from theirs on tell the receiver of, and nobody else: who is told
 * believes that the data are there, and only the receiver can see to that. */
static void mark_told(struct plan *plan, const struct plan_chain *chain)
{
    struct told told = {.who = TOLD_NOBODY};
    for (uint32_t i = chain->step_count; i-- > 0;) {
        if (chain->steps[i].is_wait)
            continue;
        struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        told = tell_also(told, unit);
        unit->told_to_receiver = told.who == TOLD_ONE && told.session == unit->owner;
    }
}

static void map_segment(const struct session *session, Tca__Mapping *mapping, struct draft *draft)
{
    mapping->session = session->id;
    mapping->session_sources = session->sources;
    mapping->segment_bytes = notify_segment_bytes(session->sources);
    mapping->session_fd = attach(draft, session->notify_fd);
}

/* With the owner's segment, too: what goes there goes through a lane. */
static void map_attached(const struct plan *plan, const struct plan_unit *unit,
                         Tca__Mapping *mapping, struct draft *draft)
{
    const struct session *owner = session_find(plan->tcad, unit->owner);
    mapping->attached = true;
    mapping->name_address = unit->region->name_address;
    if (!owner)
        return;
    mapping->pid = (uint32_t)owner->pid;
    map_segment(owner, mapping, draft);
}

static void map_unit(struct plan *plan, struct plan_unit *unit, Tca__Mapping *mapping,
                     struct draft *draft)
{
    tca__mapping__init(mapping);
    if (unit->region) {
        mapping->region = unit->region->id;
        mapping->region_address = unit->region->address;
        mapping->region_bytes = unit->region->bytes;
        if (unit->region->attached)
            map_attached(plan, unit, mapping, draft);
        else
            mapping->region_fd = attach(draft, unit->region->fd);
        mapping->offset = unit->handle.offset_bytes + unit->target_offset;
        mapping->owner = unit->owner;
    }
    if (unit->notify) {
        struct session *session = session_find(plan->tcad, unit->notify_session);
        if (!session)
            return; /* has just ended: the plan is about to break */
        map_segment(session, mapping, draft);
    }
}

static void map_chain(struct plan *plan, const struct plan_chain *chain, Tca__Mapping *room,
                      struct draft *draft)
{
    mark_told(plan, chain);
    for (uint32_t i = 0; i < chain->step_count; i++) {
        if (chain->steps[i].is_wait)
            continue;
        struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        Tca__Mapping *mapping = &room[draft->count];
        make_room(draft);
        map_unit(plan, unit, mapping, draft);
        mapping->waits = unit->order.waits;
        mapping->landed =
            unit->order.landed[0] != ORDER_NOTHING || unit->order.landed[1] != ORDER_NOTHING;
        if (unit->region && unit->told_to_receiver)
            share_unit(plan, unit, mapping, draft);
        draft->mappings[draft->count++] = mapping;
    }
}

void plan_answer(struct plan *plan)
{
    struct draft draft = {.session = plan->session};
    Tca__PlanCommitted committed = TCA__PLAN_COMMITTED__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    Tca__ChainCommitted *chains = calloc(plan->chain_count + 1, sizeof *chains);
    Tca__ChainCommitted **chain_list = calloc(plan->chain_count + 1, sizeof *chain_list);
    Tca__Mapping *mappings = calloc(plan->unit_count + 1, sizeof *mappings);
    draft.mappings = calloc(plan->unit_count + 1, sizeof *draft.mappings);

    if (!chains || !chain_list || !mappings || !draft.mappings) {
        session_fail(plan->session, plan->tag, -ENOMEM, "no memory to answer a commit");
        plan->release_asked = true;
        goto out;
    }
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        const struct plan_chain *chain = &plan->chains[i];
        const uint32_t first = draft.count;
        tca__chain_committed__init(&chains[i]);
        chain_list[i] = &chains[i];
        chains[i].rail = rail_at(plan->tcad, chain->rail)->driver;
        chains[i].seat = chain->seat;
        chains[i].predicted_ns = chain->predicted_ns;
        chains[i].mappings = &draft.mappings[first];
        if (chain->seat == SEAT_CLIENT)
            map_chain(plan, chain, mappings, &draft);
        chains[i].n_mappings = draft.count - first;
    }
    committed.plan = plan->id;
    committed.n_chains = plan->chain_count;
    committed.chains = chain_list;
    message.body_case = TCA__MESSAGE__BODY_PLAN_COMMITTED;
    message.plan_committed = &committed;
    session_answer(plan->session, plan->tag, &message, draft.fds, draft.fd_count);
out:
    forget_fds(&draft);
    free(chains);
    free(chain_list);
    free(mappings);
    free(draft.mappings);
}
