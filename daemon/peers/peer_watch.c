/* The tick: one timer for all time-outs and heartbeats of peers. It stops when there is nothing to
 * watch. */
#include <errno.h>
#include <stdio.h>

#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"

enum {
    TICK_MS = 100,
    LATE_TIMES = 16, /* extra time for others, in units of this daemon's lateness: a reply takes
                        several turns */
    LATE_FORGET = 16 /* ticks in which the lateness decays */
};

static void set_tick(struct peers *peers, uint64_t delay_ns)
{
    peers->tick_due_ns = clock_now_ns() + delay_ns;
    loop_timer_set(peers->tick, delay_ns, 0);
}

static uint64_t soon_ns(const struct peers *peers)
{
    uint64_t half = peers->tcad->conf->control.heartbeat_interval_ns / 2;
    return half < TICK_MS * MS ? half : TICK_MS * MS;
}

void peers_tick_soon(struct peers *peers)
{
    uint64_t soon = soon_ns(peers);
    if (!peers->tick_due_ns || peers->tick_due_ns > clock_now_ns() + soon)
        set_tick(peers, soon);
}

/*
 * A daemon that runs late itself cannot tell a dead node from one that is just as late: on
 * overloaded machines, above all with emulated nodes, a daemon can wait seconds for a processor.
 */
uint64_t peers_allowance_ns(const struct peers *peers)
{
    return LATE_TIMES * peers->late_ns;
}

/* The tick that was due at due_ns runs now. */
static void notice_lateness(struct peers *peers, uint64_t due_ns, uint64_t now_ns)
{
    uint64_t late_ns = due_ns && now_ns > due_ns ? now_ns - due_ns : 0;
    peers->late_ns -= peers->late_ns / LATE_FORGET;
    if (late_ns > peers->late_ns)
        peers->late_ns = late_ns;
}

void peer_ping(struct peer *peer, uint64_t now_ns)
{
    Tca__PeerPing ping =
        BODY_OF(peer_ping, .sequence = ++peer->ping_sequence, .received = link_tell(&peer->link),
                .cluster_digest = peer->peers->tcad->cluster->digest);
    const Tca__Message message = MESSAGE_OF(PEER_PING, peer_ping, &ping);
    peer->ping_ns = now_ns;
    connection_send(peer->connection, 0, &message);
}

/* Whether its heartbeat thread shows that it is alive although its loop does not reply, within
 * limits. */
static bool is_busy(const struct peer *peer, uint64_t silent_ns, uint64_t now_ns)
{
    const uint64_t heard_ns = peer->pulse ? pulse_heard_ns(peer->pulse) : 0,
                   limit_ns = peer->peers->tcad->conf->control.heartbeat_timeout_ns;
    return heard_ns && silent_ns < PULSE_STUCK_NS + limit_ns &&
           now_ns < heard_ns + limit_ns + peers_allowance_ns(peer->peers);
}

bool peer_is_silent(const struct peer *peer, uint64_t now_ns, uint64_t *ret_silent_ns)
{
    const uint64_t limit_ns = peer->peers->tcad->conf->control.heartbeat_timeout_ns;
    uint64_t silent_ns = now_ns - peer->heard_ns;

    *ret_silent_ns = silent_ns;
    return silent_ns >= limit_ns + peers_allowance_ns(peer->peers) &&
           !is_busy(peer, silent_ns, now_ns);
}

static void watch_up(struct peer *peer, uint64_t now_ns)
{
    const struct tcad_conf *conf = peer->peers->tcad->conf;
    uint64_t bytes = stream_received_bytes(peer->connection->stream), silent_ns;
    char text[PEER_TEXT_MAX];

    if (peer->connection->broken) {
        peer_lose(peer, -ENOBUFS, "a message could not be sent: out of memory");
        return;
    }
    if (bytes != peer->heard_bytes) {
        peer->heard_bytes = bytes;
        peer->heard_ns = now_ns;
    }
    if (peer_is_silent(peer, now_ns, &silent_ns)) {
        snprintf(text, sizeof(text),
                 "it has been silent for %.1f s (control.heartbeat_timeout is %.1f s)",
                 (double)silent_ns / 1e9, (double)conf->control.heartbeat_timeout_ns / 1e9);
        peer_move(peer, PEER_DOWN, -EHOSTDOWN, text);
    } else if (silent_ns >= conf->control.heartbeat_interval_ns &&
               (!peer->ping_ns || now_ns - peer->ping_ns >= conf->control.heartbeat_interval_ns)) {
        peer_ping(peer, now_ns);
    }
}

static void watch_peer(struct peer *peer, uint64_t now_ns)
{
    char text[PEER_TEXT_MAX];

    if (peer->link.overrun) {
        snprintf(text, sizeof(text),
                 "messages of %zu MiB wait for it to acknowledge them, and no more than %d MiB "
                 "can be kept",
                 peer->link.outbox.bytes >> 20, OUTBOX_MAX_BYTES >> 20);
        peer_move(peer, PEER_DOWN, -ENOBUFS, text);
    } else if (peer->state == PEER_UP) {
        watch_up(peer, now_ns);
    } else if (peer_has_link(peer)) {
        peer_watch_lost(peer, now_ns);
    } else if (peer->state == PEER_CONNECTING || peer->state == PEER_GREETING) {
        peer_watch_attempt(peer, now_ns);
    } else if (peer->state == PEER_DOWN && peer->seek_ns && now_ns >= peer->seek_ns &&
               !peer->peers->leaving) {
        peer_seek(peer);
    }
}

static void watch_ungreeted(struct peers *peers, uint64_t now_ns)
{
    struct connection *next;
    for (struct connection *connection = peers->ungreeted; connection; connection = next) {
        next = connection->next;
        if (now_ns <
            connection->deadline_ns + (connection->refused ? 0 : peers_allowance_ns(peers)))
            continue;
        if (!connection->refused)
            connection_complain(peers, connection->from, "it has not greeted in time");
        connection_free(connection);
    }
}

static void plan_tick(struct peers *peers)
{
    bool busy = peers->ungreeted_count > 0, up = false;
    const uint64_t interval_ns = peers->tcad->conf->control.heartbeat_interval_ns / 2,
                   now_ns = clock_now_ns();
    uint64_t seek_ns = UINT64_MAX; /* from now */

    for (struct peer *peer = peers->first; peer && !busy; peer = peer->next) {
        bool still = peer->state == PEER_IDLE || peer->state == PEER_DOWN;
        bool calm = peer->state == PEER_UP && !peer->connection->broken && !peer->link.overrun;
        busy = !still && !calm;
        up = up || calm;
        if (peer->state == PEER_DOWN && peer->seek_ns) {
            const uint64_t left_ns = peer->seek_ns > now_ns ? peer->seek_ns - now_ns : 1;
            seek_ns = left_ns < seek_ns ? left_ns : seek_ns;
        }
    }
    if (busy)
        set_tick(peers, soon_ns(peers));
    else if (up || seek_ns < UINT64_MAX)
        set_tick(peers, up && interval_ns < seek_ns ? interval_ns : seek_ns);
}

void peers_watch(void *context)
{
    struct peers *peers = context;
    uint64_t now = clock_now_ns(), due = peers->tick_due_ns;

    /* After a long stop of this daemon, messages of the others are waiting to be read. */
    if (now > due && now - due > peers->tcad->conf->control.heartbeat_timeout_ns / 2)
        for (struct peer *peer = peers->first; peer; peer = peer->next)
            peer->heard_ns = now;

    notice_lateness(peers, due, now);
    peers->tick_due_ns = 0;
    for (struct peer *peer = peers->first; peer;
         peer = peer->next) /* only peers_reload() removes peers */
        watch_peer(peer, now);
    watch_ungreeted(peers, now);
    plan_tick(peers);
}
