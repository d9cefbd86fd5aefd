/* tcactl ping: the round-trip time to another daemon, or to all of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/sort.h"
#include "daemon/control/admin.h"
#include "daemon/peers/peer.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

enum {
    PINGS_MAX = 1000,
    PINGS_DEFAULT = 5,
    AT_ONCE_MAX = 64, /* nodes, as in ask_all.c */
};

/* Of all nodes. */
struct pings {
    struct tcad *tcad;
    struct admin_reply *reply;
    uint32_t *nodes; /* of the cluster file, which can be reloaded meanwhile */
    size_t count, next;
    unsigned open; /* and one while more are begun */
    unsigned wanted;
    bool lost; /* some */
    json_t *rows;
};

struct ping {
    struct tcad *tcad;
    struct admin_reply *reply; /* NULL: of `pings` */
    struct pings *pings;
    uint32_t node;
    char name[64];
    unsigned wanted, asked, lost;
    unsigned count;
    uint64_t asked_ns;
    int error; /* of the last one lost */
    char why[256];
    int64_t rtt_ns[PINGS_MAX];
};

static json_t *describe(const struct ping *ping)
{
    json_t *rtt = ping->count == 0
                      ? json_null()
                      : json_pack("{s:f, s:f, s:f}", "min", (double)ping->rtt_ns[0] / 1e3, "median",
                                  (double)ping->rtt_ns[ping->count / 2] / 1e3, "max",
                                  (double)ping->rtt_ns[ping->count - 1] / 1e3);
    return json_pack("{s:I, s:s, s:I, s:I, s:o, s:s}", "node", (json_int_t)ping->node, "name",
                     ping->name, "count", (json_int_t)ping->asked, "lost", (json_int_t)ping->lost,
                     "rtt_us", rtt, "error", ping->why);
}

static void go_on(struct pings *pings);

static void finish(struct ping *ping)
{
    struct pings *pings = ping->pings;
    sort_ns(ping->rtt_ns, ping->count);
    if (pings) {
        json_array_append_new(pings->rows, describe(ping));
        pings->lost |= ping->lost > 0;
        pings->open--;
        free(ping);
        go_on(pings);
        return;
    }
    if (ping->count == 0)
        admin_reply_fail(ping->reply, ping->error, "%s", ping->why);
    else
        admin_reply_document(ping->reply, describe(ping), ping->lost > 0);
    free(ping);
}

static void ask(struct ping *ping);

static void replied(void *context, int status, const Tca__Message *reply, const char *text)
{
    struct ping *ping = context;
    if (status < 0) {
        ping->lost++;
        ping->error = status;
        snprintf(ping->why, sizeof(ping->why), "%s", text);
    } else {
        ping->rtt_ns[ping->count++] = (int64_t)(clock_now_ns() - ping->asked_ns);
    }
    if (ping->asked < ping->wanted && status >= 0)
        ask(ping);
    else
        finish(ping);
}

static void ask(struct ping *ping)
{
    Tca__PeerPing request = TCA__PEER_PING__INIT;
    request.sequence = ++ping->asked;
    const Tca__Message message = MESSAGE_OF(PEER_PING, peer_ping, &request);
    ping->asked_ns = clock_now_ns();
    peers_request(ping->tcad->peers, ping->node, &message,
                  ping->tcad->conf->control.request_timeout_ns, replied, ping);
}

const struct cluster_node *admin_node(const struct tcad *tcad, const char *text)
{
    const struct cluster_node *node = cluster_by_name(tcad->cluster, text);
    char *end;
    const unsigned long id = strtoul(text, &end, 10);
    return node || *end || end == text || id >= CLUSTER_NODES_MAX
               ? node
               : cluster_by_id(tcad->cluster, (uint32_t)id);
}

static struct ping *ping_new(struct tcad *tcad, const struct cluster_node *node, unsigned count)
{
    struct ping *ping = calloc(1, sizeof(*ping));
    if (!ping)
        return NULL;
    ping->tcad = tcad;
    ping->node = node->id;
    ping->wanted = count;
    snprintf(ping->name, sizeof(ping->name), "%s", node->name);
    return ping;
}

/* ---- all nodes ---- */

static void begin_one(struct pings *pings, uint32_t id)
{
    const struct cluster_node *node = cluster_by_id(pings->tcad->cluster, id);
    struct ping *ping =
        node && id != pings->tcad->node ? ping_new(pings->tcad, node, pings->wanted) : NULL;
    if (!ping)
        return; /* removed meanwhile, or no memory for it: it is not in the list */
    ping->pings = pings;
    pings->open++;
    ask(ping);
}

static void go_on(struct pings *pings)
{
    pings->open++; /* answers may come at once */
    while (pings->next < pings->count && pings->open <= AT_ONCE_MAX)
        begin_one(pings, pings->nodes[pings->next++]);
    if (--pings->open > 0 || pings->next < pings->count)
        return;
    admin_reply_document(pings->reply, json_pack("{s:o}", "pings", pings->rows), pings->lost);
    free(pings->nodes);
    free(pings);
}

static void ping_all(struct tcad *tcad, struct admin_reply *reply, unsigned count)
{
    struct pings *pings = calloc(1, sizeof(*pings));
    uint32_t *nodes = calloc(tcad->cluster->count + 1, sizeof(*nodes));
    if (!pings || !nodes) {
        free(pings);
        free(nodes);
        admin_reply_fail(reply, -ENOMEM, "out of memory for the requests to all nodes");
        return;
    }
    for (size_t i = 0; i < tcad->cluster->count; i++)
        nodes[i] = tcad->cluster->nodes[i].id;
    *pings = (struct pings){.tcad = tcad,
                            .reply = reply,
                            .nodes = nodes,
                            .count = tcad->cluster->count,
                            .wanted = count,
                            .rows = json_array()};
    go_on(pings);
}

/* argument: "NODE" or "NODE COUNT"; NODE is a name or an id, or "*": all. */
void admin_ping(struct tcad *tcad, struct admin_reply *reply, const char *argument)
{
    char name[64] = "";
    unsigned count = PINGS_DEFAULT;
    if (sscanf(argument, "%63s %u", name, &count) < 1 || count == 0 || count > PINGS_MAX) {
        admin_reply_fail(reply, -EINVAL, "ping \"%s\": NODE, or NODE and a count of 1 to %d",
                         argument, PINGS_MAX);
        return;
    }
    if (strcmp(name, "*") == 0) {
        ping_all(tcad, reply, count);
        return;
    }
    const struct cluster_node *node = admin_node(tcad, name);
    struct ping *ping = node ? ping_new(tcad, node, count) : NULL;
    if (!ping) {
        admin_reply_fail(reply, node ? -ENOMEM : -EINVAL, "node \"%s\": %s", name,
                         node ? "out of memory" : "the cluster file has no such node");
        return;
    }
    ping->reply = reply;
    ask(ping);
}
