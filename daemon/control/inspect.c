/* Documents about the daemon, its cluster and the machine. */
#include "daemon/control/inspect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/hostlist.h"
#include "daemon/bindings/pairs.h"
#include "daemon/control/admin.h"
#include "daemon/engine/engine.h"
#include "daemon/groups/group.h"
#include "daemon/peers/peer.h"
#include "daemon/rails/costs.h"
#include "daemon/rails/exposure.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/load.h"
#include "proto/wait.h"

enum { DOWN_NAMES_MAX = 16 }; /* tcactl nodes lists all */

static json_t *hex(uint64_t value)
{
    return json_sprintf("%016" PRIx64, value);
}

static double since_s(uint64_t ns)
{
    return ns ? (double)(clock_now_ns() - ns) / 1e9 : 0;
}

static uint64_t plan_count(const struct tcad *tcad)
{
    uint64_t count = 0;
    for (const struct session *session = tcad->sessions; session; session = session->next)
        count += session->plan_count;
    return count;
}

static json_t *rails(struct tcad *tcad, bool *ret_degraded)
{
    json_t *list = json_array();
    for (unsigned rail = 1; rail <= tcad->rails->count; rail++) {
        const struct rail *at = rail_at(tcad, rail);
        const struct driver_caps *caps = engine_driver_caps(tcad->engine, rail);
        if (!at->ops)
            continue;
        int error = engine_driver_error(tcad->engine, rail);
        const struct driver *driver = engine_driver(tcad->engine, rail);
        struct driver_door door = {0};
        if (driver && driver->ops->door)
            driver->ops->door(driver, &door);
        if (error)
            *ret_degraded = true;
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:o}", "rail", at->name, "driver",
                      rail_driver(tcad, rail), "plane", at->plane, "state",
                      !caps   ? "absent"
                      : error ? "down"
                              : "up",
                      "detail",
                      error         ? strerror(-error)
                      : caps        ? caps->detail
                      : *at->remedy ? at->off_text
                                    : "",
                      "address", door.address, "unprotected", caps && caps->unprotected, "forged",
                      (json_int_t)door.forged, "cut_off", fabric_cut_off(tcad, rail)));
    }
    return list;
}

/* Peers that are down do not make this node degraded. */
static json_t *cluster_summary(struct tcad *tcad)
{
    size_t connected = 0, reconnecting = 0, down = 0, unknown = 0;
    json_t *names = json_array();
    for (size_t i = 0; i < tcad->cluster->count; i++) {
        struct peer_info info;
        if (peers_info(tcad->peers, tcad->cluster->nodes[i].id, &info) < 0)
            continue;
        connected += strcmp(info.state, "up") == 0;
        unknown += strcmp(info.state, "idle") == 0 || strcmp(info.state, "connecting") == 0;
        reconnecting += strcmp(info.state, "reconnecting") == 0;
        if (strcmp(info.state, "down") != 0)
            continue;
        if (down++ < DOWN_NAMES_MAX)
            json_array_append_new(names, json_string(tcad->cluster->nodes[i].name));
    }
    const char *security = tcad->cluster->count < 2                            ? "none"
                           : tcad->conf->control.security == CONF_SECURITY_TLS ? "tls"
                                                                               : "plain";
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:b, s:s}", "name", tcad->cluster->name,
                     "nodes", (json_int_t)tcad->cluster->count, "connected", (json_int_t)connected,
                     "reconnecting", (json_int_t)reconnecting, "unknown", (json_int_t)unknown,
                     "down", (json_int_t)down, "down_nodes", names, "ready", down == 0, "security",
                     security);
}

/* By which collective operations choose their algorithms. */
static json_t *costs(const struct tcad *tcad)
{
    static const struct {
        const char *to;
        enum seat seat;
    } reaches[REACH_COUNT] = {[REACH_NODE] = {"node", SEAT_CLIENT},
                              [REACH_NODE_DAEMON] = {"node", SEAT_DAEMON},
                              [REACH_SUBCLUSTER] = {"subcluster", SEAT_DAEMON},
                              [REACH_CLUSTER] = {"cluster", SEAT_DAEMON}};
    struct reach_costs costs;
    json_t *list = json_array();
    rails_costs(tcad, &costs);
    for (unsigned reach = 0; reach < REACH_COUNT; reach++) {
        const struct reach_cost *cost = &costs.at[reach];
        if (reach_is_measured(cost))
            json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "to",
                                                  reaches[reach].to, "seat",
                                                  seat_name(reaches[reach].seat), "latency_ns",
                                                  (json_int_t)cost->latency_ns, "overhead_ns",
                                                  (json_int_t)cost->overhead_ns, "small_kib_ns",
                                                  (json_int_t)cost->small_kib_ns, "large_kib_ns",
                                                  (json_int_t)cost->large_kib_ns));
    }
    return list;
}

json_t *inspect_status(struct tcad *tcad, bool *ret_degraded)
{
    json_t *cluster = cluster_summary(tcad), *rail_list = rails(tcad, ret_degraded);
    json_t *engine, *engines = inspect_engines(tcad, &engine);
    json_t *daemon = json_pack(
        "{s:s, s:i, s:f, s:I, s:s, s:o, s:s, s:s, s:s, s:s}", "version", TCAD_VERSION, "pid",
        (int)getpid(), "uptime_s", since_s(tcad->since_ns), "node", (json_int_t)tcad->node, "name",
        tcad->conf->node.name, "incarnation", hex(tcad->incarnation), "state",
        tcad->draining  ? "draining"
        : *ret_degraded ? "degraded"
                        : "ready",
        "user", tcad->user_name, "socket", tcad->conf->control.socket, "runtime_dir",
        tcad->conf->node.runtime_dir);
    *ret_degraded |= tcad->draining; /* it accepts no sessions, which matters to scripts */
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:{s:I, s:I, s:I, s:I}, s:I, s:o, s:o, s:o, s:{s:s, s:s, s:f, s:f, "
        "s:b, s:o}, s:o}",
        "daemon", daemon, "cluster", cluster, "sessions", (json_int_t)tcad->session_count, "groups",
        (json_int_t)groups_count(tcad->groups), "regions", "count",
        (json_int_t)regions_count(tcad->regions), "bytes", (json_int_t)tcad->users.memory_bytes,
        "bytes_quarantined", (json_int_t)tcad->users.quarantined_bytes, "bytes_max",
        (json_int_t)tcad->conf->memory.region_bytes, "plans", (json_int_t)plan_count(tcad),
        "engine", engine, "engines", engines, "rails", rail_list, "calibration", "state",
        tcad->calibrated                                        ? "measured"
        : tcad->conf->rails.calibration == CONF_CALIBRATION_OFF ? "off"
                                                                : "none",
        "path", tcad->conf->rails.calibration_file, "load", tcad->costs.load, "spread",
        tcad->costs.spread, "disturbed", tcad->costs.load > LOAD_BUSY, "costs", costs(tcad),
        "warnings", exposure_warnings(tcad));
}

static void add_encryption(json_t *list, struct tcad *tcad, unsigned rail, enum seat seat,
                           enum encryption encryption, unsigned connections)
{
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:s, s:o}", "rail", rail_name(tcad, rail), "seat",
                        seat_name(seat), "encryption", encryption_name(encryption), "connections",
                        seat == SEAT_CLIENT ? json_integer((json_int_t)connections) : json_null()));
}

/* How what this node puts to another one is protected, by rail and seat. */
static json_t *encryption_to(struct tcad *tcad, uint32_t node)
{
    json_t *list = json_array();
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        const struct link *link = links_find(tcad->links, node, rail);
        const struct pairs_to pairs = pairs_to_node(tcad, node, rail);
        if (link && node != tcad->node)
            add_encryption(list, tcad, rail, SEAT_DAEMON, link_encryption(link), 0);
        if (pairs.encrypted > 0)
            add_encryption(list, tcad, rail, SEAT_CLIENT, ENCRYPTION_TLS, pairs.encrypted);
        if (pairs.plain > 0)
            add_encryption(list, tcad, rail, SEAT_CLIENT, ENCRYPTION_NONE, pairs.plain);
    }
    return list;
}

static json_t *inspect_node(struct tcad *tcad, const struct cluster_node *node)
{
    struct config_address address = {.port = node->port};
    char text[CONFIG_ADDRESS_TEXT_MAX];
    struct peer_info info;
    if (peers_info(tcad->peers, node->id, &info) < 0)
        return NULL;
    snprintf(address.host, sizeof(address.host), "%s", node->address);
    config_address_format(&address, text);
    json_t *rail_list = json_array();
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++)
        if (links_exists(tcad->links, node->id, rail))
            json_array_append_new(rail_list, json_string(rail_name(tcad, rail)));
    return json_pack(
        "{s:I, s:s, s:s, s:s, s:s, s:o, s:f, s:s, s:o, s:I, s:I, s:o, s:o, s:s, s:I, s:s, s:s}",
        "id", (json_int_t)node->id, "name", node->name, "address", text, "subcluster",
        node->subcluster, "state", info.state, "since_s",
        info.since_ns ? json_real(since_s(info.since_ns)) : json_null(), "rtt_us",
        (double)info.rtt_ns / 1e3, "daemon_version", info.version, "incarnation",
        hex(info.incarnation), "sent_bytes", (json_int_t)info.sent_bytes, "received_bytes",
        (json_int_t)info.received_bytes, "rails", rail_list, "encryption",
        encryption_to(tcad, node->id), "last_error", info.last_error, "reconnects",
        (json_int_t)info.reconnects, "last_reconnect", info.last_loss, "cluster_file",
        info.cluster_digest == 0                       ? "unknown"
        : info.cluster_digest == tcad->cluster->digest ? "same"
                                                       : "different");
}

static void add_node(json_t *list, struct tcad *tcad, const struct cluster_node *node)
{
    json_t *row = inspect_node(tcad, node);
    if (row)
        json_array_append_new(list, row);
}

json_t *inspect_nodes(struct tcad *tcad, const char *names, char *text, size_t text_bytes)
{
    struct hostlist only = {0};
    struct hostlist_problem problem = {0};
    json_t *list = json_array();
    const int r = *names ? hostlist_expand(names, HOSTLIST_NAMES_MAX, &only, &problem) : 0;
    text[0] = '\0';
    if (r < 0)
        snprintf(text, text_bytes, "\"%.64s\", character %zu: %.128s", names, problem.position + 1,
                 r == -ENOMEM ? "out of memory" : problem.text);
    for (size_t i = 0; i < only.count && !text[0]; i++) {
        const struct cluster_node *node = admin_node(tcad, only.names[i]);
        if (node)
            add_node(list, tcad, node);
        else
            snprintf(text, text_bytes, "the cluster file has no node \"%.64s\"", only.names[i]);
    }
    for (size_t i = 0; i < tcad->cluster->count && !*names; i++)
        add_node(list, tcad, &tcad->cluster->nodes[i]);
    hostlist_deinit(&only);
    return json_pack("{s:o}", "nodes", list);
}
