/* From the address of the cluster file to a connection: look-up, and the addresses in turn. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/remedy.h"
#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"

enum { NAME_WAIT_MIN_MS = 1000, NAME_WAIT_MAX_MS = 30 * 1000 };

/* `after`: what more there is to say. */
static void fail(struct peer *peer, int error, const char *text, const char *after)
{
    char why[PEER_TEXT_MAX];
    snprintf(why, sizeof(why), "%.64s:%u: %.120s%.60s", peer->address, peer->port, text, after);
    peer_disconnected(peer, error, why);
}

/* ---- connecting ---- */

/* While an attempt is under way, the dial knows more. */
static void keep_results(struct peer *peer)
{
    for (unsigned i = 0; peer->dial && peer->addresses && i < peer->addresses->count; i++)
        if (loop_dial_result(peer->dial, i) != 0)
            peer->results[i] = loop_dial_result(peer->dial, i);
}

static void dialled(void *context, int fd, unsigned which, const char *text)
{
    struct peer *peer = context;
    char why[PEER_TEXT_MAX];
    snprintf(why, sizeof(why), "%s", text);
    peer->tried |= loop_dial_failed(peer->dial);
    keep_results(peer);
    peer->dial = loop_dial_free(peer->dial);
    if (fd < 0) {
        fail(peer, fd, why, "");
        return;
    }
    peer->tried |= 1u << which;
    peer->step = PEER_STEP_SECURE;
    int r = connection_connect(peer, fd, which);
    if (r < 0)
        fail(peer, r, remedy_text(r), "");
}

/* The addresses that this attempt has not tried. */
static void connect_rest(struct peer *peer)
{
    struct peers *peers = peer->peers;
    int r = -ENOKEY; /* logged when the configuration was loaded */
    peer->step = PEER_STEP_DIAL;
    if (peers->tcad->conf->control.security != CONF_SECURITY_TLS || peers->tls)
        r = loop_dial_new(peers->tcad->loop, peer->addresses, peer->tried, dialled, peer,
                          &peer->dial);
    if (r < 0) {
        peer->tried = UINT32_MAX; /* no other address is better */
        fail(peer, r, remedy_text(r), "");
    }
}

static void connect_to(struct peer *peer, struct addresses *addresses)
{
    if (addresses != peer->addresses) {
        free(peer->addresses);
        memset(peer->results, 0, sizeof(peer->results));
    }
    peer->addresses = addresses;
    peer->tried = 0;
    connect_rest(peer);
}

bool peer_dial_has_others(const struct peer *peer)
{
    const uint32_t all = peer->addresses ? (1u << peer->addresses->count) - 1 : 0;
    return (peer->state == PEER_CONNECTING || peer->state == PEER_GREETING) &&
           (all & ~peer->tried) != 0 && !peer->peers->leaving;
}

void peer_dial_others(struct peer *peer)
{
    peer->connection = connection_free(peer->connection);
    peer_move(peer, PEER_CONNECTING, 0, NULL);
    connect_rest(peer);
}

void peer_dial_good(struct peer *peer)
{
    const unsigned which = peer->connection->which;
    if (!peer->connection->ours || !peer->addresses || which >= peer->addresses->count)
        return;
    const struct address first = peer->addresses->list[0];
    peer->addresses->list[0] = peer->addresses->list[which];
    peer->addresses->list[which] = first;
    peer->results[which] = peer->results[0];
    peer->connection->which = 0;
}

/* ---- names ---- */

static void found(void *context, int error, struct addresses *addresses)
{
    struct peer *peer = context;
    char after[64];
    peer->lookup = NULL;
    peer->name_error = error;
    if (error == 0) {
        peer->name_next_ns = peer->name_wait_ns = 0;
        connect_to(peer, addresses);
        return;
    }
    /* Name servers are spared: each look-up can be several queries. */
    peer->name_wait_ns *= 2;
    if (peer->name_wait_ns < NAME_WAIT_MIN_MS * MS)
        peer->name_wait_ns = NAME_WAIT_MIN_MS * MS;
    else if (peer->name_wait_ns > NAME_WAIT_MAX_MS * MS)
        peer->name_wait_ns = NAME_WAIT_MAX_MS * MS;
    peer->name_next_ns = clock_now_ns() + peer->name_wait_ns;
    if (peer->addresses && error == EAI_AGAIN) { /* no name server answers: it may still be there */
        connect_to(peer, peer->addresses);
        return;
    }
    snprintf(after, sizeof(after), " (looked up again in %.0f s at the earliest)",
             (double)peer->name_wait_ns / 1e9);
    fail(peer, -EHOSTUNREACH, gai_strerror(error), after);
}

void peer_dial(struct peer *peer)
{
    struct addresses *addresses;

    peer->tried = UINT32_MAX;
    peer->stranger = false;
    peer->step = PEER_STEP_NAME;
    if (peer_has_link(peer) && peer->addresses) {
        connect_to(peer, peer->addresses);
        return;
    }
    int r = addresses_parse(peer->address, peer->port, &addresses);
    if (r == 0) {
        connect_to(peer, addresses);
        return;
    }
    if (r == -EINVAL)
        r = lookup_new(peer->peers->tcad->names, peer->address, peer->port, peer->name_wait_ns > 0,
                       found, peer, &peer->lookup);
    if (r < 0)
        fail(peer, r, remedy_text(r), "");
}

/* ---- ending ---- */

bool peer_is_dialling(const struct peer *peer)
{
    return peer->lookup || peer->dial;
}

void peer_dial_end(struct peer *peer)
{
    peer->lookup = lookup_cancel(peer->lookup);
    keep_results(peer);
    peer->dial = loop_dial_free(peer->dial);
    peer->tried = UINT32_MAX;
}

void peer_dial_forget(struct peer *peer)
{
    peer_dial_end(peer);
    free(peer->addresses);
    peer->addresses = NULL;
    peer->name_next_ns = peer->name_wait_ns = 0;
    peer->name_error = 0;
}

/* ---- display ---- */

void peer_dial_failed(struct peer *peer, unsigned which, int error)
{
    if (peer->addresses && which < peer->addresses->count)
        peer->results[which] = error;
}

/* Its result, or what the dial that is under way knows by now. */
static int result_of(const struct peer *peer, unsigned which)
{
    const int now = peer->dial ? loop_dial_result(peer->dial, which) : 0;
    if (peer->connection && peer->connection->ours && peer->connection->which == which)
        return peer->step == PEER_STEP_UP ? 1 : -EINPROGRESS;
    return now ? now : peer->results[which];
}

int peers_reach(const struct peers *peers, uint32_t node, struct peer_reach *ret_reach)
{
    const struct peer *peer = peer_find(peers, node);
    *ret_reach = (struct peer_reach){0};
    if (!peer)
        return cluster_by_id(peers->tcad->cluster, node) && node != peers->tcad->node ? 0 : -EINVAL;
    *ret_reach = (struct peer_reach){
        .step = peer->step,
        .status = peer->last_status,
        .name_error = peer->name_error,
        .name_next_ns = peer->name_next_ns,
        .next_ns = peer->state == PEER_DOWN ? peer->seek_ns : 0,
        .protocol = peer->protocol,
        .called = peer->connection && !peer->connection->ours,
        .count = peer->addresses ? peer->addresses->count : 0,
    };
    static_assert(sizeof(ret_reach->addresses) / sizeof(ret_reach->addresses[0]) == ADDRESSES_MAX,
                  "one for each");
    for (unsigned i = 0; i < ret_reach->count; i++) {
        address_text(&peer->addresses->list[i], ret_reach->addresses[i].text,
                     sizeof(ret_reach->addresses[i].text));
        ret_reach->addresses[i].result = result_of(peer, i);
    }
    return 0;
}
