/* From the message to units and steps: what can be checked without asking anybody is checked here.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plans/plan.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/steps.h"

/* A layout may be megabytes: it is taken out of the message, whose parts are from malloc. */
static int take_layout(struct plan *plan, uint32_t step, const char *side,
                       ProtobufCBinaryData *data, struct layout **ret_layout)
{
    const char *why;
    int r = layout_check(data->data, data->len, &why);
    if (r < 0)
        return plan_fail(plan, r, "step %u: %s layout: %s", step, side, why);
    plan->memory_bytes += data->len;
    *ret_layout = (struct layout *)data->data;
    *data = (ProtobufCBinaryData){0};
    return 0;
}

static int take_layouts(struct plan *plan, uint32_t step, Tca__Put *put, struct plan_unit *unit)
{
    int r = take_layout(plan, step, "source", &put->source_layout, &unit->source_layout);
    if (r < 0)
        return r;
    if (put->target_layout.len > 0)
        return take_layout(plan, step, "target", &put->target_layout, &unit->target_layout);
    unit->target_layout = unit->source_layout;
    return 0;
}

static int parse_put(struct plan *plan, uint32_t step, Tca__Put *put, struct plan_unit *unit)
{
    char text[160];
    struct session *session = plan->session;
    int r = take_layouts(plan, step, put, unit);
    if (r < 0)
        return r;
    if (unit->source_layout->size_bytes != unit->target_layout->size_bytes)
        return plan_fail(plan, -EINVAL,
                         "step %u: the source layout has %" PRIu64
                         " bytes, the target layout %" PRIu64 ": they must be equal",
                         step, unit->source_layout->size_bytes, unit->target_layout->size_bytes);
    struct region *region = region_of_session(session, put->source_region);
    if (!region)
        return plan_fail(plan, -EINVAL,
                         "step %u: region %" PRIu64
                         " is none of this session: only own memory is put",
                         step, put->source_region);
    if (!layout_fits(unit->source_layout, put->source_offset, region->bytes)) {
        layout_describe(unit->source_layout, text, sizeof text);
        return plan_fail(plan, -EINVAL,
                         "step %u: source layout %s at offset %" PRIu64
                         " does not fit region %" PRIu64 " of %" PRIu64 " bytes",
                         step, text, put->source_offset, region->id, region->bytes);
    }
    if (put->handle.len != HANDLE_BYTES)
        return plan_fail(plan, -EINVAL, "step %u: the target is no handle: it has %zu bytes", step,
                         put->handle.len);
    if (handle_decode(put->handle.data, &unit->handle) < 0)
        return plan_fail(plan, -EINVAL, "step %u: the target %s", step,
                         handle_fault(put->handle.data));
    if (!layout_fits(unit->target_layout, put->target_offset, unit->handle.length_bytes)) {
        layout_describe(unit->target_layout, text, sizeof text);
        return plan_fail(plan, -EINVAL,
                         "step %u: target layout %s at offset %" PRIu64 " does not fit the %" PRIu64
                         " bytes of the handle",
                         step, text, put->target_offset, unit->handle.length_bytes);
    }
    /* Bytes that are written twice mean nothing, and a loop over one place can be as long as a
     * number is. */
    if (unit->target_layout->size_bytes > unit->handle.length_bytes)
        return plan_fail(plan, -EINVAL,
                         "step %u: the target layout has %" PRIu64
                         " bytes, the handle's part %" PRIu64
                         ": some would be written more than once",
                         step, unit->target_layout->size_bytes, unit->handle.length_bytes);
    if (!cluster_by_id(plan->tcad->cluster, unit->handle.node))
        return plan_fail(plan, -EINVAL,
                         "step %u: the handle is of node %" PRIu32
                         ", which the cluster file does not name",
                         step, unit->handle.node);
    memcpy(unit->handle_bytes, put->handle.data, HANDLE_BYTES);
    unit->has_target = true;
    unit->source = region_ref(region);
    region->puts_from++;
    unit->source_offset = put->source_offset;
    unit->target_offset = put->target_offset;
    unit->node = unit->handle.node;
    plan->bytes += unit->source_layout->size_bytes;
    return 0;
}

static int check_place(struct plan *plan, uint32_t step, uint32_t rank, uint32_t slot)
{
    if (rank >= plan->session->size)
        return plan_fail(plan, -EINVAL, "step %u: rank %u: the group has ranks 0 to %u", step, rank,
                         plan->session->size - 1);
    if (slot >= SLOTS_PER_SOURCE)
        return plan_fail(plan, -EINVAL, "step %u: slot %u: 0 to %d are possible", step, slot,
                         SLOTS_PER_SOURCE - 1);
    return 0;
}

/* before: the put right before it; NULL: there is none. */
static int parse_notify(struct plan *plan, uint32_t step, const Tca__Notify *notify,
                        struct plan_unit *before, struct plan_unit *fresh, bool *ret_joined)
{
    int r = check_place(plan, step, notify->rank, notify->slot);
    if (r < 0)
        return r;
    const struct session_member *member = &plan->session->members[notify->rank];
    const bool joins = notify_joins_put(before, before ? before->node : 0, member->node);
    struct plan_unit *unit = joins ? before : fresh;
    unit->notify = true;
    unit->rank = notify->rank;
    unit->slot = notify->slot;
    unit->notify_session = member->session;
    unit->node = member->node;
    *ret_joined = joins;
    return 0;
}

static int parse_chain(struct plan *plan, const Tca__Chain *from, struct plan_chain *chain)
{
    struct plan_unit *before = NULL; /* the put that directly precedes */
    chain->steps = plan->steps + plan->step_count;
    for (size_t i = 0; i < from->n_steps; i++) {
        const Tca__Step *step = from->steps[i];
        struct plan_step *out = &chain->steps[chain->step_count];
        struct plan_unit *unit = &plan->units[plan->unit_count];
        bool joined = false;
        int r;

        unit->plan = plan;
        unit->chain = (uint32_t)(chain - plan->chains);
        unit->step = (uint32_t)i;
        switch (step->step_case) {
        case TCA__STEP__STEP_PUT:
            plan->unit_count++; /* from now on plan_free() takes care of it */
            r = parse_put(plan, (uint32_t)i, step->put, unit);
            chain->bytes += r < 0 ? 0 : unit->source_layout->size_bytes;
            out->unit = plan->unit_count - 1;
            break;
        case TCA__STEP__STEP_NOTIFY:
            r = parse_notify(plan, (uint32_t)i, step->notify, before, unit, &joined);
            if (r == 0 && !joined) {
                plan->unit_count++;
                out->unit = plan->unit_count - 1;
            }
            break;
        case TCA__STEP__STEP_WAIT:
            r = check_place(plan, (uint32_t)i, step->wait->rank, step->wait->slot);
            out->is_wait = true;
            out->rank = step->wait->rank;
            out->slot = step->wait->slot;
            out->count = step->wait->count;
            break;
        default:
            r = plan_fail(plan, -EPROTO, "step %zu: neither put, notify nor wait", i);
        }
        if (r < 0)
            return r;
        before = step->step_case == TCA__STEP__STEP_PUT ? unit : NULL;
        if (!joined) {
            chain->step_count++;
            plan->step_count++;
        }
    }
    return 0;
}

int plan_parse(struct plan *plan, const Tca__PlanCommit *commit)
{
    const struct tcad_conf *conf = plan->tcad->conf;
    struct session *session = plan->session;
    size_t steps = 0;

    if (commit->channel >= CHANNELS)
        return plan_fail(plan, -EINVAL, "channel %u: 0 to %d are possible", commit->channel,
                         CHANNELS - 1);
    if ((commit->rail != DRIVER_NONE && !driver_name(commit->rail)) || commit->seat > SEAT_DAEMON)
        return plan_fail(plan, -EINVAL, "rail %u or seat %u: there is none such", commit->rail,
                         commit->seat);
    if (commit->way >= WAY_COUNT)
        return plan_fail(plan, -EINVAL, "way %u to copy: there is none such", commit->way);
    if (commit->n_chains > PLAN_CHAINS_MAX)
        return plan_fail(plan, -EINVAL, "a plan of %zu chains: at most %d are possible",
                         commit->n_chains, PLAN_CHAINS_MAX);
    for (size_t i = 0; i < commit->n_chains; i++) {
        if (commit->chains[i]->n_steps == 0)
            return plan_fail(plan, -EINVAL, "chain %zu has no steps: leave it out", i);
        steps += commit->chains[i]->n_steps;
    }
    if (steps > PLAN_STEPS_MAX)
        return plan_fail(plan, -E2BIG, "a plan of %zu steps: %d are possible, make several plans",
                         steps, PLAN_STEPS_MAX);
    if (session->step_count + steps > conf->limits.steps_per_session)
        return plan_fail(plan, -EDQUOT,
                         "%zu more steps: the session has %" PRIu64 " of %" PRIu32
                         " (limits.steps_per_session): free plans",
                         steps, session->step_count, conf->limits.steps_per_session);

    session_take_name(plan->name, commit->name);
    plan->channel = commit->channel;
    *(commit->prefer ? &plan->preferred_rails : &plan->wanted_rails) =
        rails_named(plan->tcad, driver_name(commit->rail));
    plan->wanted_seat = commit->seat;
    plan->wanted_way = commit->way;
    plan->landed = commit->landed;
    plan->timeout_ns = commit->timeout_ns ? commit->timeout_ns : conf->control.request_timeout_ns;
    plan->chain_count = (uint32_t)commit->n_chains;
    plan->chains = calloc(commit->n_chains + 1, sizeof *plan->chains); /* + 1: never of 0 bytes */
    plan->steps = calloc(steps + 1, sizeof *plan->steps);
    plan->units = calloc(steps + 1, sizeof *plan->units);
    plan->blobs = calloc(steps + 1, plan->tcad->rails->last * sizeof *plan->blobs);
    plan->memory_bytes = sizeof *plan + commit->n_chains * sizeof *plan->chains +
                         steps * (sizeof *plan->steps + sizeof *plan->units +
                                  plan->tcad->rails->last * sizeof *plan->blobs);
    if (!plan->chains || !plan->steps || !plan->units || !plan->blobs)
        return plan_fail(plan, -ENOMEM, "no memory for a plan of %zu steps", steps);
    for (size_t i = 0; i < commit->n_chains; i++) {
        int r = parse_chain(plan, commit->chains[i], &plan->chains[i]);
        if (r < 0)
            return r;
    }
    if (session->plan_bytes + plan->memory_bytes > conf->limits.plan_bytes_per_session)
        return plan_fail(plan, -EDQUOT,
                         "a plan of %" PRIu64 " bytes: the session has %" PRIu64 " of %" PRIu64
                         " (limits.plan_bytes_per_session): free plans",
                         plan->memory_bytes, session->plan_bytes,
                         conf->limits.plan_bytes_per_session);
    return 0;
}
