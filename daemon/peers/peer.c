#include "daemon/peers/peer.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "config/text.h"
#include "daemon/base/log.h"
#include "daemon/base/lookup.h"
#include "daemon/base/remedy.h"
#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"

void peer_clean(char *text)
{
    bool plain = config_text_clean(text, strlen(text));
    for (; *text && !plain; text++)
        if (*text < ' ' || *text >= 0x7f)
            *text = '?';
}

/* ---- the table of peers ---- */

struct peer *peer_find(const struct peers *peers, uint32_t node)
{
    return node < PEER_NODES_MAX ? peers->by_node[node] : NULL;
}

static struct peer *peer_free(struct peer *peer)
{
    connection_free(peer->connection);
    peer_dial_end(peer);
    free(peer->addresses);
    pulse_free(peer->pulse);
    link_end(peer);
    free(peer->name);
    free(peer->address);
    free(peer);
    return NULL;
}

/* Updates its address from the cluster file. 1 (changed), 0 or -ENOMEM. */
static int peer_place(struct peer *peer, const struct cluster_node *node)
{
    if (peer->name && strcmp(peer->name, node->name) == 0 &&
        strcmp(peer->address, node->address) == 0 && peer->port == node->port)
        return 0;
    char *name = strdup(node->name), *address = strdup(node->address);
    if (!name || !address) {
        free(name);
        free(address);
        return -ENOMEM;
    }
    free(peer->name);
    free(peer->address);
    peer->name = name;
    peer->address = address;
    peer->port = node->port;
    return 1;
}

int peer_get(struct peers *peers, uint32_t node, struct peer **ret_peer)
{
    struct peer *peer = peer_find(peers, node);
    if (peer) {
        *ret_peer = peer;
        return 0;
    }
    const struct cluster_node *place = cluster_by_id(peers->tcad->cluster, node);
    if (!place || node >= PEER_NODES_MAX || node == peers->tcad->node)
        return -EINVAL;
    peer = calloc(1, sizeof(*peer));
    if (!peer)
        return -ENOMEM;
    peer->peers = peers;
    peer->node = node;
    peer->since_ns = clock_now_ns();
    peer_request_list_init(&peer->requests);
    if (peer_place(peer, place) < 0) {
        peer_free(peer);
        return -ENOMEM;
    }
    peer->next = peers->first;
    peers->first = peer;
    peers->by_node[node] = peer;
    *ret_peer = peer;
    return 0;
}

/* ---- listening ---- */

/* Without heartbeats in datagrams, only the connections show which nodes are up. */
static void begin_pulses(struct peers *peers, const struct addresses *own)
{
    const struct sockaddr_in6 all = {.sin6_family = AF_INET6,
                                     .sin6_port = htons(peers->tcad->conf->control.listen.port)};
    const struct address *first = &own->list[0];
    int r = -EAFNOSUPPORT;
    if (own->count > 1) /* both families */
        r = pulses_new(peers->tcad->loop, peers->tcad->node, (const struct sockaddr *)&all,
                       sizeof(all), &peers->pulses);
    if (r < 0)
        r = pulses_new(peers->tcad->loop, peers->tcad->node, (const struct sockaddr *)&first->at,
                       first->bytes, &peers->pulses);
    if (r < 0)
        log_warning(NULL,
                    "no heartbeats besides those of the connections: %s (a UDP socket at "
                    "control.listen): a node that is busy for control.heartbeat_timeout counts as "
                    "down",
                    strerrordesc_np(-r));
}

static void listen_failed(const struct peers *peers, const struct address *address, int error,
                          char *text, size_t text_bytes)
{
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
    address_text(address, host, sizeof(host));
    snprintf(text, text_bytes, "cannot listen on %s port %u (control.listen is %s): %s", host,
             peers->tcad->conf->control.listen.port, peers->tcad->conf->control.listen.host,
             strerrordesc_np(-error));
}

/* On all of this node's addresses: peers may reach it by one family only. */
static int listen_here(struct peers *peers, char *text, size_t text_bytes)
{
    const struct addresses *own = peers->tcad->own;
    int r = 0;
    for (unsigned i = 0; i < own->count && r == 0; i++) {
        const struct address *address = &own->list[i];
        r = listener_tcp(peers->tcad->loop, (const struct sockaddr *)&address->at, address->bytes,
                         connection_accepted, peers, &peers->listeners[peers->listener_count]);
        peers->listener_count += r == 0;
        if (r < 0)
            listen_failed(peers, address, r, text, text_bytes);
    }
    if (r == 0)
        begin_pulses(peers, own);
    return r;
}

static void listen_no_more(struct peers *peers)
{
    while (peers->listener_count > 0)
        listener_free(peers->listeners[--peers->listener_count]);
}

/* Loads the key and listens, as far as configured and not done yet. */
static int open_up(struct peers *peers, char *text, size_t text_bytes)
{
    const struct tcad_conf *conf = peers->tcad->conf;

    if (peers->tcad->cluster->count < 2)
        return 0; /* no cluster: there are no peers */
    if (conf->control.security == CONF_SECURITY_TLS && !peers->tls) {
        if (!conf->control.key_file) {
            snprintf(text, text_bytes,
                     "control.key_file is not set: set it, or control.security = plain");
            return -EINVAL;
        }
        int r = tls_new(conf->control.key_file, text, text_bytes, &peers->tls);
        if (r < 0)
            return r;
    }
    if (peers->tcad->own && peers->listener_count == 0)
        return listen_here(peers, text, text_bytes);
    return 0;
}

void peers_open(struct peers *peers)
{
    char text[PEER_TEXT_MAX];
    if (!peers->leaving && open_up(peers, text, sizeof(text)) < 0)
        log_error(NULL, "other nodes cannot connect: %s", text);
}

int peers_secret(const struct peers *peers, const char *purpose, uint64_t ret_secret[2])
{
    ret_secret[0] = ret_secret[1] = 0;
    return peers->tls ? tls_secret(peers->tls, purpose, ret_secret) : 0;
}

/* ---- lifetime ---- */

/* A deep copy of a hello. */
static Tca__Message *copy_hello(const Tca__PeerHello *hello)
{
    const Tca__Message message = MESSAGE_OF(PEER_HELLO, peer_hello, (Tca__PeerHello *)hello);
    size_t bytes = tca__message__get_packed_size(&message);
    uint8_t *packed = malloc(bytes);
    if (!packed)
        return NULL;
    tca__message__pack(&message, packed);
    Tca__Message *copy = tca__message__unpack(NULL, bytes, packed);
    free(packed);
    return copy;
}

int peers_new(struct tcad *tcad, const Tca__PeerHello *hello, const struct peers_events *events,
              char *text, size_t text_bytes, struct peers **ret_peers)
{
    struct peers *peers = calloc(1, sizeof(*peers));
    if (!peers) {
        snprintf(text, text_bytes, "out of memory");
        return -ENOMEM;
    }
    peers->tcad = tcad;
    peers->events = *events;
    peers->ungreeted_last = &peers->ungreeted;
    peer_request_list_init(&peers->local);
    /* A late reply to a request of this daemon's predecessor must not match one of ours. */
    if (getrandom(&peers->last_tag, sizeof(peers->last_tag), GRND_NONBLOCK) < 0)
        peers->last_tag = (uint32_t)clock_now_ns();

    *text = '\0';
    int r = -ENOMEM;
    peers->by_node =
        calloc(PEER_NODES_MAX, sizeof(*peers->by_node)); /* only pages with peers are touched */
    peers->hello = copy_hello(hello);
    if (peers->by_node && peers->hello)
        r = loop_timer_new(tcad->loop, peers_watch, peers, &peers->tick);
    if (r == 0)
        r = deadlines_init(&peers->deadlines, tcad->loop);
    if (r == 0)
        r = loop_timer_new(tcad->loop, peer_requests_deliver_local, peers, &peers->local_timer);
    if (r == 0)
        r = open_up(peers, text, text_bytes);
    if (r < 0) {
        if (!*text)
            snprintf(text, text_bytes, "%s", remedy_text(r));
        peers_free(peers);
        return r;
    }
    *ret_peers = peers;
    return 0;
}

struct peers *peers_free(struct peers *peers)
{
    if (!peers)
        return NULL;
    listen_no_more(peers);
    while (peers->ungreeted)
        connection_free(peers->ungreeted);
    peers_cancel(peers);
    table_deinit(&peers->requests);
    while (peers->first) {
        struct peer *peer = peers->first;
        peers->first = peer->next;
        peer_free(peer);
    }
    pulses_free(peers->pulses);
    loop_timer_free(peers->tick);
    loop_timer_free(peers->local_timer);
    deadlines_deinit(&peers->deadlines);
    tls_free(peers->tls);
    if (peers->hello)
        tca__message__free_unpacked(peers->hello, NULL);
    free(peers->by_node);
    free(peers);
    return NULL;
}

/* ---- shutdown ---- */

void peers_leave(struct peers *peers)
{
    Tca__PeerLeave leave = TCA__PEER_LEAVE__INIT;
    const Tca__Message message = MESSAGE_OF(PEER_LEAVE, peer_leave, &leave);
    peers->leaving = true;
    listen_no_more(peers);
    for (struct peer *peer = peers->first; peer; peer = peer->next)
        if (peer->state == PEER_UP)
            connection_send(peer->connection, 0, &message);
}

bool peers_have_left(const struct peers *peers)
{
    for (const struct peer *peer = peers->first; peer; peer = peer->next)
        if (peer->connection && stream_queued_bytes(peer->connection->stream) > 0)
            return false;
    return true;
}

/* ---- the cluster file has changed ---- */

static void drop(struct peer *peer, const char *why)
{
    if (peer->state != PEER_IDLE && peer->state != PEER_DOWN)
        peer_move(peer, PEER_DOWN, -EHOSTDOWN, why);
    peer->attempt_ns = 0;
    peer_dial_forget(peer);
}

void peers_reload(struct peers *peers)
{
    for (struct peer **at = &peers->first; *at;) {
        struct peer *peer = *at;
        const struct cluster_node *node = cluster_by_id(peers->tcad->cluster, peer->node);
        if (node && strcmp(node->name, peer->name) == 0) {
            if (peer_place(peer, node) != 0)
                drop(peer, "the cluster file gives it another address");
            at = &peer->next;
            continue;
        }
        drop(peer, "it is no longer in the cluster file");
        while (*at != peer) /* its event may have added others */
            at = &(*at)->next;
        *at = peer->next;
        peers->by_node[peer->node] = NULL;
        peer_free(peer);
    }
    peers_open(peers); /* requests to a node that was added need the key at once */
    peers_find_own_later(peers->tcad);
}

/* ---- display ---- */

bool peers_is_up(const struct peers *peers, uint32_t node)
{
    const struct peer *peer = peer_find(peers, node);
    return peer ? peer_has_link(peer) : node == peers->tcad->node;
}

bool peers_is_stranger(const struct peers *peers, uint32_t node)
{
    const struct peer *peer = peer_find(peers, node);
    return peer && peer->stranger;
}

uint64_t peers_refused_resumes(const struct peers *peers)
{
    return peers->refused_resumes;
}

int peers_info(const struct peers *peers, uint32_t node, struct peer_info *ret_info)
{
    const struct tcad *tcad = peers->tcad;
    const struct peer *peer = peer_find(peers, node);

    if (node == tcad->node)
        *ret_info = (struct peer_info){.node = node,
                                       .state = "self",
                                       .since_ns = tcad->since_ns,
                                       .incarnation = tcad->incarnation,
                                       .cluster_digest = tcad->cluster->digest,
                                       .version = TCAD_VERSION,
                                       .last_error = "",
                                       .last_loss = ""};
    else if (peer)
        *ret_info = (struct peer_info){
            .node = node,
            .state = peer_state_name(peer->seeking ? PEER_DOWN : peer->state),
            .since_ns = peer->seeking ? peer->down_ns : peer->since_ns,
            .rtt_ns = peer->rtt_ns,
            .incarnation = peer->incarnation,
            .version = peer->version,
            .last_error = peer->last_error,
            .reconnects = peer->reconnects,
            .last_loss = peer->last_loss,
            .sent_bytes = peer->sent_bytes,
            .received_bytes = peer->received_bytes,
            .cluster_digest = peer->cluster_digest,
        };
    else if (cluster_by_id(tcad->cluster, node))
        *ret_info = (struct peer_info){.node = node,
                                       .state = "idle", /* since an unknown time */
                                       .version = "",
                                       .last_error = "",
                                       .last_loss = ""};
    else
        return -EINVAL;
    return 0;
}
