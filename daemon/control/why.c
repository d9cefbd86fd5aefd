/*
 * tcactl why: what keeps this node from another one. Asks the node, as ping does, and then tells
 * what daemon/peers/ and daemon/rails/ know of it, in the order of a connection: name, addresses,
 * key, version, cluster file, rails. The first of these that is wrong is the problem.
 */
#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/admin.h"
#include "daemon/engine/engine.h"
#include "daemon/peers/peer.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/tcad.h"
#include "proto/limits.h"
#include "proto/wait.h"

enum { TEXT_BYTES = 512 };

struct why {
    struct tcad *tcad;
    const struct cluster_node *node;
    struct peer_info info;
    struct peer_reach reach;
    bool tls, is_up;
    unsigned rails_up;
    bool degraded;
    char problem[TEXT_BYTES], remedy[TEXT_BYTES]; /* "": none found so far */
};

/* The first one counts. */
__attribute__((format(printf, 2, 3))) static void say(char text[TEXT_BYTES], const char *format,
                                                      ...)
{
    va_list arguments;
    if (text[0])
        return;
    va_start(arguments, format);
    vsnprintf(text, TEXT_BYTES, format, arguments);
    va_end(arguments);
}

static json_t *until(uint64_t ns)
{
    const uint64_t now_ns = clock_now_ns();
    return ns == 0 ? json_null() : json_real(ns > now_ns ? (double)(ns - now_ns) / 1e9 : 0);
}

static const char *result_text(int result)
{
    return result == 1              ? "connected"
           : result == 0            ? "not tried"
           : result == -EINPROGRESS ? "no answer"
           : result == -EACCES      ? "another key"
                                    : strerrordesc_np(-result);
}

static json_t *addresses(const struct why *why)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < why->reach.count; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "address", why->reach.addresses[i].text,
                                        "result", result_text(why->reach.addresses[i].result)));
    return list;
}

/* ---- rails ---- */

static bool is_calibrated(const struct tcad *tcad, unsigned rail)
{
    const struct cost_rail *costs = &tcad->costs.rails[rail];
    return costs->at[SEAT_CLIENT].valid || costs->at[SEAT_DAEMON].valid;
}

/* The state of a rail to the node, and why. */
static const char *rail_state(const struct why *why, unsigned rail, char text[static TEXT_BYTES])
{
    struct tcad *tcad = why->tcad;
    const struct rail *at = rail_at(tcad, rail);
    const struct link *link = links_find(tcad->links, why->node->id, rail);
    const int error = engine_driver_error(tcad->engine, rail);
    if (!at->open) {
        snprintf(text, TEXT_BYTES, "%s%s%s", at->off_text, *at->remedy ? "; " : "", at->remedy);
        return "off";
    }
    if (error) {
        snprintf(text, TEXT_BYTES, "here: %s", strerrordesc_np(-error));
        return "down";
    }
    if (!why->is_up) {
        snprintf(text, TEXT_BYTES, "the node is not connected");
        return "unknown";
    }
    if (!link) {
        snprintf(text, TEXT_BYTES, "%s has no rail of driver %s and plane \"%s\"", why->node->name,
                 rail_driver(tcad, rail), at->plane);
        return "absent";
    }
    if (!fabric_reaches(tcad, rail, why->node->id)) {
        snprintf(text, TEXT_BYTES, "no cable leads there");
        return "cut off";
    }
    if (link->comeback.losses > 0 && !link->comeback.proved &&
        link->comeback.lost_ns + COMEBACK_FORGET_NS > clock_now_ns()) {
        snprintf(text, TEXT_BYTES,
                 "lost %u time%s, last %.0f s ago; plans return when it has stayed for "
                 "rails.return_after",
                 link->comeback.losses, link->comeback.losses == 1 ? "" : "s",
                 (double)(clock_now_ns() - link->comeback.lost_ns) / 1e9);
        return "lost";
    }
    return "up";
}

static json_t *rails(struct why *why)
{
    struct tcad *tcad = why->tcad;
    json_t *list = json_array();
    for (unsigned rail = 1; rail <= tcad->rails->count; rail++) {
        const struct rail *at = rail_at(tcad, rail);
        char text[TEXT_BYTES] = "";
        if (!at->ops || (!at->open && !*at->remedy) ||
            (at->open && links_why_not(tcad, rail, why->node->id)))
            continue;
        const char *state = rail_state(why, rail, text);
        const bool up = strcmp(state, "up") == 0, calibrated = is_calibrated(tcad, rail);
        why->rails_up += up;
        why->degraded |= why->is_up && !up && at->open;
        if (up && !calibrated)
            snprintf(text, sizeof(text), "not calibrated");
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b}", "rail", at->name, "state",
                                              state, "why", text, "calibrated", calibrated));
    }
    return list;
}

/* ---- the answer ---- */

static void judge_name(struct why *why)
{
    say(why->problem, "%s does not resolve on this node: %s", why->node->address,
        gai_strerror(why->reach.name_error));
    say(why->remedy,
        "Make \"getent hosts %s\" work on this node, or write a numeric address=... for %s into "
        "the cluster file and run tcactl reload.",
        why->node->address, why->node->name);
}

/* No connection: what the addresses have said, of which one that refuses is nearest. */
static void judge_dial(struct why *why)
{
    bool refused = false, silent = false;
    for (unsigned i = 0; i < why->reach.count; i++) {
        refused |= why->reach.addresses[i].result == -ECONNREFUSED;
        silent |= why->reach.addresses[i].result == -EINPROGRESS ||
                  why->reach.addresses[i].result == -ETIMEDOUT;
    }
    say(why->problem, "no connection to %s: %s", why->node->name,
        *why->info.last_error ? why->info.last_error : "no answer");
    if (why->reach.status == -ENOKEY)
        say(why->remedy, "Give this node the cluster key (control.key_file) and restart its tcad.");
    else if (refused)
        say(why->remedy,
            "Start tcad on %s (systemctl start tcad), and check there that it listens on port "
            "%u.",
            why->node->name, why->node->port);
    else if (silent)
        say(why->remedy, "Check that %s is on, and that firewalls let TCP and UDP of port %u pass.",
            why->node->name, why->node->port);
    else
        say(why->remedy,
            "Check the route from this node to %s (ip route get), and its address in the "
            "cluster file.",
            why->node->name);
}

/* The node answers, but the daemons do not agree. */
static void judge_greeting(struct why *why)
{
    const char *name = why->node->name;
    say(why->problem, "%s",
        *why->info.last_error ? why->info.last_error : "its daemon does not answer");
    switch (why->reach.status) {
    case -EACCES:
        say(why->remedy,
            "Copy the same key file to both nodes (control.key_file) and restart the tcad "
            "whose key was wrong.");
        break;
    case -EPROTONOSUPPORT:
        say(why->remedy, "Install the same release of tcad on this node and on %s.", name);
        break;
    case -EINVAL:
    case -ENOENT:
    case -EEXIST:
        say(why->remedy,
            "Give this node and %s the same cluster file, and run tcactl reload on both.", name);
        break;
    default:
        say(why->remedy, "Look at the journal of tcad on %s (journalctl -u tcad).", name);
    }
}

static void judge_connection(struct why *why)
{
    if (why->is_up)
        return;
    switch (why->reach.step) {
    case PEER_STEP_NONE:
    case PEER_STEP_NAME:
        if (why->reach.name_error)
            judge_name(why);
        else if (*why->info.last_error)
            judge_dial(why);
        say(why->problem, "the name server has not answered for %s", why->node->address);
        say(why->remedy, "Check the name servers of this node (resolvectl query %s).",
            why->node->address);
        return;
    case PEER_STEP_DIAL:
        judge_dial(why);
        return;
    case PEER_STEP_SECURE:
    case PEER_STEP_GREET:
        judge_greeting(why);
        return;
    case PEER_STEP_UP:
        say(why->problem, "%s", why->info.last_error);
        say(why->remedy,
            "Start tcad on %s (systemctl start tcad), or look there why it ended "
            "(journalctl -u tcad).",
            why->node->name);
    }
}

static const char *cluster_file(const struct why *why)
{
    return why->info.cluster_digest == 0                            ? "unknown"
           : why->info.cluster_digest == why->tcad->cluster->digest ? "same"
                                                                    : "different";
}

static const char *key(const struct why *why)
{
    return !why->tls                                                             ? "none"
           : why->is_up                                                          ? "same"
           : why->reach.step == PEER_STEP_SECURE && why->reach.status == -EACCES ? "different"
           : why->reach.step == PEER_STEP_GREET                                  ? "same"
                                                                                 : "unknown";
}

static void judge_rest(struct why *why, const json_t *rail_list)
{
    const json_t *rail;
    size_t i;
    if (strcmp(cluster_file(why), "different") == 0) {
        why->degraded = true;
        say(why->problem, "%s has another cluster file than this node", why->node->name);
        say(why->remedy, "Give all nodes the same cluster file, and run tcactl reload on each.");
    }
    if (why->rails_up == 0) {
        say(why->problem, "no rail leads to %s", why->node->name);
        say(why->remedy,
            "Enable a rail of the same driver on both nodes (rails.enable), as the reasons "
            "above say.");
    }
    json_array_foreach(rail_list, i, rail)
    {
        const char *name = json_string_value(json_object_get(rail, "rail")),
                   *state = json_string_value(json_object_get(rail, "state"));
        if (strcmp(state, "up") != 0 && strcmp(state, "off") != 0) {
            say(why->problem, "rail %s is %s: %s", name, state,
                json_string_value(json_object_get(rail, "why")));
            say(why->remedy,
                "Data takes the other rails meanwhile; check the device of rail %s on both "
                "nodes.",
                name);
        } else if (strcmp(state, "up") == 0 && !json_is_true(json_object_get(rail, "calibrated"))) {
            say(why->remedy, "Rail %s was never calibrated: run tcactl calibrate on a quiet node.",
                name);
        }
    }
}

static void answer(struct tcad *tcad, struct admin_reply *reply, const struct cluster_node *node)
{
    struct why why = {
        .tcad = tcad, .node = node, .tls = tcad->conf->control.security == CONF_SECURITY_TLS};
    peers_info(tcad->peers, node->id, &why.info);
    peers_reach(tcad->peers, node->id, &why.reach);
    why.is_up = strcmp(why.info.state, "up") == 0;
    judge_connection(&why);
    json_t *rail_list = rails(&why);
    if (why.is_up)
        judge_rest(&why, rail_list);
    if (!why.problem[0] && !why.remedy[0])
        say(why.remedy, "Nothing to do: %s answers.", node->name);
    json_t *there = why.reach.protocol ? json_integer(why.reach.protocol) : json_null();
    json_t *document = json_pack(
        "{s:I, s:s, s:s, s:f, s:f, s:{s:s, s:o, s:o}, s:o, s:b, s:i, s:o, s:s, s:{s:i, s:o, s:s, "
        "s:s}, s:s, s:o, s:s, s:s}",
        "node", (json_int_t)node->id, "name", node->name, "state", why.info.state, "since_s",
        (double)(clock_now_ns() - why.info.since_ns) / 1e9, "rtt_us", (double)why.info.rtt_ns / 1e3,
        "host", "name", node->address, "error",
        why.reach.name_error ? json_string(gai_strerror(why.reach.name_error)) : json_null(),
        "next_s", why.reach.name_error ? until(why.reach.name_next_ns) : json_null(), "addresses",
        addresses(&why), "called", why.reach.called, "port", (int)node->port, "next_s",
        until(why.reach.next_ns), "key", key(&why), "protocol", "here", PROTO_VERSION, "there",
        there, "version_here", TCAD_VERSION, "version_there", why.info.version, "cluster_file",
        cluster_file(&why), "rails", rail_list, "problem", why.problem, "remedy", why.remedy);
    admin_reply_document(reply, document, why.degraded || !why.is_up);
}

struct asking {
    struct tcad *tcad;
    struct admin_reply *reply;
    uint32_t node;
};

static void replied(void *context, int status, const Tca__Message *message, const char *text)
{
    struct asking *asking = context;
    const struct cluster_node *node = cluster_by_id(asking->tcad->cluster, asking->node);
    if (status == -ECANCELED || !node)
        admin_reply_fail(asking->reply, status < 0 ? status : -ENOENT, "%s", text);
    else
        answer(asking->tcad, asking->reply, node);
    free(asking);
}

void admin_why(struct tcad *tcad, struct admin_reply *reply, const char *argument)
{
    const struct cluster_node *node = admin_node(tcad, argument);
    struct asking *asking = node ? malloc(sizeof(*asking)) : NULL;
    if (!node || node->id == tcad->node) {
        admin_reply_fail(reply, -EINVAL, "node \"%s\": %s", argument,
                         node ? "this is the node itself: see tcactl ready"
                              : "the cluster file has no such node");
        free(asking);
        return;
    }
    if (!asking) {
        admin_reply_fail(reply, -ENOMEM, "out of memory for the request");
        return;
    }
    *asking = (struct asking){tcad, reply, node->id};
    Tca__PeerPing request = TCA__PEER_PING__INIT;
    const Tca__Message message = MESSAGE_OF(PEER_PING, peer_ping, &request);
    peers_request(tcad->peers, node->id, &message, tcad->conf->control.request_timeout_ns, replied,
                  asking);
}
