/* Decides who may be a peer, and over which connection. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"
#include "proto/heartbeat.h"

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
                 "%s:%u is the address of node %s, not of %s: the cluster files differ",
                 expected->address, expected->port, node->name, expected->name);
        return -EINVAL;
    }
    return 0;
}

static int check_rails(const Tca__PeerHello *theirs, char *text, size_t text_bytes)
{
    const size_t key = theirs->heartbeat_key.len;
    bool fine = theirs->incarnation != 0 && theirs->n_rails <= RAILS_MAX &&
                theirs->heartbeat_port <= UINT16_MAX && (key == 0 || key == HEARTBEAT_KEY_BYTES) &&
                theirs->link_key.len == LINK_KEY_BYTES &&
                (theirs->resume_key.len == 0 || theirs->resume_key.len == LINK_KEY_BYTES);
    for (size_t i = 0; i < theirs->n_rails && fine; i++)
        fine = theirs->rails[i]->address.len <= ADDRESS_MAX_BYTES &&
               strlen(theirs->rails[i]->driver) < RAIL_NAME_MAX_BYTES &&
               strlen(theirs->rails[i]->name) < RAIL_NAME_MAX_BYTES &&
               strlen(theirs->rails[i]->plane) < RAIL_NAME_MAX_BYTES;
    if (!fine)
        snprintf(text, text_bytes,
                 "a hello without incarnation, or with rails, a heartbeat or a link beyond the "
                 "limits");
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

/* ---- resuming ---- */

static bool is_key(const uint8_t own[static LINK_KEY_BYTES], const ProtobufCBinaryData *said)
{
    uint8_t differs = said->len != LINK_KEY_BYTES;
    /* Compares all bytes, so that the time taken reveals nothing. */
    for (size_t i = 0; i < LINK_KEY_BYTES && said->len == LINK_KEY_BYTES; i++)
        differs |= own[i] ^ said->data[i];
    return !differs;
}

/* Whether this side has given it in one of its last greetings. */
static bool was_given(const struct peer *peer, const ProtobufCBinaryData *said)
{
    for (unsigned i = 0; i < peer->given_count; i++)
        if (is_key(peer->given[i], said))
            return true;
    return false;
}

/* Whether the other side need not have begun it. */
static bool is_young(const struct peer_link *link)
{
    return link->received == 0 && link->outbox.acknowledged == 0;
}

static int refuse_resume(struct peers *peers, int error, const char *why, char *text,
                         size_t text_bytes)
{
    peers->refused_resumes++;
    if (why != text)
        snprintf(text, text_bytes, "%s", why);
    return error;
}

/* Whether the peer has begun a link that this side has offered, which is then its first half. */
static bool begins_half(struct connection *connection, struct peer *peer,
                        const ProtobufCBinaryData *said)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct half_link half = peer->halves[i];
        if (half.incarnation != connection->incarnation || !is_key(half.own_key, said))
            continue;
        peer->halves[i] = peer->halves[0];
        peer->halves[0] = half;
        return true;
    }
    return false;
}

/* The other side has ended the link, so it ends here, too. An outbound connection stays. */
static void end_link(struct connection *connection, struct peer *peer, const char *why)
{
    if (peer->connection == connection)
        peer->connection = NULL;
    connection->peer = NULL;
    connection->resumes = false;
    peer_move(peer, PEER_DOWN, -ECONNRESET, why);
    connection->peer = peer;
}

/* Makes this the peer's connection, and drops any that the end of the old one has started. */
static void take_place(struct connection *connection, struct peer *peer)
{
    peer->connection = connection_free(peer->connection);
    peer_dial_end(peer);
    peer->connection = connection;
}

static const char restarted[] = "its daemon has restarted";

/* The hello has arrived on an outbound connection. */
static void choose_ours(struct connection *connection, struct peer *peer)
{
    if (!peer_has_link(peer)) {
        connection->adopts &= connection->incarnation == peer->halves[0].incarnation;
        return;
    }
    connection->resumes = connection->incarnation == peer->incarnation;
    if (!connection->resumes) {
        end_link(connection, peer, restarted);
        take_place(connection, peer);
    }
}

/*
 * An inbound connection from a peer that already has a connection, or to which one is being made.
 *
 * A daemon makes a second connection only after its first has ended. So an existing connection that
 * is up is dropped if the other side has another incarnation, if it made both, or if it has the
 * lower id, because then the new one cannot have crossed ours. Otherwise the two may have crossed:
 * ours is tested with a ping, which ends it at once if it is dead, and the next attempt replaces
 * it, because only the first attempt can have crossed it.
 *
 * Of two that cross before either is up, the lower node's stays, provided it has reached the
 * greeting. If they are cut, each side may have begun, or expect, the link of another one, over
 * which nothing has arrived. Then the higher node takes that of the lower one, and who has not
 * begun any that of the other side; until it learns which, its attempts are refused with -EBUSY.
 */
int greeting_choose(struct connection *connection, struct peer *peer, const Tca__PeerHello *hello,
                    char *text, size_t text_bytes)
{
    struct peers *peers = peer->peers;
    const bool linked = peer_has_link(peer), lower = peers->tcad->node < peer->node,
               same = connection->incarnation == peer->incarnation,
               resumes = linked && same && hello->resume_key.len > 0;
    struct connection *former = peer->connection;

    if (connection->ours) {
        choose_ours(connection, peer);
        return 0;
    }
    if (resumes && !is_key(peer->link.own_key, &hello->resume_key)) {
        const bool other = is_young(&peer->link) && was_given(peer, &hello->resume_key);
        if (!other || lower || !begins_half(connection, peer, &hello->resume_key))
            return refuse_resume(peers, other ? -EBUSY : -EACCES,
                                 "it does not have the key of the link to resume", text,
                                 text_bytes);
        link_exchange(peer);
    }
    if (peer->state == PEER_UP && same && former->ours && lower && !former->contested) {
        former->contested = true;
        peer_ping(peer, clock_now_ns());
        snprintf(text, text_bytes, "it has a connection to this node already, which it is testing");
        return -EBUSY;
    }
    if (former && former->ours && lower &&
        (peer->state == PEER_GREETING || (peer->state == PEER_RESUMING && resumes))) {
        snprintf(text, text_bytes, "it is connecting to this node already");
        return -EALREADY;
    }
    if (resumes && peer->state == PEER_UP)
        peer_move(peer, PEER_LOST, -ECONNRESET, "it has connected again");
    else if (linked && !resumes)
        end_link(connection, peer,
                 same ? "it has given up the link to this node and connected anew" : restarted);
    connection->resumes = resumes;
    connection->adopts = !peer_has_link(peer) && begins_half(connection, peer, &hello->resume_key);
    take_place(connection, peer);
    return 0;
}

/* The link of an earlier greeting, on which this side has sent nothing. */
static int adoption_welcomed(struct connection *connection, const Tca__PeerWelcome *welcome,
                             char *text, size_t text_bytes)
{
    struct peer *peer = connection->peer;

    if (connection->ours && welcome->resume_key.len == 0) {
        connection->adopts = false; /* it does not have the link: the connection begins another */
        return 0;
    }
    if (!is_key(peer->halves[0].own_key, &welcome->resume_key))
        return refuse_resume(peer->peers, -EACCES, "it does not have the key of the link to resume",
                             text, text_bytes);
    if (welcome->received != 0) {
        snprintf(text, text_bytes, "it acknowledges %llu messages, of 0 that were sent",
                 (unsigned long long)welcome->received);
        return refuse_resume(peer->peers, -EPROTO, text, text, text_bytes);
    }
    return 0;
}

int greeting_welcomed(struct connection *connection, const Tca__PeerWelcome *welcome, char *text,
                      size_t text_bytes)
{
    struct peer *peer = connection->peer;
    struct peers *peers = peer->peers;

    if (connection->adopts)
        return adoption_welcomed(connection, welcome, text, text_bytes);
    if (!connection->resumes && welcome->resume_key.len > 0)
        return refuse_resume(peers, -EPROTO, "it resumes a link that does not exist", text,
                             text_bytes);
    if (!connection->resumes)
        return 0;
    if (welcome->resume_key.len == 0) {
        end_link(connection, peer, "it has given up the link to this node");
        take_place(connection, peer);
        peer_move(peer, PEER_GREETING, 0, NULL);
        return 0;
    }
    if (!is_key(peer->link.own_key, &welcome->resume_key))
        return refuse_resume(peers, -EACCES, "it does not have the key of the link to resume", text,
                             text_bytes);
    if (outbox_acknowledge(&peer->link.outbox, welcome->received) < 0) {
        link_explain(&peer->link.outbox, welcome->received, text, text_bytes);
        return refuse_resume(peers, -EPROTO, text, text, text_bytes);
    }
    return 0;
}
