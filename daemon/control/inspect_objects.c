/* Rows about sessions, users and regions, and the counters. */
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/bindings/pairs.h"
#include "daemon/control/inspect.h"
#include "daemon/engine/engine.h"
#include "daemon/groups/group.h"
#include "daemon/offload/offload.h"
#include "daemon/peers/peer.h"
#include "daemon/plans/parts.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/rails/exposure.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/descriptors.h"
#include "daemon/sessions/flight.h"
#include "daemon/sessions/guard.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

struct tally {
    uint64_t starts, bytes, errors;
    uint64_t rail_starts[RAIL_SLOTS][SEAT_COUNT], rail_bytes[RAIL_SLOTS][SEAT_COUNT];
};

static void tally_plan(void *context, const struct plan *plan)
{
    struct tally *tally = context;
    uint64_t starts = plan_starts(plan);
    tally->starts += starts;
    tally->bytes += parts_moved_all(plan, starts);
    tally->errors += plan_errors(plan);
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        const struct plan_chain *chain = &plan->chains[i];
        tally->rail_starts[chain->bound.rail][chain->bound.seat] += starts - plan->counted_starts;
        uint64_t bytes[RAIL_SLOTS] = {0};
        plan_add_bytes(plan, chain, starts - plan->counted_starts, bytes);
        for (unsigned rail = 0; rail < RAIL_SLOTS; rail++)
            tally->rail_bytes[rail][chain->bound.seat] += bytes[rail];
    }
}

static const char *state_name(const struct session *session)
{
    if (session->closing)
        return "closing";
    return group_is_joining(session) ? "joining" : "open";
}

bool inspect_may_see(const struct tcad *tcad, uid_t viewer, uid_t owner)
{
    return !tcad->conf->control.is_private || viewer == owner || viewer == 0 || viewer == geteuid();
}

json_t *inspect_session(const struct session *session)
{
    struct tally tally = {0};
    plans_each(session, tally_plan, &tally);
    return json_pack(
        "{s:I, s:i, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s}", "id",
        (json_int_t)session->id, "pid", (int)session->pid, "uid", (json_int_t)session->uid, "name",
        session->name, "group", session->group, "rank", (json_int_t)session->rank, "size",
        (json_int_t)session->size, "regions", (json_int_t)session->region_count, "region_bytes",
        (json_int_t)session->region_bytes, "plans", (json_int_t)session->plan_count, "pairs",
        (json_int_t)session->pair_count, "pair_bytes", (json_int_t)pairs_bytes(session), "starts",
        (json_int_t)tally.starts, "bytes", (json_int_t)tally.bytes, "age_s",
        (double)(clock_now_ns() - session->since_ns) / 1e9, "state", state_name(session));
}

json_t *inspect_user(const struct tcad *tcad, const struct user *user)
{
    const struct tcad_conf *conf = tcad->conf;
    json_t *kinds = json_object();
    for (int kind = 0; kind < USER_KINDS; kind++)
        if (kind != USER_CONNECTIONS)
            json_object_set_new(kinds, user_kind_name(kind),
                                json_integer((json_int_t)user->bytes[kind]));
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "uid",
        (json_int_t)user->uid, "sessions", (json_int_t)user->count[USER_SESSIONS], "regions",
        (json_int_t)user->count[USER_REGIONS], "plans", (json_int_t)user->count[USER_PLANS],
        "descriptors", (json_int_t)user->descriptors, "region_bytes",
        (json_int_t)user->memory_bytes, "region_bytes_freed", (json_int_t)user->freed_bytes,
        "region_bytes_quarantined", (json_int_t)user->quarantined_bytes, "region_bytes_max",
        (json_int_t)conf->memory.region_bytes_per_user, "bytes", (json_int_t)user->total,
        "bytes_max", (json_int_t)conf->limits.bytes_per_user, "kinds", kinds);
}

json_t *inspect_region(const struct region *region, json_t *names)
{
    return json_pack("{s:I, s:I, s:i, s:I, s:o, s:I, s:o}", "id", (json_int_t)region->id, "session",
                     (json_int_t)region->session_id, "pid", (int)region->session->pid, "bytes",
                     (json_int_t)region->bytes, "address",
                     json_sprintf("0x%" PRIx64, region->address), "bindings",
                     (json_int_t)region->bindings, "published", names);
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

static void forged_family(const struct tcad *tcad, json_t *families)
{
    json_t *forged =
        family(families, "tcad_rail_forged", "counter", "",
               "Connections, completions and messages at the port of a rail that were rejected, "
               "because no peer can have sent them.");
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        const struct driver *driver = engine_driver(tcad->engine, rail);
        if (driver && driver->ops->door)
            sample(forged, json_pack("{s:s}", "rail", rail_name(tcad, rail)),
                   (double)exposure_forged(tcad, rail));
    }
    json_t *leaked = family(families, "tcad_rail_leaked_descriptors", "gauge", "",
                            "Descriptors of ended connections to the port of an unprotected rail "
                            "that libfabric has not closed.");
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        const struct driver_caps *caps = engine_driver_caps(tcad->engine, rail);
        if (caps && caps->unprotected)
            sample(leaked, json_pack("{s:s}", "rail", rail_name(tcad, rail)),
                   (double)exposure_leaked(tcad, rail));
    }
}

static json_t *rail_labels(const struct tcad *tcad, unsigned rail, enum seat seat)
{
    return json_pack("{s:s, s:s, s:s}", "rail", rail_name(tcad, rail), "driver",
                     rail_driver(tcad, rail), "seat", seat_name(seat));
}

static void rail_families(const struct tcad *tcad, json_t *families, const struct tally *tally)
{
    json_t *starts =
        family(families, "tcad_plan_starts", "counter", "", "Starts, by rail and seat.");
    json_t *bytes =
        family(families, "tcad_plan_put_bytes", "counter", "bytes", "Bytes put, by rail and seat.");
    for (unsigned rail = 1; rail <= tcad->rails->count; rail++) {
        for (int seat = 1; seat < SEAT_COUNT; seat++) {
            const struct rail_total *past = &tcad->past[rail][seat];
            const uint64_t start_count = past->starts + tally->rail_starts[rail][seat],
                           byte_count = past->bytes + tally->rail_bytes[rail][seat];
            if (start_count == 0 && byte_count == 0)
                continue;
            sample(starts, rail_labels(tcad, rail, seat), (double)start_count);
            sample(bytes, rail_labels(tcad, rail, seat), (double)byte_count);
        }
    }
}

/* Which release this is, and which of its rails work. */
static void state_families(const struct tcad *tcad, json_t *families)
{
    sample(family(families, "tcad_build_info", "gauge", "",
                  "1; the labels name the version of tcad and of its protocol."),
           json_pack("{s:s, s:i}", "version", TCAD_VERSION, "protocol", PROTO_VERSION), 1);
    json_t *up = family(families, "tcad_rail_up", "gauge", "",
                        "1 if the rail works, 0 if it is down; absent if it is not open.");
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++)
        if (rail_at(tcad, rail)->open)
            sample(up,
                   json_pack("{s:s, s:s}", "rail", rail_name(tcad, rail), "driver",
                             rail_driver(tcad, rail)),
                   engine_driver_error(tcad->engine, rail) == 0);
    one(families, "tcad_calibrated", "gauge", "", "1 if the rails were calibrated.",
        tcad->calibrated);
}

static void node_families(struct tcad *tcad, json_t *families)
{
    json_t *up =
        family(families, "tcad_node_up", "gauge", "",
               "1 if the node is connected or being reconnected, 0 if it is down; absent if "
               "unknown.");
    json_t *rtt = family(families, "tcad_node_rtt_seconds", "gauge", "seconds",
                         "Round-trip time of the last heartbeat.");
    json_t *reconnects =
        family(families, "tcad_node_reconnects", "counter", "",
               "Connections to the node that ended and were resumed without loss.");
    for (size_t i = 0; i < tcad->cluster->count; i++) {
        const struct cluster_node *node = &tcad->cluster->nodes[i];
        struct peer_info info;
        if (peers_info(tcad->peers, node->id, &info) < 0)
            continue;
        bool is_up = strcmp(info.state, "up") == 0 || strcmp(info.state, "reconnecting") == 0,
             is_down = strcmp(info.state, "down") == 0;
        if (is_up || is_down)
            sample(up, json_pack("{s:s}", "node", node->name), is_up);
        if (is_up || is_down)
            sample(reconnects, json_pack("{s:s}", "node", node->name), (double)info.reconnects);
        if (is_up && info.rtt_ns)
            sample(rtt, json_pack("{s:s}", "node", node->name), (double)info.rtt_ns / 1e9);
    }
}

static void user_samples(void *context, void *owner)
{
    const struct user *user = owner;
    for (int kind = 0; kind < USER_KINDS; kind++)
        if (user->bytes[kind])
            sample(
                context,
                json_pack("{s:I, s:s}", "uid", (json_int_t)user->uid, "kind", user_kind_name(kind)),
                (double)user->bytes[kind]);
}

static void in_flight_sample(void *context, void *owner)
{
    const struct user *user = owner;
    if (user->in_flight)
        sample(context, json_pack("{s:I}", "uid", (json_int_t)user->uid), user->in_flight);
}

static void offload_families(const struct tcad *tcad, json_t *families)
{
    uint32_t processors;
    const struct offload_counters totals = offload_totals(tcad, &processors);
    one(families, "tcad_offload_processors", "gauge", "", "Offload processors.", processors);
    one(families, "tcad_offload_entries", "counter", "",
        "Queue entries of offload processors that were forwarded to the device.",
        (double)totals.entries);
    one(families, "tcad_offload_completions", "counter", "",
        "Completions that were delivered to offload processors.", (double)totals.completions);
    one(families, "tcad_offload_errors", "counter", "", "Part of them: errors.",
        (double)totals.errors);
    one(families, "tcad_offload_sent_bytes", "counter", "bytes",
        "Bytes that offload processors have posted to send, write or read.", (double)totals.bytes);
}

json_t *inspect_stats(struct tcad *tcad)
{
    json_t *families = json_array();
    struct tally tally = {0};
    uint64_t plans = 0;

    for (const struct session *session = tcad->sessions; session; session = session->next) {
        plans_each(session, tally_plan, &tally);
        plans += session->plan_count;
    }
    one(families, "tcad_uptime_seconds", "gauge", "seconds", "Time since the daemon was started.",
        (double)(clock_now_ns() - tcad->since_ns) / 1e9);
    state_families(tcad, families);
    one(families, "tcad_sessions", "gauge", "", "Open sessions.", tcad->session_count);
    one(families, "tcad_sessions_opened", "counter", "", "Sessions opened since the start.",
        (double)tcad->next_session);
    one(families, "tcad_groups", "gauge", "", "Groups that this node coordinates.",
        groups_count(tcad->groups));
    one(families, "tcad_regions", "gauge", "", "Regions.", (double)regions_count(tcad->regions));
    one(families, "tcad_region_bytes", "gauge", "bytes",
        "Memory of all regions, also freed ones that are in use.",
        (double)tcad->users.memory_bytes);
    one(families, "tcad_region_quarantined_bytes", "gauge", "bytes",
        "Part of it: freed regions that a rail keeps until no peer can write there.",
        (double)tcad->users.quarantined_bytes);
    one(families, "tcad_region_limit_bytes", "gauge", "bytes",
        "Limit on the memory of all regions (memory.region_bytes).",
        (double)tcad->conf->memory.region_bytes);
    one(families, "tcad_plans", "gauge", "", "Committed plans.", (double)plans);
    one(families, "tcad_plans_rebound", "counter", "",
        "Moves of plans from a lost rail to another one.", (double)tcad->rebound);
    one(families, "tcad_plans_returned", "counter", "", "Moves of plans back to a better rail.",
        (double)tcad->returned);
    one(families, "tcad_plans_tried", "counter", "",
        "Moves of plans that find their rail by trial.", (double)tcad->tried);
    one(families, "tcad_plans_risen", "counter", "",
        "Plans in tcad's seat for which there was a connection between the processes later.",
        (double)tcad->risen);
    one(families, "tcad_plans_inherited", "counter", "",
        "Commits that took over what a released plan had prepared at other nodes.",
        (double)tcad->inherited);
    const struct mallinfo2 heap = mallinfo2();
    one(families, "tcad_heap_bytes", "gauge", "bytes",
        "Memory that tcad has allocated for itself, without what it keeps for later.",
        (double)(heap.uordblks + heap.hblkhd));
    const struct descriptors descriptors = descriptors_now();
    one(families, "tcad_descriptors", "gauge", "", "File descriptors in use.",
        (double)descriptors.used);
    one(families, "tcad_descriptors_limit", "gauge", "", "Limit on file descriptors.",
        (double)descriptors.limit);
    one(families, "tcad_descriptors_reserved", "gauge", "",
        "File descriptors that it needs for its rails and other nodes.",
        (double)tcad->own_descriptors);
    forged_family(tcad, families);
    one(families, "tcad_refused_resumes", "counter", "",
        "Attempts to resume another node's connection that were refused, because the secret was "
        "missing.",
        (double)peers_refused_resumes(tcad->peers));
    one(families, "tcad_regions_cut_off", "counter", "",
        "Mappings of regions that were dropped because a client or a device removed their pages.",
        (double)guard_replaced());
    inspect_engine_families(tcad, families);
    one(families, "tcad_draining", "gauge", "", "1 while new sessions are refused.",
        tcad->draining);
    flights_look(tcad->flights);
    table_each(&tcad->users.by_uid, in_flight_sample,
               family(families, "tcad_user_descriptors_in_flight", "gauge", "",
                      "Descriptors that were sent to clients of each user, and that these have not "
                      "received yet."));
    table_each(&tcad->users.by_uid, user_samples,
               family(families, "tcad_user_bytes", "gauge", "bytes",
                      "Memory of the daemon for each user, by kind, without the memory of "
                      "regions (limits.bytes_per_user)."));
    one(families, "tcad_loop_longest_turn_seconds", "gauge", "seconds",
        "Longest time for which the main loop has not answered clients and peers.",
        (double)loop_longest_ns(tcad->loop) / 1e9);
    one(families, "tcad_loop_slices", "counter", "",
        "Slices that the main loop cut long work into, to answer others in between.",
        (double)loop_slices(tcad->loop));
    offload_families(tcad, families);
    rail_families(tcad, families, &tally);
    node_families(tcad, families);
    return json_pack("{s:o}", "families", families);
}
