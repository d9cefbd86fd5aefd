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

static void dialled(void *context, int fd, unsigned which, const char *text)
{
    struct peer *peer = context;
    char why[PEER_TEXT_MAX];
    snprintf(why, sizeof(why), "%s", text);
    peer->tried |= loop_dial_failed(peer->dial);
    peer->dial = loop_dial_free(peer->dial);
    if (fd < 0) {
        fail(peer, fd, why, "");
        return;
    }
    peer->tried |= 1u << which;
    int r = connection_connect(peer, fd, which);
    if (r < 0)
        fail(peer, r, remedy_text(r), "");
}

/* The addresses that this attempt has not tried. */
static void connect_rest(struct peer *peer)
{
    struct peers *peers = peer->peers;
    int r = -ENOKEY; /* logged when the configuration was loaded */
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
    if (addresses != peer->addresses)
        free(peer->addresses);
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
    peer->connection->which = 0;
}

/* ---- names ---- */

static void found(void *context, int error, struct addresses *addresses)
{
    struct peer *peer = context;
    char after[64];
    peer->lookup = NULL;
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
    peer->dial = loop_dial_free(peer->dial);
    peer->tried = UINT32_MAX;
}

void peer_dial_forget(struct peer *peer)
{
    peer_dial_end(peer);
    free(peer->addresses);
    peer->addresses = NULL;
    peer->name_next_ns = peer->name_wait_ns = 0;
}
