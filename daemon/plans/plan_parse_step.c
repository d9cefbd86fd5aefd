/* PARSING: checks one step, as far as this node can alone, and makes a unit of it. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/plans/parts.h"
#include "daemon/plans/plan_parse.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/steps.h"

/* A layout can have megabytes, so it is moved out of the message, whose parts are from malloc(). */
static int take_layout(struct plan *plan, uint32_t step, const char *side,
                       ProtobufCBinaryData *data, struct layout **ret_layout)
{
    const char *why;
    int r = layout_check(data->data, data->len, &why);
    if (r < 0)
        return plan_fail(plan, r, "step %u: %s layout: %s", step, side, why);
    if ((r = plan_hold_bytes(plan, data->len)) < 0)
        return r;
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

static int parse_reduction(struct plan *plan, uint32_t step, const Tca__Put *put,
                           struct plan_unit *unit)
{
    if (put->combine == OPERATOR_REPLACE)
        return 0;
    if (!operator_takes(put->combine, put->type))
        return plan_fail(plan, -EINVAL, "step %u: operator %u does not combine elements of type %u",
                         step, put->combine, put->type);
    if (!layout_is_contiguous(unit->source_layout) || !layout_is_contiguous(unit->target_layout) ||
        unit->source_layout->size_bytes % operator_bytes(put->combine, put->type))
        return plan_fail(plan, -EINVAL,
                         "step %u: a reduction needs contiguous layouts of whole elements", step);
    if (unit->handle.node != plan->tcad->node)
        return plan_fail(plan, -EINVAL,
                         "step %u: a reduction into memory of node %" PRIu32
                         ": only memory of this node, %" PRIu32
                         ", can be reduced into: put the data there and reduce it there",
                         step, unit->handle.node, plan->tcad->node);
    unit->combine = (enum element_operator)put->combine;
    unit->type = (enum element_type)put->type;
    return 0;
}

static int parse_put(struct plan *plan, uint32_t step, Tca__Put *put, struct plan_unit *unit)
{
    char text[160];
    struct session *session = plan->session;
    int r = take_layouts(plan, step, put, unit);
    if (r < 0)
        return r;
    if ((r = parts_check_put(plan, step, put, unit)) < 0)
        return r;
    struct region *region = region_of_session(session, put->source_region);
    if (!region)
        return plan_fail(
            plan, -EINVAL,
            "step %u: region %" PRIu64
            " does not belong to this session, and only a session's own memory can be a source",
            step, put->source_region);
    if (!layout_fits(unit->source_layout, put->source_offset, region->bytes)) {
        layout_describe(unit->source_layout, text, sizeof text);
        return plan_fail(plan, -EINVAL,
                         "step %u: source layout %s at offset %" PRIu64
                         " does not fit region %" PRIu64 " of %" PRIu64 " bytes",
                         step, text, put->source_offset, region->id, region->bytes);
    }
    if (put->handle.len != HANDLE_BYTES)
        return plan_fail(plan, -EINVAL, "step %u: the target is not a handle: it has %zu bytes",
                         step, put->handle.len);
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
    /* Writing bytes twice is useless, and a layout that repeats one place could take almost for
     * ever. */
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
    if ((r = parse_reduction(plan, step, put, unit)) < 0)
        return r;
    memcpy(unit->handle_bytes, put->handle.data, HANDLE_BYTES);
    unit->has_target = true;
    unit->source = region_ref(region);
    region->puts_from++;
    unit->source_offset = put->source_offset;
    unit->target_offset = put->target_offset;
    unit->ordered = put->ordered;
    unit->node = unit->handle.node;
    const uint64_t source = unit->source_layout->size_bytes,
                   target = unit->target_layout->size_bytes;
    unit->bytes = source < target ? source : target; /* unequal only with parts */
    plan->bytes += unit->bytes;
    return 0;
}

static int check_slot(struct plan *plan, uint32_t step, uint32_t rank, uint32_t slot)
{
    if (rank >= plan->session->size)
        return plan_fail(plan, -EINVAL, "step %u: rank %u: the group has ranks 0 to %u", step, rank,
                         plan->session->size - 1);
    if (slot >= SLOTS_PER_SOURCE)
        return plan_fail(plan, -EINVAL, "step %u: slot %u: 0 to %d are possible", step, slot,
                         SLOTS_PER_SOURCE - 1);
    return 0;
}

/* before: the directly preceding put, or NULL. */
static int parse_notify(struct plan *plan, uint32_t step, const Tca__Notify *notify,
                        struct plan_unit *before, struct plan_unit *fresh, bool *ret_joined)
{
    int r = check_slot(plan, step, notify->rank, notify->slot);
    if (r < 0)
        return r;
    const struct session_member *member = &plan->session->members[notify->rank];
    const bool joins =
        before && before->stripe_room == 0 && notify_joins_put(true, before->node, member->node);
    struct plan_unit *unit = joins ? before : fresh;
    unit->notify = true;
    unit->rank = notify->rank;
    unit->slot = notify->slot;
    unit->notify_session = member->session;
    unit->node = member->node;
    *ret_joined = joins;
    return 0;
}

int plan_parse_step(struct parser *parser, const Tca__Step *step)
{
    struct plan *plan = parser->plan;
    struct plan_chain *chain = &plan->chains[parser->chain];
    struct plan_step *out = &chain->steps[chain->step_count];
    struct plan_unit *unit = &plan->units[plan->unit_count], *before = parser->before;
    const uint32_t number = parser->step;
    bool joined = false;
    int r;

    unit->plan = plan;
    unit->chain = parser->chain;
    unit->step = number;
    parser->before = NULL;
    switch (step->step_case) {
    case TCA__STEP__STEP_PUT:
        plan->unit_count++; /* from here on plan_free() frees it */
        r = parse_put(plan, number, step->put, unit);
        unit->stripe_room = r < 0 ? 0 : plan_stripe_room(plan, unit);
        r = r < 0 ? r : plan_hold_bytes(plan, (uint64_t)unit->stripe_room * PLAN_STRIPE_BYTES);
        chain->bytes += r < 0 ? 0 : unit->bytes;
        chain->unshared |= unit->ordered;
        out->unit = plan->unit_count - 1;
        parser->before = unit->combine ? NULL : unit;
        break;
    case TCA__STEP__STEP_NOTIFY:
        r = parse_notify(plan, number, step->notify, before, unit, &joined);
        if (r == 0 && !joined) {
            plan->unit_count++;
            out->unit = plan->unit_count - 1;
        }
        unit = joined ? before : unit;
        break;
    case TCA__STEP__STEP_WAIT:
        r = check_slot(plan, number, step->wait->rank, step->wait->slot);
        out->is_wait = true;
        out->rank = step->wait->rank;
        out->slot = step->wait->slot;
        out->count = step->wait->count;
        break;
    default:
        r = plan_fail(plan, -EPROTO, "step %u: neither put, notify nor wait", number);
    }
    if (r < 0)
        return r;
    if (!joined) {
        chain->step_count++;
        plan->step_count++;
    }
    if (step->flush) {
        chain->steps[chain->step_count - 1].flush = chain->unshared = true;
        parser->before = NULL; /* a notification comes after the flush */
    }
    return out->is_wait && !joined ? plan_use_wait(plan, out) : plan_use_unit(plan, unit);
}
