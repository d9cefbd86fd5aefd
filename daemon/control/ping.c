/* tcactl ping: the round-trip time to another daemon. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/sort.h"
#include "daemon/control/admin.h"
#include "daemon/peers/peer.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

enum { PINGS_MAX = 1000, PINGS_DEFAULT = 5 };

struct ping {
    struct tcad *tcad;
    struct admin_reply *reply;
    uint32_t node;
    char name[64];
    unsigned wanted, asked, lost;
    unsigned count;
    uint64_t asked_ns;
    int error; /* of the last one lost */
    char why[256];
    int64_t rtt_ns[PINGS_MAX];
};

static void finish(struct ping *ping)
{
    if (ping->count == 0) {
        admin_reply_fail(ping->reply, ping->error, "%s", ping->why);
        free(ping);
        return;
    }
    sort_ns(ping->rtt_ns, ping->count);
    admin_reply_document(ping->reply,
                         json_pack("{s:I, s:s, s:I, s:I, s:{s:f, s:f, s:f}}", "node",
                                   (json_int_t)ping->node, "name", ping->name, "count",
                                   (json_int_t)ping->asked, "lost", (json_int_t)ping->lost,
                                   "rtt_us", "min", (double)ping->rtt_ns[0] / 1e3, "median",
                                   (double)ping->rtt_ns[ping->count / 2] / 1e3, "max",
                                   (double)ping->rtt_ns[ping->count - 1] / 1e3),
                         ping->lost > 0);
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

/* argument: "NODE" or "NODE COUNT"; NODE is a name or an id. */
void admin_ping(struct tcad *tcad, struct admin_reply *reply, const char *argument)
{
    char name[64] = "";
    unsigned count = PINGS_DEFAULT;
    if (sscanf(argument, "%63s %u", name, &count) < 1 || count == 0 || count > PINGS_MAX) {
        admin_reply_fail(reply, -EINVAL, "ping \"%s\": NODE, or NODE and a count of 1 to %d",
                         argument, PINGS_MAX);
        return;
    }
    const struct cluster_node *node = admin_node(tcad, name);
    struct ping *ping = node ? calloc(1, sizeof(*ping)) : NULL;
    if (!ping) {
        admin_reply_fail(reply, node ? -ENOMEM : -EINVAL, "node \"%s\": %s", name,
                         node ? "out of memory" : "the cluster file has no such node");
        return;
    }
    ping->tcad = tcad;
    ping->reply = reply;
    ping->node = node->id;
    ping->wanted = count;
    snprintf(ping->name, sizeof(ping->name), "%s", node->name);
    ask(ping);
}
