/* Who may be a peer, and over which connection. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"
#include "proto/heartbeat.h"

enum { RAILS_MAX = 16 };

static int check_place(const struct peers *peers, const Tca__PeerHello *theirs,
                       const struct peer *expected, char *text, size_t text_bytes)
{
    const struct tcad *tcad = peers->tcad;
    const Tca__PeerHello *ours = peers->hello->peer_hello;

    if (strcmp(theirs->cluster, tcad->cluster->name) != 0) {
        snprintf(text, text_bytes,
                 "node %.64s is of cluster \"%.64s\", node %s of \"%s\": the cluster files differ",
                 theirs->node_name, theirs->cluster, ours->node_name, tcad->cluster->name);
        return -EINVAL;
    }
    if (theirs->node == tcad->node) {
        snprintf(text, text_bytes,
                 "node %.64s and node %s both have id %u: give one another node.id",
                 theirs->node_name, ours->node_name, theirs->node);
        return -EEXIST;
    }
    const struct cluster_node *node = cluster_by_id(tcad->cluster, theirs->node);
    if (!node) {
        snprintf(text, text_bytes, "the cluster file of node %s has no node with id %u (%.64s)",
                 ours->node_name, theirs->node, theirs->node_name);
        return -ENOENT;
    }
    if (strcmp(theirs->node_name, node->name) != 0) {
        snprintf(text, text_bytes,
                 "node id %u calls itself %.64s, the cluster file of node %s has it as %s",
                 theirs->node, theirs->node_name, ours->node_name, node->name);
        return -EINVAL;
    }
    if (expected && theirs->node != expected->node) {
        snprintf(text, text_bytes,
                 "at %s:%u answers node %s instead of %s: the cluster files differ",
                 expected->address, expected->port, node->name, expected->name);
        return -EINVAL;
    }
    return 0;
}

static int check_rails(const Tca__PeerHello *theirs, char *text, size_t text_bytes)
{
    const size_t key = theirs->heartbeat_key.len;
    bool fine = theirs->incarnation != 0 && theirs->n_rails <= RAILS_MAX &&
                theirs->heartbeat_port <= UINT16_MAX && (key == 0 || key == HEARTBEAT_KEY_BYTES);
    for (size_t i = 0; i < theirs->n_rails && fine; i++)
        fine = theirs->rails[i]->address.len <= ADDRESS_MAX_BYTES &&
               strlen(theirs->rails[i]->driver) < NAME_MAX_BYTES;
    if (!fine)
        snprintf(text, text_bytes,
                 "a hello without incarnation, or with rails or a heartbeat beyond the limits");
    return fine ? 0 : -EPROTO;
}

int greeting_check(const struct peers *peers, const Tca__PeerHello *theirs,
                   const struct peer *expected, char *text, size_t text_bytes)
{
    const Tca__PeerHello *ours = peers->hello->peer_hello;

    if (theirs->version != ours->version) {
        snprintf(text, text_bytes,
                 "node %.64s speaks protocol version %u (tcad %.32s), node %s version %u (tcad "
                 "%s): both must run the same "
                 "release",
                 theirs->node_name, theirs->version, theirs->daemon_version, ours->node_name,
                 ours->version, ours->daemon_version);
        return -EPROTONOSUPPORT;
    }
    int r = check_place(peers, theirs, expected, text, text_bytes);
    return r < 0 ? r : check_rails(theirs, text, text_bytes);
}

/*
 * An inbound connection from a peer that we have one with, or are making one.
 *
 * A daemon makes a second connection only after the first has died for it. So one that came up goes
 * when the other side has another incarnation or made both; and when the other side has the lower
 * id, for then it cannot be one that crossed ours. Else it might be: ours is tried with a ping,
 * which ends it at once if it is dead.
 *
 * Of two that cross before either is up, the lower node's stays, once it has got as far as
 * greeting.
 */
int greeting_choose(struct connection *connection, struct peer *peer, char *text, size_t text_bytes)
{
    uint32_t self = peer->peers->tcad->node;

    if (connection->ours)
        return 0;
    if (peer->state == PEER_UP) {
        bool anew = connection->incarnation != peer->connection->incarnation;
        if (!anew && peer->connection->ours && self < peer->node) {
            peer_ping(peer, peer_now_ns());
            snprintf(text, text_bytes,
                     "it has a connection to this node already, which it is trying now");
            return -EBUSY;
        }
        peer_move(peer, PEER_DOWN, -ECONNRESET,
                  anew ? "its daemon has restarted" : "it has connected anew");
    }
    if (peer->connection && peer->connection->ours && self < peer->node &&
        peer->state == PEER_GREETING) {
        snprintf(text, text_bytes, "it is connecting to this node already");
        return -EALREADY;
    }
    peer->connection = connection_free(peer->connection);
    peer->resolve = resolve_cancel(peer->resolve);
    return 0;
}
