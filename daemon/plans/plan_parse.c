/* PARSING: checks the plan, as far as this node can alone, charges it to the session and its user,
 * and builds transfers and steps from the message, in slices. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/plans/parts.h"
#include "daemon/plans/plan_collective.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/client_request.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/steps.h"

struct parser {
    struct plan *plan;
    const Tca__PlanCommit *commit;
    uint32_t chain, step;         /* the next */
    struct plan_transfer *before; /* the directly preceding put */
    uint64_t plain_bytes;         /* of the plan without its layouts */
};

/* Charges bytes of the plan to the session's limit. */
static int hold_bytes(struct plan *plan, uint64_t bytes)
{
    const uint64_t limit = plan->tcad->conf->limits.plan_bytes_per_session;
    struct session *session = plan->session;
    if (session->plan_bytes + bytes > limit)
        return plan_fail(plan, -EDQUOT,
                         "a plan of %" PRIu64 " bytes or more: the session has %" PRIu64
                         " of %" PRIu64 " (limits.plan_bytes_per_session): free plans",
                         plan->memory_bytes + bytes, session->plan_bytes - plan->memory_bytes,
                         limit);
    plan->memory_bytes += bytes;
    session->plan_bytes += bytes;
    return 0;
}

/* Charges the memory that the plan holds until it is released, also in the engine and during
 * requests. */
static int charge(struct plan *plan, uint64_t bytes)
{
    char text[512];
    int r = charge_take(plan->tcad, &plan->charge, plan->session->uid, USER_PLANS, bytes, "a plan",
                        text, sizeof(text));
    return r < 0 ? plan_fail(plan, r, "%s", text) : 0;
}

/* ---- the plan as a whole ---- */

static int check(struct plan *plan, const Tca__PlanCommit *commit)
{
    if (commit->channel >= CHANNELS)
        return plan_fail(plan, -EINVAL, "channel %u: 0 to %d are possible", commit->channel,
                         CHANNELS - 1);
    if (commit->seat > SEAT_DAEMON)
        return plan_fail(plan, -EINVAL, "seat %u: 0 to %d are possible", commit->seat, SEAT_DAEMON);
    if (commit->copy_method >= COPY_COUNT)
        return plan_fail(plan, -EINVAL, "copy mode %u: no such mode", commit->copy_method);
    if (commit->repeat && (commit->seat == SEAT_NONE || commit->n_chains == 0))
        return plan_fail(plan, -EINVAL, "a repeating plan needs a chain, and a seat");
    if (commit->n_chains > PLAN_CHAINS_MAX)
        return plan_fail(plan, -EINVAL, "a plan of %zu chains: at most %d are possible",
                         commit->n_chains, PLAN_CHAINS_MAX);
    return 0;
}

/* Counts the steps and charges them to the session's limit. */
static int count_steps(struct plan *plan, const Tca__PlanCommit *commit)
{
    const uint32_t limit = plan->tcad->conf->limits.steps_per_session;
    struct session *session = plan->session;
    size_t steps = 0;
    for (size_t i = 0; i < commit->n_chains; i++) {
        const Tca__Chain *chain = commit->chains[i];
        if (chain->n_steps == 0)
            return plan_fail(plan, -EINVAL, "chain %zu has no steps: leave it out", i);
        if (commit->repeat && chain->steps[0]->step_case != TCA__STEP__STEP_WAIT &&
            chain->steps[0]->step_case != TCA__STEP__STEP_WAIT_SIGNAL)
            return plan_fail(plan, -EINVAL,
                             "chain %zu of a repeating plan does not begin with a wait", i);
        steps += commit->chains[i]->n_steps;
    }
    if (steps > PLAN_STEPS_MAX)
        return plan_fail(plan, -E2BIG, "a plan of %zu steps: %d are possible, make several plans",
                         steps, PLAN_STEPS_MAX);
    if (session->step_count + steps > limit)
        return plan_fail(plan, -EDQUOT,
                         "%zu more steps: the session has %" PRIu64 " of %" PRIu32
                         " (limits.steps_per_session): free plans",
                         steps, session->step_count, limit);
    plan->held_steps = (uint32_t)steps;
    session->step_count += steps;
    return 0;
}

static int take_collective(struct plan *plan, const Tca__Collective *said)
{
    if (said->n_candidates > COLLECTIVE_CANDIDATES_MAX)
        return plan_fail(plan, -EINVAL, "a collective operation of %zu algorithms: at most %d",
                         said->n_candidates, COLLECTIVE_CANDIDATES_MAX);
    struct plan_collective *collective = calloc(1, sizeof(*collective));
    if (!collective)
        return plan_fail(plan, -ENOMEM, "out of memory for a plan");
    session_take_name(collective->operation, said->operation);
    session_take_name(collective->algorithm, said->algorithm);
    collective->requested = said->requested;
    collective->ranks = said->ranks;
    collective->root = said->root;
    collective->per_node = said->per_node;
    collective->per_subcluster = said->per_subcluster;
    collective->bytes = said->bytes;
    collective->segment_bytes = said->segment_bytes;
    collective->candidate_count = (uint32_t)said->n_candidates;
    for (uint32_t i = 0; i < collective->candidate_count; i++) {
        struct plan_collective_candidate *candidate = &collective->candidates[i];
        session_take_name(candidate->algorithm, said->candidates[i]->algorithm);
        candidate->predicted_ns = said->candidates[i]->predicted_ns;
        candidate->segment_bytes = said->candidates[i]->segment_bytes;
    }
    plan->collective = collective;
    return 0;
}

static int allocate(struct plan *plan, size_t chains, const Tca__Collective *said)
{
    enum { PREPARED_BYTES = DRIVER_PUT_BYTES + 256 }; /* per step, including its chain's part */
    const size_t steps = plan->held_steps;
    const size_t blobs = plan->tcad->rails->last * sizeof(*plan->blobs); /* per transfer */
    const uint64_t bytes = sizeof(*plan) + (said ? sizeof(*plan->collective) : 0) +
                           chains * sizeof(*plan->chains) +
                           steps * (sizeof(*plan->steps) + sizeof(*plan->transfers) + blobs);
    int r = hold_bytes(plan, bytes);
    if (r == 0)
        r = charge(plan, bytes + steps * (PREPARED_BYTES + 2 * (uint64_t)sizeof(struct plan_use)));
    if (r < 0)
        return r;
    plan->chains = calloc(chains + 1, sizeof(*plan->chains)); /* + 1: never of 0 bytes */
    plan->steps = calloc(steps + 1, sizeof(*plan->steps));
    plan->transfers = calloc(steps + 1, sizeof(*plan->transfers));
    plan->blobs = calloc(steps + 1, blobs);
    if (!plan->chains || !plan->steps || !plan->transfers || !plan->blobs)
        return plan_fail(plan, -ENOMEM, "out of memory for a plan of %zu steps", steps);
    plan->chain_count = (uint32_t)chains;
    return said ? take_collective(plan, said) : 0;
}

/* The rails that the plan requests, one bit each; 0: any. */
static int parse_rail(struct plan *plan, const char *name, unsigned *ret_rails)
{
    char text[256];
    const unsigned rails = rails_named(plan->tcad, name);
    if (*name && !rails)
        return plan_fail(plan, -EINVAL, "rail %.64s: this node has only %s", name,
                         rails_text(plan->tcad, text, sizeof(text)));
    *ret_rails = rails;
    return 0;
}

static int begin(struct plan *plan, const Tca__PlanCommit *commit)
{
    unsigned rails;
    int r = check(plan, commit);
    if (r == 0)
        r = parse_rail(plan, commit->rail, &rails);
    if (r == 0)
        r = count_steps(plan, commit);
    if (r < 0)
        return r;
    session_take_name(plan->name, commit->name);
    plan->channel = commit->channel;
    plan->together = commit->together;
    *(commit->prefer ? &plan->preferred_rails : &plan->wanted_rails) = rails;
    plan->wanted_seat = commit->seat;
    plan->wanted_copy_mode = commit->copy_method;
    plan->repeat = commit->repeat;
    plan->tries =
        commit->tries && !plan->wanted_seat && !plan->preferred_rails && !plan_demands_one(plan);
    plan->run.parts_at = commit->parts_at;
    plan->timeout_ns =
        commit->timeout_ns ? commit->timeout_ns : plan->tcad->conf->control.request_timeout_ns;
    return allocate(plan, commit->n_chains, commit->collective);
}

/* ---- steps ---- */

/* A layout can have megabytes, so it is moved out of the message, whose parts are from malloc(). */
static int take_layout(struct plan *plan, uint32_t step, const char *side,
                       ProtobufCBinaryData *data, struct layout **ret_layout)
{
    const char *why;
    int r = layout_check(data->data, data->len, &why);
    if (r < 0)
        return plan_fail(plan, r, "step %u: %s layout: %s", step, side, why);
    if ((r = hold_bytes(plan, data->len)) < 0)
        return r;
    *ret_layout = (struct layout *)data->data;
    *data = (ProtobufCBinaryData){0};
    return 0;
}

static int take_layouts(struct plan *plan, uint32_t step, Tca__Put *put,
                        struct plan_transfer *transfer)
{
    int r = take_layout(plan, step, "source", &put->source_layout, &transfer->source_layout);
    if (r < 0)
        return r;
    if (put->target_layout.len > 0)
        return take_layout(plan, step, "target", &put->target_layout, &transfer->target_layout);
    transfer->target_layout = transfer->source_layout;
    return 0;
}

static int parse_reduction(struct plan *plan, uint32_t step, const Tca__Put *put,
                           struct plan_transfer *transfer)
{
    if (put->combine == OPERATOR_REPLACE)
        return 0;
    if (!operator_takes(put->combine, put->type))
        return plan_fail(plan, -EINVAL, "step %u: operator %u does not combine elements of type %u",
                         step, put->combine, put->type);
    if (!layout_is_contiguous(transfer->source_layout) ||
        !layout_is_contiguous(transfer->target_layout) ||
        transfer->source_layout->size_bytes % operator_bytes(put->combine, put->type))
        return plan_fail(plan, -EINVAL,
                         "step %u: a reduction needs contiguous layouts of whole elements", step);
    if (transfer->handle.node != plan->tcad->node)
        return plan_fail(plan, -EINVAL,
                         "step %u: a reduction into memory of node %" PRIu32
                         ": only memory of this node, %" PRIu32
                         ", can be reduced into: put the data there and reduce it there",
                         step, transfer->handle.node, plan->tcad->node);
    transfer->combine = (enum element_operator)put->combine;
    transfer->type = (enum element_type)put->type;
    return 0;
}

/* The place in the handle's part, where the target's layout must fit. */
static int parse_target(struct plan *plan, uint32_t step, const ProtobufCBinaryData *handle,
                        uint64_t offset, struct plan_transfer *transfer)
{
    char text[160];
    if (handle->len != HANDLE_BYTES)
        return plan_fail(plan, -EINVAL, "step %u: the target is not a handle: it has %zu bytes",
                         step, handle->len);
    if (handle_decode(handle->data, &transfer->handle) < 0)
        return plan_fail(plan, -EINVAL, "step %u: the target %s", step, handle_fault(handle->data));
    if (!layout_fits(transfer->target_layout, offset, transfer->handle.length_bytes)) {
        layout_describe(transfer->target_layout, text, sizeof(text));
        return plan_fail(plan, -EINVAL,
                         "step %u: target layout %s at offset %" PRIu64 " does not fit the %" PRIu64
                         " bytes of the handle",
                         step, text, offset, transfer->handle.length_bytes);
    }
    if (!cluster_by_id(plan->tcad->cluster, transfer->handle.node))
        return plan_fail(plan, -EINVAL,
                         "step %u: the handle is of node %" PRIu32
                         ", which the cluster file does not name",
                         step, transfer->handle.node);
    memcpy(transfer->handle_bytes, handle->data, HANDLE_BYTES);
    transfer->has_target = true;
    transfer->target_offset = offset;
    transfer->node = transfer->handle.node;
    return 0;
}

static int parse_put(struct plan *plan, uint32_t step, Tca__Put *put,
                     struct plan_transfer *transfer)
{
    char text[160];
    struct session *session = plan->session;
    int r = take_layouts(plan, step, put, transfer);
    if (r < 0)
        return r;
    if ((r = parts_check_put(plan, step, put, transfer)) < 0)
        return r;
    struct region *region = region_of_session(session, put->source_region);
    if (!region)
        return plan_fail(
            plan, -EINVAL,
            "step %u: region %" PRIu64
            " does not belong to this session, and only a session's own memory can be a source",
            step, put->source_region);
    if (!layout_fits(transfer->source_layout, put->source_offset, region->bytes)) {
        layout_describe(transfer->source_layout, text, sizeof(text));
        return plan_fail(plan, -EINVAL,
                         "step %u: source layout %s at offset %" PRIu64
                         " does not fit region %" PRIu64 " of %" PRIu64 " bytes",
                         step, text, put->source_offset, region->id, region->bytes);
    }
    transfer->source = region_ref(region);
    region->puts_from++;
    transfer->source_offset = put->source_offset;
    if ((r = parse_target(plan, step, &put->handle, put->target_offset, transfer)) < 0)
        return r;
    /* Writing bytes twice is useless, and a layout that repeats one place could take almost for
     * ever. */
    if (transfer->target_layout->size_bytes > transfer->handle.length_bytes)
        return plan_fail(plan, -EINVAL,
                         "step %u: the target layout has %" PRIu64
                         " bytes, the handle's part %" PRIu64
                         ": some would be written more than once",
                         step, transfer->target_layout->size_bytes, transfer->handle.length_bytes);
    if ((r = parse_reduction(plan, step, put, transfer)) < 0)
        return r;
    transfer->ordered = put->ordered;
    const uint64_t source = transfer->source_layout->size_bytes,
                   target = transfer->target_layout->size_bytes;
    transfer->bytes = source < target ? source : target; /* unequal only with parts */
    plan->bytes += transfer->bytes;
    return 0;
}

static int check_rank(struct plan *plan, uint32_t step, uint32_t rank)
{
    if (rank >= plan->session->size)
        return plan_fail(plan, -EINVAL, "step %u: rank %u: the group has ranks 0 to %u", step, rank,
                         plan->session->size - 1);
    return 0;
}

static int parse_wait(struct plan *plan, uint32_t number, const Tca__Wait *wait,
                      struct plan_step *out)
{
    char text[512];
    int r = check_rank(plan, number, wait->rank);
    out->is_wait = true;
    out->rank = wait->rank;
    out->slot = wait->slot;
    out->count = wait->count;
    if (r < 0)
        return r;
    r = session_line(plan->session, wait->rank, wait->slot, &out->line, text, sizeof(text));
    return r < 0 ? plan_fail(plan, r, "step %u: %s", number, text) : 0;
}

/* before: the directly preceding put, or NULL. */
static int parse_notify(struct plan *plan, uint32_t step, const Tca__Notify *notify,
                        struct plan_transfer *before, struct plan_transfer *fresh, bool *ret_joined)
{
    int r = check_rank(plan, step, notify->rank);
    if (r < 0)
        return r;
    const struct group_member *member = &plan->session->members->list[notify->rank];
    const bool joins =
        before && before->stripe_room == 0 && notify_joins_put(true, before->node, member->node);
    struct plan_transfer *transfer = joins ? before : fresh;
    transfer->notify = true;
    transfer->rank = notify->rank;
    transfer->slot = notify->slot;
    transfer->notify_session = member->session;
    transfer->node = member->node;
    *ret_joined = joins;
    return 0;
}

static int parse_signal(struct plan *plan, uint32_t step, const Tca__Signal *signal,
                        struct plan_transfer *transfer)
{
    if (signal->value == 0)
        return plan_fail(plan, -EINVAL, "step %u: a signal of 0: the minimum is 1", step);
    transfer->signal = signal->value;
    int r = layout_contiguous(sizeof(uint64_t), &transfer->target_layout);
    if (r < 0)
        return plan_fail(plan, r, "out of memory for a layout");
    if ((r = hold_bytes(plan, layout_bytes(transfer->target_layout))) < 0)
        return r;
    return parse_target(plan, step, &signal->handle, signal->offset, transfer);
}

static int parse_wait_signal(struct plan *plan, uint32_t step, const Tca__WaitSignal *wait,
                             struct plan_step *out)
{
    char text[512];
    struct region *region = region_of_session(plan->session, wait->region);
    out->is_wait = true;
    out->count = wait->value;
    if (wait->value == 0)
        return plan_fail(plan, -EINVAL, "step %u: a wait for a counter of 0: the minimum is 1",
                         step);
    if (!region)
        return plan_fail(plan, -EINVAL,
                         "step %u: region %" PRIu64
                         " does not belong to this session, and only a session's own counters can "
                         "be waited for",
                         step, wait->region);
    if (wait->offset > region->bytes || region->bytes - wait->offset < sizeof(uint64_t))
        return plan_fail(plan, -EINVAL,
                         "step %u: a counter at offset %" PRIu64 " is outside region %" PRIu64
                         " of %" PRIu64 " bytes",
                         step, wait->offset, region->id, region->bytes);
    int r = region_counter(region, wait->offset, &out->line, text, sizeof(text));
    if (r < 0)
        return plan_fail(plan, r, "step %u: %s", step, text);
    out->counter = region_ref(region);
    out->counter_offset = wait->offset;
    region->puts_from++;
    return 0;
}

/* Adds a step to the chain, or a notification to the preceding put. */
static int parse_step(struct parser *parser, const Tca__Step *step)
{
    struct plan *plan = parser->plan;
    struct plan_chain *chain = &plan->chains[parser->chain];
    struct plan_step *out = &chain->steps[chain->step_count];
    struct plan_transfer *transfer = &plan->transfers[plan->transfer_count],
                         *before = parser->before;
    const uint32_t number = parser->step;
    bool joined = false;
    int r;

    transfer->plan = plan;
    transfer->chain = parser->chain;
    transfer->step = number;
    parser->before = NULL;
    switch (step->step_case) {
    case TCA__STEP__STEP_PUT:
        plan->transfer_count++; /* from here on plan_free() frees it */
        chain->transfer_count++;
        r = parse_put(plan, number, step->put, transfer);
        transfer->stripe_room = r < 0 ? 0 : plan_stripe_room(plan, transfer);
        r = r < 0 ? r : hold_bytes(plan, (uint64_t)transfer->stripe_room * PLAN_STRIPE_BYTES);
        chain->bytes += r < 0 ? 0 : transfer->bytes;
        chain->unshared |= transfer->ordered;
        out->transfer = plan->transfer_count - 1;
        parser->before = transfer->combine ? NULL : transfer;
        break;
    case TCA__STEP__STEP_NOTIFY:
        r = parse_notify(plan, number, step->notify, before, transfer, &joined);
        if (r == 0 && !joined) {
            plan->transfer_count++;
            chain->transfer_count++;
            out->transfer = plan->transfer_count - 1;
        }
        transfer = joined ? before : transfer;
        break;
    case TCA__STEP__STEP_WAIT:
        r = parse_wait(plan, number, step->wait, out);
        break;
    case TCA__STEP__STEP_SIGNAL:
        plan->transfer_count++; /* from here on plan_free() frees it */
        chain->transfer_count++;
        r = parse_signal(plan, number, step->signal, transfer);
        chain->unshared = true; /* whoever reads the counter need not be the receiver */
        out->transfer = plan->transfer_count - 1;
        break;
    case TCA__STEP__STEP_WAIT_SIGNAL:
        r = parse_wait_signal(plan, number, step->wait_signal, out);
        break;
    default:
        r = plan_fail(plan, -EPROTO, "step %u: neither put, notify, signal nor wait", number);
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
    return out->is_wait && !joined ? plan_use_wait(plan, out) : plan_use_transfer(plan, transfer);
}

/* Subtracts notifications that were joined to puts from the steps, and charges the layouts. */
static void end(struct parser *parser)
{
    struct plan *plan = parser->plan;
    if (plan_works(plan) && plan_add_stripes(plan) == 0) {
        plan->session->step_count -= plan->held_steps - plan->step_count;
        plan->held_steps = plan->step_count;
        charge(plan, plan->memory_bytes - parser->plain_bytes);
    }
    client_request_free(plan->request);
    plan->request = NULL;
    free(parser);
    plan_done(plan);
}

/* Steps count from 0 in each chain. */
static void name_chain(const struct parser *parser)
{
    struct plan *plan = parser->plan;
    struct plan_attempt *attempt = &plan->attempt;
    char text[sizeof(attempt->text)];
    if (plan->chain_count < 2)
        return;
    memcpy(text, attempt->text, sizeof(text));
    snprintf(attempt->text, sizeof(attempt->text), "chain %" PRIu32 ", %.480s", parser->chain,
             text);
}

enum { SLICE_STEPS = 64 }; /* parsed between two checks of the clock */

static bool parse_some(void *context)
{
    struct parser *parser = context;
    struct plan *plan = parser->plan;
    const Tca__PlanCommit *commit = parser->commit;
    while (parser->chain < plan->chain_count && plan_goes_on(plan)) {
        const Tca__Chain *chain = commit->chains[parser->chain];
        if (parser->step == 0) {
            plan->chains[parser->chain].steps = plan->steps + plan->step_count;
            plan->chains[parser->chain].transfers = plan->transfers + plan->transfer_count;
            plan_take_found(plan, &plan->chains[parser->chain], chain->rail,
                            (enum seat)commit->found_seat);
        }
        if (parse_step(parser, chain->steps[parser->step]) < 0)
            name_chain(parser);
        if (++parser->step == chain->n_steps) {
            parser->chain++;
            parser->step = 0;
            parser->before = NULL;
        }
        if (parser->step % SLICE_STEPS == 0 && loop_slice_over(plan->tcad->loop))
            return true;
    }
    end(parser);
    return false;
}

void plan_do_parse(struct plan *plan)
{
    const Tca__PlanCommit *commit = plan->request->message->plan_commit;
    if (begin(plan, commit) < 0)
        return;
    struct parser *parser = malloc(sizeof(*parser));
    if (!parser) {
        plan_fail(plan, -ENOMEM, "out of memory for a plan");
        return;
    }
    *parser = (struct parser){.plan = plan, .commit = commit, .plain_bytes = plan->memory_bytes};
    plan->pending++;
    loop_job_begin(plan->tcad->loop, &plan->job, parse_some, parser);
}
