/* tcactl status --strict: asks every node, also those that nothing has needed so far. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/control/admin.h"
#include "daemon/control/inspect.h"
#include "daemon/peers/peer.h"
#include "daemon/tcad.h"

enum { AT_ONCE_MAX = 64 }; /* so that a large cluster costs few connections at a time */

struct round {
    struct tcad *tcad;
    struct admin_reply *reply;
    size_t count, next;
    unsigned open;   /* requests without an answer, and one while they are sent */
    uint32_t *nodes; /* of the cluster file, which can be reloaded meanwhile */
    bool *silent;
};

struct question {
    struct round *round;
    size_t at;
};

static void free_round(struct round *round)
{
    free(round->nodes);
    free(round->silent);
    free(round);
}

static void finish(struct round *round)
{
    struct tcad *tcad = round->tcad;
    bool degraded = false;
    json_t *document = inspect_status(tcad, &degraded), *names = json_array();
    json_t *cluster = json_object_get(document, "cluster");
    for (size_t i = 0; i < round->count; i++) {
        const struct cluster_node *node = cluster_by_id(tcad->cluster, round->nodes[i]);
        if (node && round->silent[i])
            json_array_append_new(names, json_string(node->name));
    }
    if (json_array_size(names) > 0)
        json_object_set_new(cluster, "ready", json_false());
    json_object_set_new(cluster, "silent_nodes", names);
    admin_reply_document(round->reply, document, degraded);
    free_round(round);
}

static void go_on(struct round *round);

static void replied(void *context, int status, const Tca__Message *reply, const char *text)
{
    struct question *question = context;
    struct round *round = question->round;
    (void)reply;
    (void)text; /* tcactl nodes shows it */
    round->silent[question->at] = status < 0;
    free(question);
    round->open--;
    go_on(round);
}

static void ask(struct round *round, size_t at)
{
    const uint32_t node = round->nodes[at];
    Tca__PeerPing request = TCA__PEER_PING__INIT;
    const Tca__Message message = MESSAGE_OF(PEER_PING, peer_ping, &request);
    if (node == round->tcad->node)
        return;
    struct question *question = malloc(sizeof(*question));
    if (!question) {
        round->silent[at] = true;
        return;
    }
    *question = (struct question){round, at};
    round->open++;
    peers_request(round->tcad->peers, node, &message, round->tcad->conf->control.request_timeout_ns,
                  replied, question);
}

static void go_on(struct round *round)
{
    round->open++; /* answers may come at once */
    while (round->next < round->count && round->open <= AT_ONCE_MAX)
        ask(round, round->next++);
    if (--round->open == 0 && round->next == round->count)
        finish(round);
}

void admin_ask_all(struct tcad *tcad, struct admin_reply *reply)
{
    const struct cluster *cluster = tcad->cluster;
    struct round *round = calloc(1, sizeof(*round));
    if (round) {
        *round = (struct round){.tcad = tcad,
                                .reply = reply,
                                .count = cluster->count,
                                .nodes = calloc(cluster->count + 1, sizeof(*round->nodes)),
                                .silent = calloc(cluster->count + 1, sizeof(*round->silent))};
    }
    if (!round || !round->nodes || !round->silent) {
        if (round)
            free_round(round);
        admin_reply_fail(reply, -ENOMEM, "out of memory for the requests to %zu nodes",
                         cluster->count);
        return;
    }
    for (size_t i = 0; i < cluster->count; i++)
        round->nodes[i] = cluster->nodes[i].id;
    go_on(round);
}
