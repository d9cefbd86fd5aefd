/* Connecting again after a connection has ended without a goodbye, while the link continues or
 * before there is one. */
#include <errno.h>
#include <stdio.h>

#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"

enum {
    REDIAL_MS = 100,
    CUTS_MAX = 5, /* of a first connection, before the node counts as down */
};

/*
 * Whether reconnecting can help.
 *
 * If the connection is refused, no daemon is running: the kernel accepts connections for one that
 * is stopped, busy or out of descriptors. Other errors without a connection can pass, because any
 * machine on the way can have caused them. On a connection, violations of the protocol and
 * differences from the cluster file would only be repeated.
 */
static bool may_come_back(const struct peer *peer, int error)
{
    if (!peer_has_link(peer) || peer->peers->leaving)
        return false;
    if (peer->state == PEER_RECONNECTING)
        return error != -ECONNREFUSED;
    switch (error) {
    case -EPROTO:
    case -EMSGSIZE:
    case -EPROTONOSUPPORT:
    case -EINVAL:
    case -EEXIST:
    case -ENOENT:
        return false;
    default:
        return true;
    }
}

static void redial(struct peer *peer, uint64_t now_ns)
{
    peer->redial_ns = now_ns;
    peer_move(peer, PEER_RECONNECTING, 0, NULL);
    peer_dial(peer);
}

void peer_lose(struct peer *peer, int error, const char *text)
{
    uint64_t now = clock_now_ns();

    if (peer->state != PEER_UP) {
        snprintf(peer->last_error, sizeof(peer->last_error), "%s", text);
        peer->last_status = error;
    }
    peer_move(peer, PEER_LOST, error, text);
    peers_tick_soon(peer->peers);
    if (now - peer->redial_ns >= REDIAL_MS * MS)
        redial(peer, now);
}

/* ---- before there is a link ---- */

/* A first connection was cut in its greeting, or the other side still tests an earlier one
 * (-EBUSY), and requests wait for it. */
static bool may_try_again(const struct peer *peer, int error)
{
    return (error == -ECONNRESET || error == -EPIPE || error == -EBUSY) && peer->cuts < CUTS_MAX &&
           peer->requests.first &&
           (peer->state == PEER_CONNECTING || peer->state == PEER_GREETING) &&
           !peer->peers->leaving;
}

static void dial_again(struct peer *peer, uint64_t now_ns)
{
    peer->redial_ns = now_ns;
    if (peer->state == PEER_GREETING) /* the other side was to connect, and has not */
        peer_move(peer, PEER_CONNECTING, 0, NULL);
    peer_dial(peer);
}

static void try_again(struct peer *peer, const char *text)
{
    const uint64_t now = clock_now_ns();

    peer->cuts++;
    snprintf(peer->last_error, sizeof(peer->last_error), "%s", text);
    peer->connection = connection_free(peer->connection);
    peer_move(peer, PEER_CONNECTING, 0, NULL);
    if (now - peer->redial_ns >= REDIAL_MS * MS)
        dial_again(peer, now);
}

void peer_watch_attempt(struct peer *peer, uint64_t now_ns)
{
    char text[PEER_TEXT_MAX];

    if (now_ns >= peer->deadline_ns + peers_allowance_ns(peer->peers) &&
        peer_dial_has_others(peer)) {
        peer_dial_others(peer);
    } else if (now_ns >= peer->deadline_ns + peers_allowance_ns(peer->peers)) {
        snprintf(text, sizeof(text),
                 "%s:%u has not answered within %.1f s (control.request_timeout)", peer->address,
                 peer->port, (double)peer->peers->tcad->conf->control.request_timeout_ns / 1e9);
        peer_move(peer, PEER_DOWN, -ETIMEDOUT, text);
    } else if (!peer->connection && !peer_is_dialling(peer) &&
               now_ns - peer->redial_ns >= REDIAL_MS * MS) {
        dial_again(peer, now_ns);
    }
}

/* ---- both ---- */

void peer_disconnected(struct peer *peer, int error, const char *text)
{
    char both[2 * PEER_TEXT_MAX];

    if (peer_dial_has_others(peer)) {
        snprintf(peer->last_error, sizeof(peer->last_error), "%s", text);
        peer_dial_others(peer);
        return;
    }
    if (may_try_again(peer, error)) {
        try_again(peer, text);
        return;
    }
    if (may_come_back(peer, error)) {
        peer_lose(peer, error, text);
        return;
    }
    if (peer->state == PEER_RECONNECTING || peer->state == PEER_RESUMING) {
        snprintf(both, sizeof(both), "%.100s; reconnecting failed: %s", peer->last_loss, text);
        text = both;
    }
    peer_move(peer, PEER_DOWN, error, text);
}

void peer_watch_lost(struct peer *peer, uint64_t now_ns)
{
    char text[2 * PEER_TEXT_MAX];
    uint64_t silent_ns;

    if (peer_is_silent(peer, now_ns, &silent_ns)) {
        snprintf(
            text, sizeof(text),
            "%.100s; not reached again within %.1f s (control.heartbeat_timeout is %.1f s)%s%s",
            peer->last_loss, (double)silent_ns / 1e9,
            (double)peer->peers->tcad->conf->control.heartbeat_timeout_ns / 1e9,
            peer->last_error[0] ? ": " : "", peer->last_error);
        peer_move(peer, PEER_DOWN, -EHOSTDOWN, text);
    } else if (peer->state != PEER_LOST &&
               now_ns >= peer->deadline_ns + peers_allowance_ns(peer->peers)) {
        snprintf(text, sizeof(text), "%s:%u has not answered", peer->address, peer->port);
        peer_lose(peer, -ETIMEDOUT, text);
    } else if (peer->state == PEER_LOST && now_ns - peer->redial_ns >= REDIAL_MS * MS) {
        redial(peer, now_ns);
    }
}
