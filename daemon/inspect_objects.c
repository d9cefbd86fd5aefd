/* Sessions, regions, plans, and the counters over all of them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/keys.h"
#include "daemon/engine.h"
#include "daemon/group.h"
#include "daemon/inspect.h"
#include "daemon/peer.h"
#include "daemon/plan.h"
#include "daemon/region.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

/* ---- plans ---- */

static uint64_t plan_errors(const struct plan *plan)
{
    return atomic_load_explicit(&plan->run.errors, memory_order_relaxed);
}

static void each_plan(const struct session *session,
                      void (*each)(void *context, const struct plan *plan), void *context)
{
    for (uint32_t i = 0; session->plans && i < PLANS_PER_SESSION_MAX; i++)
        if (session->plans[i])
            each(context, session->plans[i]);
}

static json_t *plan_id(const struct plan *plan)
{
    return json_sprintf("%" PRIu64 ".%" PRIu32, plan->session_id, plan->id);
}

static void add_plan(void *context, const struct plan *plan)
{
    json_array_append_new(
        context,
        json_pack("{s:o, s:I, s:i, s:s, s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:b, s:I, s:s}", "id",
                  plan_id(plan), "session", (json_int_t)plan->session_id, "pid",
                  (int)plan->session->pid, "name", plan->name, "channel", (json_int_t)plan->channel,
                  "chains", (json_int_t)plan->chain_count, "steps", (json_int_t)plan->step_count,
                  "rail", rail_name(plan->chains[0].rail), "seat", seat_name(plan->chains[0].seat),
                  "bytes", (json_int_t)plan->bytes, "starts", (json_int_t)plan_starts(plan),
                  "running", (int)atomic_load_explicit(&plan->run.running, memory_order_relaxed),
                  "errors", (json_int_t)plan_errors(plan), "state", plan_state_name(plan->state)));
}

json_t *inspect_plans(struct tcad *tcad)
{
    json_t *list = json_array();
    for (const struct session *session = tcad->sessions; session; session = session->next)
        each_plan(session, add_plan, list);
    return json_pack("{s:o}", "plans", list);
}

static json_t *predicted(uint64_t ns)
{
    return ns == UINT64_MAX ? json_null() : json_integer((json_int_t)ns);
}

static json_t *notification(const struct plan_unit *unit)
{
    return unit->notify ? json_pack("{s:I, s:I}", "rank", (json_int_t)unit->rank, "slot",
                                    (json_int_t)unit->slot)
                        : json_null();
}

/* How the client copies it: the ways that are possible, the last when the receiver is farther than
 * first_up_to_ns. */
static json_t *explain_copy(const struct plan *plan, const struct plan_unit *unit, enum seat seat)
{
    if (seat != SEAT_CLIENT)
        return json_null();
    enum way way = unit->share ? unit->way : WAY_PUSH;
    if (way != WAY_NONE)
        return json_pack("{s:[s], s:n}", "ways", way_name(way), "first_up_to_ns");
    struct way_choice choice =
        way_choose(&plan->session->way_costs, unit->target_layout, unit->source_layout);
    if (choice.near == choice.far)
        return json_pack("{s:[s], s:n}", "ways", way_name(choice.near), "first_up_to_ns");
    return json_pack("{s:[s, s], s:I}", "ways", way_name(choice.near), way_name(choice.far),
                     "first_up_to_ns", (json_int_t)choice.up_to_ns);
}

static json_t *explain_step(const struct plan *plan, const struct plan_step *step, enum seat seat)
{
    char source[128], target[128];
    if (step->is_wait)
        return json_pack("{s:s, s:I, s:I, s:I}", "kind", "wait", "rank", (json_int_t)step->rank,
                         "slot", (json_int_t)step->slot, "count", (json_int_t)step->count);
    const struct plan_unit *unit = &plan->units[step->unit];
    if (!unit->has_target)
        return json_pack("{s:s, s:I, s:I, s:b}", "kind", "notify", "rank", (json_int_t)unit->rank,
                         "slot", (json_int_t)unit->slot, "fence",
                         plan->pending == 0 && unit->fence);
    layout_describe(unit->source_layout, source, sizeof source);
    layout_describe(unit->target_layout, target, sizeof target);
    const struct layout *a = unit->source_layout, *b = unit->target_layout;
    /* The engine writes these while it prepares the plan: until it has said that it is done, they
     * are not ours to read. */
    bool prepared = plan->pending == 0;
    struct driver_put_info info = prepared ? unit->info : (struct driver_put_info){0};
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:b, s:b, s:{s:I, s:I, s:s}, s:{s:I, s:I, s:I, s:s}, s:o, s:o}",
        "kind", "put", "bytes", (json_int_t)a->size_bytes, "blocks",
        (json_int_t)(a->block_count > b->block_count ? a->block_count : b->block_count),
        "descriptors", (json_int_t)(info.descriptors ? info.descriptors : 1), "gathered",
        info.gathered, "fence", prepared && unit->fence, "source", "region",
        (json_int_t)unit->source->id, "offset", (json_int_t)unit->source_offset, "layout", source,
        "target", "node", (json_int_t)unit->node, "region", (json_int_t)unit->handle.region,
        "offset", (json_int_t)(unit->handle.offset_bytes + unit->target_offset), "layout", target,
        "notify", notification(unit), "copy", explain_copy(plan, unit, seat));
}

static json_t *explain_chain(const struct plan *plan, uint32_t index)
{
    const struct plan_chain *chain = &plan->chains[index];
    json_t *steps = json_array(), *candidates = json_array();
    for (uint32_t i = 0; i < chain->step_count; i++)
        json_array_append_new(steps, explain_step(plan, &chain->steps[i], chain->seat));
    for (uint32_t i = 0; i < chain->candidate_count; i++) {
        const struct plan_candidate *candidate = &chain->candidates[i];
        json_array_append_new(candidates, json_pack("{s:s, s:s, s:o, s:b, s:b, s:s}", "rail",
                                                    rail_name(candidate->rail), "seat",
                                                    seat_name(candidate->seat), "predicted_ns",
                                                    predicted(candidate->predicted_ns), "possible",
                                                    candidate->possible, "chosen",
                                                    candidate->chosen, "why", candidate->why));
    }
    return json_pack("{s:I, s:s, s:s, s:I, s:o, s:o, s:o}", "index", (json_int_t)index, "rail",
                     rail_name(chain->rail), "seat", seat_name(chain->seat), "bytes",
                     (json_int_t)chain->bytes, "predicted_ns", predicted(chain->predicted_ns),
                     "steps", steps, "candidates", candidates);
}

json_t *inspect_plan(struct tcad *tcad, const char *id, const char **ret_why)
{
    uint64_t session_id;
    uint32_t plan_number;
    char rest;
    if (sscanf(id, "%" SCNu64 ".%" SCNu32 "%c", &session_id, &plan_number, &rest) != 2) {
        *ret_why = "a plan's id is SESSION.PLAN, as in tcactl plans";
        return NULL;
    }
    const struct session *session = session_find(tcad, session_id);
    const struct plan *plan = session && session->plans && plan_number < PLANS_PER_SESSION_MAX
                                  ? session->plans[plan_number]
                                  : NULL;
    if (!plan) {
        *ret_why = "there is none such (any more): see tcactl plans";
        return NULL;
    }
    json_t *chains = json_array();
    for (uint32_t i = 0; i < plan->chain_count; i++)
        json_array_append_new(chains, explain_chain(plan, i));
    return json_pack(
        "{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:o}", "id", plan_id(plan), "name",
        plan->name, "session", (json_int_t)plan->session_id, "channel", (json_int_t)plan->channel,
        "bytes", (json_int_t)plan->bytes, "starts", (json_int_t)plan_starts(plan), "errors",
        (json_int_t)plan_errors(plan), "state", plan_state_name(plan->state), "error",
        plan->error_text, "median_ns",
        (json_int_t)engine_histogram_quantile(&plan->run.durations, 0.5), "p99_ns",
        (json_int_t)engine_histogram_quantile(&plan->run.durations, 0.99), "chains", chains);
}

/* ---- sessions and regions ---- */

struct tally {
    uint64_t starts, bytes, errors;
    uint64_t rail_starts[RAIL_COUNT][SEAT_COUNT], rail_bytes[RAIL_COUNT][SEAT_COUNT];
};

static void tally_plan(void *context, const struct plan *plan)
{
    struct tally *tally = context;
    uint64_t starts = plan_starts(plan);
    tally->starts += starts;
    tally->bytes += starts * plan->bytes;
    tally->errors += plan_errors(plan);
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        const struct plan_chain *chain = &plan->chains[i];
        tally->rail_starts[chain->rail][chain->seat] += starts - plan->counted_starts;
        tally->rail_bytes[chain->rail][chain->seat] +=
            (starts - plan->counted_starts) * chain->bytes;
    }
}

static const char *state_name(const struct session *session)
{
    if (session->closing)
        return "closing";
    return group_is_joining(session) ? "joining" : "open";
}

json_t *inspect_sessions(struct tcad *tcad)
{
    json_t *list = json_array();
    for (const struct session *session = tcad->sessions; session; session = session->next) {
        struct tally tally = {0};
        each_plan(session, tally_plan, &tally);
        json_array_append_new(
            list,
            json_pack("{s:I, s:i, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s}",
                      "id", (json_int_t)session->id, "pid", (int)session->pid, "uid",
                      (json_int_t)session->uid, "name", session->name, "group", session->group,
                      "rank", (json_int_t)session->rank, "size", (json_int_t)session->size,
                      "regions", (json_int_t)session->region_count, "region_bytes",
                      (json_int_t)session->region_bytes, "plans", (json_int_t)session->plan_count,
                      "starts", (json_int_t)tally.starts, "bytes", (json_int_t)tally.bytes, "age_s",
                      (double)(clock_now_ns() - session->since_ns) / 1e9, "state",
                      state_name(session)));
    }
    return json_pack("{s:o}", "sessions", list);
}

struct names_search {
    const struct tcad *tcad;
    uint64_t region;
    json_t *names;
};

static void add_name(void *context, const char *group, const char *name, const uint8_t bytes[64])
{
    struct names_search *search = context;
    struct handle handle;
    if (handle_decode(bytes, &handle) == 0 && handle.node == search->tcad->node &&
        handle.region == search->region && handle.incarnation == search->tcad->incarnation)
        json_array_append_new(search->names, json_sprintf("%s/%s", group, name));
}

struct region_list {
    struct tcad *tcad;
    json_t *list;
};

static void add_region(void *context, const struct region *region)
{
    struct region_list *to = context;
    struct names_search search = {to->tcad, region->id, json_array()};
    groups_published(to->tcad->groups, add_name, &search);
    json_array_append_new(
        to->list,
        json_pack("{s:I, s:I, s:i, s:I, s:o, s:I, s:o}", "id", (json_int_t)region->id, "session",
                  (json_int_t)region->session_id, "pid", (int)region->session->pid, "bytes",
                  (json_int_t)region->bytes, "address", json_sprintf("0x%" PRIx64, region->address),
                  "bindings", (json_int_t)region->bindings, "published", search.names));
}

json_t *inspect_regions(struct tcad *tcad)
{
    struct region_list to = {tcad, json_array()};
    regions_each(tcad->regions, add_region, &to);
    return json_pack("{s:o}", "regions", to.list);
}

/* ---- counters ---- */

static json_t *family(json_t *families, const char *name, const char *type, const char *unit,
                      const char *help)
{
    json_t *samples = json_array();
    json_array_append_new(families,
                          json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", name, "type", type, "unit",
                                    unit, "help", help, "samples", samples));
    return samples;
}

static void sample(json_t *samples, json_t *labels, double value)
{
    json_array_append_new(samples, json_pack("{s:o, s:f}", "labels",
                                             labels ? labels : json_object(), "value", value));
}

static void one(json_t *families, const char *name, const char *type, const char *unit,
                const char *help, double value)
{
    sample(family(families, name, type, unit, help), NULL, value);
}

static void rail_families(const struct tcad *tcad, json_t *families, const struct tally *tally)
{
    json_t *starts =
        family(families, "tcad_plan_starts", "counter", "", "Starts, by rail and seat.");
    json_t *bytes =
        family(families, "tcad_plan_put_bytes", "counter", "bytes", "Bytes put, by rail and seat.");
    for (int rail = 1; rail < RAIL_COUNT; rail++) {
        for (int seat = 1; seat < SEAT_COUNT; seat++) {
            const struct rail_total *past = &tcad->past[rail][seat];
            if (!tally->rail_starts[rail][seat] && !past->starts)
                continue;
            sample(starts,
                   json_pack("{s:s, s:s}", "rail", rail_name(rail), "seat", seat_name(seat)),
                   (double)(past->starts + tally->rail_starts[rail][seat]));
            sample(bytes, json_pack("{s:s, s:s}", "rail", rail_name(rail), "seat", seat_name(seat)),
                   (double)(past->bytes + tally->rail_bytes[rail][seat]));
        }
    }
}

static void node_families(struct tcad *tcad, json_t *families)
{
    json_t *up =
        family(families, "tcad_node_up", "gauge", "",
               "1 when the node is connected, 0 when it is down; absent when nothing is known.");
    json_t *rtt = family(families, "tcad_node_rtt_seconds", "gauge", "seconds",
                         "Round trip of the last heartbeat.");
    for (size_t i = 0; i < tcad->cluster->count; i++) {
        const struct cluster_node *node = &tcad->cluster->nodes[i];
        struct peer_info info;
        if (peers_info(tcad->peers, node->id, &info) < 0)
            continue;
        bool is_up = strcmp(info.state, "up") == 0, is_down = strcmp(info.state, "down") == 0;
        if (is_up || is_down)
            sample(up, json_pack("{s:s}", "node", node->name), is_up);
        if (is_up && info.rtt_ns)
            sample(rtt, json_pack("{s:s}", "node", node->name), (double)info.rtt_ns / 1e9);
    }
}

json_t *inspect_stats(struct tcad *tcad)
{
    json_t *families = json_array();
    struct engine_stats stats;
    struct tally tally = {0};
    uint64_t plans = 0;

    for (const struct session *session = tcad->sessions; session; session = session->next) {
        each_plan(session, tally_plan, &tally);
        plans += session->plan_count;
    }
    engine_stats(tcad->engine, &stats);
    one(families, "tcad_uptime_seconds", "gauge", "seconds", "Since the daemon was started.",
        (double)(clock_now_ns() - tcad->since_ns) / 1e9);
    one(families, "tcad_sessions", "gauge", "", "Open sessions.", tcad->session_count);
    one(families, "tcad_sessions_opened", "counter", "", "Sessions opened since the start.",
        (double)tcad->next_session);
    one(families, "tcad_groups", "gauge", "", "Groups that meet at this node.",
        groups_count(tcad->groups));
    one(families, "tcad_regions", "gauge", "", "Regions.", (double)regions_count(tcad->regions));
    one(families, "tcad_region_bytes", "gauge", "bytes", "Bytes of all regions.",
        (double)regions_bytes(tcad->regions));
    one(families, "tcad_plans", "gauge", "", "Committed plans.", (double)plans);
    one(families, "tcad_plans_rebound", "counter", "",
        "Plans that lost a rail and moved to another one.", (double)tcad->rebound);
    one(families, "tcad_plans_returned", "counter", "", "Plans that went back to a better rail.",
        (double)tcad->returned);
    one(families, "tcad_engine_starts", "counter", "", "Starts taken by the engine.",
        (double)stats.starts);
    one(families, "tcad_engine_completions", "counter", "", "Starts completed by the engine.",
        (double)stats.completions);
    one(families, "tcad_engine_errors", "counter", "", "Starts that failed in the engine.",
        (double)stats.errors);
    one(families, "tcad_engine_put_bytes", "counter", "bytes", "Bytes put by the engine.",
        (double)stats.bytes);
    one(families, "tcad_engine_sleeps", "counter", "", "Times the engine went to sleep.",
        (double)stats.sleeps);
    one(families, "tcad_draining", "gauge", "", "1 while no new sessions and plans are taken.",
        tcad->draining);
    rail_families(tcad, families, &tally);
    node_families(tcad, families);
    return json_pack("{s:o}", "families", families);
}
