/* Plans: all of them in short, one of them explained. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/sort.h"
#include "daemon/bindings/pairs.h"
#include "daemon/control/inspect.h"
#include "daemon/engine/engine.h"
#include "daemon/peers/peer.h"
#include "daemon/plans/order.h"
#include "daemon/plans/parts.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

static json_t *plan_id(const struct plan *plan)
{
    return json_sprintf("%" PRIu64 ".%" PRIu32, plan->session_id, plan->id);
}

static uint64_t running_since_ns(const struct plan *plan)
{
    return atomic_load_explicit(&plan->run.running_since_ns, memory_order_relaxed);
}

/* For how long the present start has been under way: null when there is none. */
static json_t *running_s(const struct plan *plan)
{
    uint64_t since = running_since_ns(plan), now = clock_now_ns();
    return since ? json_real(now > since ? (double)(now - since) / 1e9 : 0) : json_null();
}

/* Where it puts and notifies: each node once. */
static json_t *nodes_of(const struct plan *plan)
{
    uint32_t *nodes = calloc(plan->transfer_count + 1, sizeof(*nodes));
    size_t count = 0;
    json_t *list = json_array();

    for (uint32_t i = 0; nodes && i < plan->transfer_count; i++)
        if (plan->transfers[i].node < PEER_NODES_MAX)
            nodes[count++] = plan->transfers[i].node;
    count = sort_unique(nodes, count);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer((json_int_t)nodes[i]));
    free(nodes);
    return list;
}

static json_t *quantile(const struct plan *plan, double share)
{
    return json_integer((json_int_t)engine_histogram_quantile(&plan->run.durations, share));
}

json_t *inspect_plan_row(const struct plan *plan)
{
    static const struct plan_chain none;
    const struct plan_chain *first = plan->chain_count > 0 ? &plan->chains[0] : &none;
    return json_pack(
        "{s:o, s:I, s:i, s:s, s:I, s:I, s:I, s:s?, s:s?, s:s?, s:o, s:I, s:I, s:b, s:o, s:I, "
        "s:s, s:o, s:o}",
        "id", plan_id(plan), "session", (json_int_t)plan->session_id, "pid",
        (int)plan->session->pid, "name", plan->name, "channel", (json_int_t)plan->channel, "chains",
        (json_int_t)plan->chain_count, "steps", (json_int_t)plan->step_count, "rail",
        rail_name(plan->tcad, first->bound.rail), "driver",
        rail_driver(plan->tcad, first->bound.rail), "seat", seat_name(first->bound.seat), "nodes",
        nodes_of(plan), "bytes", (json_int_t)plan->bytes, "starts", (json_int_t)plan_starts(plan),
        "running", running_since_ns(plan) != 0, "running_s", running_s(plan), "errors",
        (json_int_t)plan_errors(plan), "state", plan_state_shown(plan), "median_ns",
        quantile(plan, 0.5), "p99_ns", quantile(plan, 0.99));
}

static json_t *predicted(uint64_t ns)
{
    return ns == UINT64_MAX ? json_null() : json_integer((json_int_t)ns);
}

static json_t *notification(const struct plan_transfer *transfer)
{
    return transfer->notify ? json_pack("{s:I, s:I}", "rank", (json_int_t)transfer->rank, "slot",
                                        (json_int_t)transfer->slot)
                            : json_null();
}

static uint32_t load(const _Atomic uint32_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

/* What the client says that it has tried: anything. */
static void add_tried(json_t *list, const struct trial_line *line)
{
    const uint32_t count = load(&line->count), choice = load(&line->choice);
    for (uint32_t i = 0; i < count && i < TRIAL_MODES_MAX; i++) {
        const uint32_t mode = load(&line->modes[i].mode);
        const char *name = copy_method_name((enum copy_method)(mode % 256));
        if (name && !(mode & TRIAL_RAIL))
            json_array_append_new(
                list, json_pack("{s:s, s:b, s:I, s:I, s:I, s:b}", "mode", name, "stream",
                                (int)(mode / 256 % 2), "piece_bytes", (json_int_t)(mode / 65536),
                                "blocks", (json_int_t)load(&line->modes[i].blocks), "ns",
                                (json_int_t)load(&line->modes[i].ns), "chosen", i == choice));
    }
}

static json_t *tried(const struct plan *plan, const struct plan_transfer *transfer)
{
    json_t *list = json_array();
    const struct session_segment *segment = plan->session->segment;
    for (const struct trial_line *line = segment->trials; line < segment->trials + TRIAL_LINES;
         line++)
        /* acquire: pairs with the client's release */
        if (atomic_load_explicit(&line->plan, memory_order_acquire) == plan->id + 1 &&
            load(&line->transfer) == (uint32_t)(transfer - plan->transfers))
            add_tried(list, line);
    return list;
}

/* How the client copies it: the mode that was requested or is the only one, or those that its
 * trials begin with, the last when the receiver is farther than first_up_to_ns; and what it has
 * tried. */
static json_t *explain_copy(const struct plan *plan, const struct plan_transfer *transfer,
                            enum seat seat)
{
    if (seat != SEAT_CLIENT || transfer->pair)
        return json_null();
    const enum copy_method method = transfer->share ? transfer->copy_mode : COPY_PUSH;
    struct copy_choice choice = {.near = method, .far = method};
    if (method == COPY_NONE)
        choice = copy_choose(transfer->target_layout, transfer->source_layout);
    if (choice.near == choice.far)
        return json_pack("{s:[s], s:n, s:o}", "methods", copy_method_name(choice.near),
                         "first_up_to_ns", "tried", tried(plan, transfer));
    return json_pack("{s:[s, s], s:I, s:o}", "methods", copy_method_name(choice.near),
                     copy_method_name(choice.far), "first_up_to_ns", (json_int_t)choice.up_to_ns,
                     "tried", tried(plan, transfer));
}

/* How the way to where it lands is now; null in the client's seat, which does not depend on it. */
static json_t *link_state(const struct plan *plan, const struct plan_transfer *transfer)
{
    if (!transfer->link)
        return json_null();
    if (transfer->link->state == LINK_FAILED)
        return json_string("down");
    return json_string(
        fabric_reaches(plan->tcad, transfer->link->rail, transfer->node) ? "up" : "cut off");
}

/* The step of the chain with which it has bytes in common, so that it waits for that. */
static json_t *after(const struct plan *plan, const struct plan_transfer *transfer)
{
    return plan->pending == 0 && transfer->order.after != ORDER_NOTHING
               ? json_integer((json_int_t)transfer->order.after)
               : json_null();
}

static json_t *reduction(const struct plan_transfer *transfer)
{
    return transfer->combine ? json_pack("{s:s, s:s}", "operator", operator_name(transfer->combine),
                                         "type", element_info(transfer->type)->name)
                             : json_null();
}

static json_t *describe_step(const struct plan *plan, uint32_t chain, uint32_t index)
{
    const struct plan_step *step = &plan->chains[chain].steps[index];
    const enum seat seat = plan->chains[chain].bound.seat;
    char source[128], target[128];
    if (step->counter)
        return json_pack("{s:s, s:I, s:I, s:I}", "kind", "wait_signal", "region",
                         (json_int_t)step->counter->id, "offset", (json_int_t)step->counter_offset,
                         "value", (json_int_t)step->count);
    if (step->is_wait)
        return json_pack("{s:s, s:I, s:I, s:I}", "kind", "wait", "rank", (json_int_t)step->rank,
                         "slot", (json_int_t)step->slot, "count", (json_int_t)step->count);
    const struct plan_transfer *transfer = &plan->transfers[step->transfer];
    if (transfer->signal)
        return json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:o}", "kind", "signal", "node",
                         (json_int_t)transfer->node, "region", (json_int_t)transfer->handle.region,
                         "offset",
                         (json_int_t)(transfer->handle.offset_bytes + transfer->target_offset),
                         "value", (json_int_t)transfer->signal, "fence",
                         plan->pending == 0 && transfer->fence, "link", link_state(plan, transfer));
    if (!transfer->has_target)
        return json_pack("{s:s, s:I, s:I, s:I, s:b, s:o}", "kind", "notify", "node",
                         (json_int_t)transfer->node, "rank", (json_int_t)transfer->rank, "slot",
                         (json_int_t)transfer->slot, "fence", plan->pending == 0 && transfer->fence,
                         "link", link_state(plan, transfer));
    layout_describe(transfer->source_layout, source, sizeof(source));
    layout_describe(transfer->target_layout, target, sizeof(target));
    const struct layout *a = transfer->source_layout, *b = transfer->target_layout;
    /* The engine writes these while it prepares the plan. Until it has reported that it is done,
     * the loop must not read them. */
    bool prepared = plan->pending == 0;
    struct driver_put_info info = prepared ? transfer->info : (struct driver_put_info){0};
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:b, s:b, s:o, s:{s:I, s:I, s:s}, s:{s:I, s:I, s:I, s:s}, s:o, s:o, "
        "s:o, s:o, s:b, s:b}",
        "kind", "put", "bytes", (json_int_t)transfer->bytes, "blocks",
        (json_int_t)(a->block_count > b->block_count ? a->block_count : b->block_count),
        "descriptors", (json_int_t)(info.descriptors ? info.descriptors : 1), "gathered",
        info.gathered, "fence", prepared && transfer->fence, "after", after(plan, transfer),
        "source", "region", (json_int_t)transfer->source->id, "offset",
        (json_int_t)transfer->source_offset, "layout", source, "target", "node",
        (json_int_t)transfer->node, "region", (json_int_t)transfer->handle.region, "offset",
        (json_int_t)(transfer->handle.offset_bytes + transfer->target_offset), "layout", target,
        "notify", notification(transfer), "link", link_state(plan, transfer), "copy",
        explain_copy(plan, transfer, seat), "reduce", reduction(transfer), "ordered",
        transfer->ordered, "parts", transfer->parts);
}

/* What each rail moves of a put that is divided; null: it is not. */
static json_t *stripes(const struct plan *plan, const struct plan_step *step)
{
    const struct plan_transfer *transfer = step->is_wait ? NULL : &plan->transfers[step->transfer];
    if (!transfer || transfer->part_bytes == 0)
        return json_null();
    json_t *list = json_pack("[{s:s, s:I}]", "rail",
                             rail_name(plan->tcad, plan->chains[transfer->chain].bound.rail),
                             "bytes", (json_int_t)transfer->part_bytes);
    for (uint32_t i = 0; i < plan_stripe_count(plan, transfer); i++) {
        const struct plan_transfer *stripe = plan_stripe(plan, transfer, i);
        json_array_append_new(list,
                              json_pack("{s:s, s:I}", "rail", rail_name(plan->tcad, stripe->rail),
                                        "bytes", (json_int_t)stripe->part_bytes));
    }
    return list;
}

/* The connection over which the process itself puts and notifies; null: it has none. */
static json_t *connection(const struct plan *plan, const struct plan_step *step)
{
    const struct plan_transfer *transfer = step->is_wait ? NULL : &plan->transfers[step->transfer];
    if (!transfer || transfer->pair == 0)
        return json_null();
    const struct pair *pair = pair_find(plan->tcad, transfer->pair);
    if (!pair)
        return json_pack("{s:I, s:b, s:n, s:n, s:n, s:n, s:n}", "node", (json_int_t)transfer->node,
                         "ended", 1, "session", "rail", "encrypted", "kernel_tls", "bytes");
    return json_pack("{s:I, s:b, s:I, s:s, s:b, s:b, s:I}", "node", (json_int_t)pair->node, "ended",
                     0, "session", (json_int_t)pair->other, "rail",
                     rail_name(plan->tcad, pair->rail), "encrypted", pair->encrypts, "kernel_tls",
                     pair_by_kernel(pair), "bytes", (json_int_t)pair_bytes(pair));
}

/* The rails that were considered for shares of a put; null: it cannot be divided. */
static json_t *division(const struct plan *plan, const struct plan_step *step)
{
    struct plan_division division = {0};
    if (!step->is_wait)
        plan_explain_division(plan, &plan->transfers[step->transfer], &division);
    if (division.count == 0)
        return json_null();
    json_t *list = json_array();
    for (uint32_t i = 0; i < division.count; i++) {
        const struct plan_share *share = &division.shares[i];
        json_array_append_new(list, json_pack("{s:s, s:I, s:o, s:o, s:s}", "rail",
                                              rail_name(plan->tcad, share->rail), "bytes",
                                              (json_int_t)share->bytes, "predicted_ns",
                                              predicted(share->predicted_ns), "alone_ns",
                                              predicted(share->alone_ns), "why", share->why));
    }
    return json_pack("{s:o, s:o}", "predicted_ns", predicted(division.predicted_ns), "candidates",
                     list);
}

json_t *inspect_plan_step(const struct plan *plan, uint32_t chain, uint32_t index)
{
    json_t *step = describe_step(plan, chain, index);
    if (!step)
        return NULL;
    json_object_set_new(step, "flush", json_boolean(plan->chains[chain].steps[index].flush));
    json_object_set_new(step, "stripes", stripes(plan, &plan->chains[chain].steps[index]));
    json_object_set_new(step, "pair", connection(plan, &plan->chains[chain].steps[index]));
    json_object_set_new(step, "division", division(plan, &plan->chains[chain].steps[index]));
    return step;
}

/* How often the client has tried it, and with which result: as the client says. */
static void find_trial(const struct plan *plan, uint32_t chain,
                       const struct plan_candidate *candidate, uint32_t *ret_blocks,
                       uint32_t *ret_ns)
{
    const uint32_t mode = TRIAL_RAIL | candidate->route.rail * 65536u |
                          (candidate->route.seat == SEAT_CLIENT ? TRIAL_CLIENT : 0);
    const struct trial_line *lines = plan->session->segment->trials;
    for (const struct trial_line *line = lines; line < lines + TRIAL_LINES; line++) {
        /* acquire: pairs with the client's release */
        if (atomic_load_explicit(&line->plan, memory_order_acquire) != plan->id + 1 ||
            load(&line->transfer) != chain)
            continue;
        const uint32_t count = load(&line->count);
        for (uint32_t i = 0; i < count && i < TRIAL_MODES_MAX; i++) {
            if (load(&line->modes[i].mode) != mode)
                continue;
            *ret_blocks = load(&line->modes[i].blocks);
            *ret_ns = load(&line->modes[i].ns);
        }
    }
}

static json_t *explain_candidate(const struct plan *plan, uint32_t chain,
                                 const struct plan_candidate *candidate)
{
    uint32_t blocks = 0, ns = 0;
    find_trial(plan, chain, candidate, &blocks, &ns);
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:I, s:i, s:b, s:b, s:s, s:I, s:o}", "rail",
        rail_name(plan->tcad, candidate->route.rail), "driver",
        rail_driver(plan->tcad, candidate->route.rail), "seat", seat_name(candidate->route.seat),
        "predicted_ns", predicted(candidate->predicted_ns), "behind_ns",
        (json_int_t)candidate->behind_ns, "hops", (int)candidate->hops, "possible",
        candidate->possible, "chosen", candidate->chosen, "why", candidate->why, "blocks",
        (json_int_t)blocks, "ns", blocks > 0 ? json_integer((json_int_t)ns) : json_null());
}

static json_t *explain_chain(const struct plan *plan, uint32_t index)
{
    const struct plan_chain *chain = &plan->chains[index];
    json_t *steps = json_array(), *candidates = json_array();
    for (uint32_t i = 0; i < chain->candidate_count; i++)
        json_array_append_new(candidates, explain_candidate(plan, index, &chain->candidates[i]));
    const struct route wanted = plan->state < PLAN_READY ? chain->bound : chain->wanted;
    return json_pack("{s:I, s:s?, s:s?, s:s?, s:s?, s:s?, s:I, s:o, s:o, s:o}", "index",
                     (json_int_t)index, "rail", rail_name(plan->tcad, chain->bound.rail), "driver",
                     rail_driver(plan->tcad, chain->bound.rail), "wanted_rail",
                     rail_name(plan->tcad, wanted.rail), "seat", seat_name(chain->bound.seat),
                     "wanted_seat", seat_name(wanted.seat), "bytes", (json_int_t)chain->bytes,
                     "predicted_ns", predicted(chain->predicted_ns), "steps", steps, "candidates",
                     candidates);
}

const struct plan *inspect_find_plan(struct tcad *tcad, uid_t viewer, const char *id,
                                     const char **ret_why)
{
    uint64_t session_id;
    uint32_t plan_number;
    char rest;
    if (sscanf(id, "%" SCNu64 ".%" SCNu32 "%c", &session_id, &plan_number, &rest) != 2) {
        *ret_why = "a plan's id is SESSION.PLAN, as in tcactl plans";
        return NULL;
    }
    const struct session *session = session_find(tcad, session_id);
    const struct plan *plan = session && inspect_may_see(tcad, viewer, session->uid) &&
                                      session->plans && plan_number < PLANS_PER_SESSION_MAX
                                  ? session->plans[plan_number]
                                  : NULL;
    if (!plan)
        *ret_why = "no such plan (released?): see tcactl plans";
    return plan;
}

/* Of a repeating plan in the daemon's seat. */
static json_t *rounds(const struct plan *plan)
{
    return plan->repeat && plan->wanted_seat == SEAT_DAEMON
               ? json_integer(
                     (json_int_t)atomic_load_explicit(&plan->run.rounds, memory_order_relaxed))
               : json_null();
}

json_t *inspect_plan(const struct plan *plan)
{
    json_t *chains = json_array();
    for (uint32_t i = 0; i < plan->chain_count; i++)
        json_array_append_new(chains, explain_chain(plan, i));
    return json_pack(
        "{s:o, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:s, s:s, s:o, s:o, s:o, s:b, s:I, s:o}",
        "id", plan_id(plan), "name", plan->name, "session", (json_int_t)plan->session_id, "channel",
        (json_int_t)plan->channel, "bytes", (json_int_t)plan->bytes, "starts",
        (json_int_t)plan_starts(plan), "rounds", rounds(plan), "running_s", running_s(plan),
        "errors", (json_int_t)plan_errors(plan), "state", plan_state_shown(plan), "error",
        plan->state < PLAN_BREAKING ? "" : plan->error_text, "median_ns", quantile(plan, 0.5),
        "p99_ns", quantile(plan, 0.99), "chains", chains, "parts", plan->part_count > 0,
        "moved_bytes", (json_int_t)parts_moved_all(plan, plan_starts(plan)), "collective",
        inspect_collective(plan->collective));
}
