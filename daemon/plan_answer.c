/* What a client is told of its plan: seats, rails, and what to map for the chains that it runs itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/lane.h"
#include "daemon/plan.h"
#include "daemon/region.h"
#include "daemon/session.h"
#include "daemon/tcad.h"

enum { ANSWER_FDS_MAX = FRAME_FDS_MAX - 1 }; /* one is left for a long payload's memfd */

struct draft {
    int fds[ANSWER_FDS_MAX];
    uint32_t fd_count;
    int own[ANSWER_FDS_MAX]; /* those to be closed afterwards */
    uint32_t own_count;
    bool too_many;
};

/* Index of this descriptor in the frame + 1; each goes only once. */
static uint32_t attach(struct draft *draft, int fd)
{
    for (uint32_t i = 0; i < draft->fd_count; i++)
        if (draft->fds[i] == fd)
            return i + 1;
    if (draft->fd_count == ANSWER_FDS_MAX) {
        draft->too_many = true;
        return 0;
    }
    draft->fds[draft->fd_count++] = fd;
    return draft->fd_count;
}

/* How its data are copied, and the lane for it. */
static void share_unit(struct plan *plan, struct plan_unit *unit, Tca__Mapping *mapping, struct draft *draft)
{
    int lane_fd = -1;
    unit->way = plan_way(plan, unit);
    if (unit->way != WAY_PUSH &&
        (draft->fd_count == ANSWER_FDS_MAX || !lane_offer(plan, unit, &lane_fd)))
        unit->way = WAY_PUSH;
    if (lane_fd >= 0) {
        draft->own[draft->own_count++] = lane_fd;
        mapping->lane_fd = attach(draft, lane_fd);
    }
    mapping->way = unit->way;
    mapping->share = unit->way == WAY_PUSH ? 0 : unit->share;
}

/* Whether this step or later ones of the chain tell the receiver of this put of it, and nobody else: who is told believes that its data
 * are there, and only the receiver can see to that. */
static bool told_to_receiver(const struct plan *plan, const struct plan_chain *chain, uint32_t step)
{
    const struct plan_unit *put = &plan->units[chain->steps[step].unit];
    bool told = false;
    for (uint32_t i = step; i < chain->step_count; i++) {
        const struct plan_unit *unit = chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        if (!unit || !unit->notify)
            continue;
        if (unit->notify_session != put->owner)
            return false;
        told = true;
    }
    return told;
}

/* Once it is sure that the answer will go out: the lanes are in it. */
static void share_chain(struct plan *plan, const struct plan_chain *chain, Tca__Mapping *mapping, struct draft *draft)
{
    for (uint32_t i = 0; chain->seat == SEAT_CLIENT && i < chain->step_count; i++) {
        if (chain->steps[i].is_wait)
            continue;
        struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        if (unit->region && told_to_receiver(plan, chain, i))
            share_unit(plan, unit, mapping, draft);
        mapping++;
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
static void map_attached(const struct plan *plan, const struct plan_unit *unit, Tca__Mapping *mapping, struct draft *draft)
{
    const struct session *owner = session_find(plan->tcad, unit->owner);
    mapping->attached = true;
    mapping->key_address = unit->region->key_address;
    if (!owner)
        return;
    mapping->pid = (uint32_t)owner->pid;
    map_segment(owner, mapping, draft);
}

static void map_unit(struct plan *plan, struct plan_unit *unit, Tca__Mapping *mapping, struct draft *draft)
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

void plan_answer(struct plan *plan)
{
    struct draft draft = {0};
    Tca__PlanCommitted committed = TCA__PLAN_COMMITTED__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    Tca__ChainCommitted *chains = calloc(plan->chain_count, sizeof *chains);
    Tca__ChainCommitted **chain_list = calloc(plan->chain_count, sizeof *chain_list);
    Tca__Mapping *mappings = calloc(plan->unit_count + 1, sizeof *mappings);
    Tca__Mapping **mapping_list = calloc(plan->unit_count + 1, sizeof *mapping_list);
    uint32_t used = 0;

    if (!chains || !chain_list || !mappings || !mapping_list) {
        session_fail(plan->session, plan->tag, -ENOMEM, "no memory to answer a commit");
        plan->release_asked = true;
        goto out;
    }
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        const struct plan_chain *chain = &plan->chains[i];
        tca__chain_committed__init(&chains[i]);
        chain_list[i] = &chains[i];
        chains[i].rail = chain->rail;
        chains[i].seat = chain->seat;
        chains[i].predicted_ns = chain->predicted_ns;
        chains[i].mappings = &mapping_list[used];
        for (uint32_t j = 0; chain->seat == SEAT_CLIENT && j < chain->step_count; j++) {
            if (chain->steps[j].is_wait)
                continue;
            map_unit(plan, &plan->units[chain->steps[j].unit], &mappings[used], &draft);
            mapping_list[used] = &mappings[used];
            used++;
            chains[i].n_mappings++;
        }
    }
    if (draft.too_many) {
        session_fail(plan->session, plan->tag, -E2BIG,
                     "the plan needs more than %zu other regions and processes in the client's seat: make several plans",
                     (size_t)ANSWER_FDS_MAX);
        plan->release_asked = true;
        goto out;
    }
    for (uint32_t i = 0, first = 0; i < plan->chain_count; first += chains[i++].n_mappings)
        share_chain(plan, &plan->chains[i], &mappings[first], &draft);
    committed.plan = plan->id;
    committed.n_chains = plan->chain_count;
    committed.chains = chain_list;
    message.body_case = TCA__MESSAGE__BODY_PLAN_COMMITTED;
    message.plan_committed = &committed;
    session_answer(plan->session, plan->tag, &message, draft.fds, draft.fd_count);
out:
    for (uint32_t i = 0; i < draft.own_count; i++)
        close(draft.own[i]);
    free(chains);
    free(chain_list);
    free(mappings);
    free(mapping_list);
    if (plan->release_asked)
        plan_release(plan);
}
