/* Peers: connecting, synchronising, failing, flushing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "drivers/peach2/peach2.h"
#include "proto/wait.h"

#define MS UINT64_C(1000000)

int peach2_peer_connect(struct driver *driver, const void *data, size_t bytes,
                        struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes)
{
    struct peach2 *peach2 = peach2_of(driver);
    struct address address;
    if (bytes != sizeof(address))
        return -EINVAL;
    memcpy(&address, data, sizeof(address));
    if (address.magic != ADDRESS_MAGIC)
        return -EINVAL;
    if (address.version != PROTO_VERSION)
        return -EPROTONOSUPPORT;
    if (address.node >= peach2->topology.nodes)
        return -ENETUNREACH; /* in another sub-cluster, or the configured cabling is wrong */
    struct peer *peer = calloc(1, sizeof(*peer));
    if (!peer)
        return -ENOMEM;
    peer->address = address;
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        peer->streams[i].last = &peer->streams[i].first;
    *ret_peer = (struct driver_peer *)peer;
    *ret_offer_bytes = 0;
    return 0;
}

/* Adds the peer to the list at its first use on the polling thread. */
void peach2_peer_link(struct peach2 *peach2, struct peer *peer)
{
    if (peer->linked)
        return;
    peer->linked = true;
    peer->next = peach2->peers;
    peach2->peers = peer;
    if (peer->error == 0) {
        peer->state = PEER_OPEN;
        peach2_peer_sync(peach2, peer);
    }
}

/* Whether the peer has puts. */
static bool has_puts(const struct peer *peer)
{
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        if (peer->streams[i].first)
            return true;
    return false;
}

void peach2_peer_disconnect(struct driver *driver, struct driver_peer *driver_peer)
{
    struct peach2 *peach2 = peach2_of(driver);
    struct peer *peer = (struct peer *)driver_peer;
    assert(!has_puts(peer));
    for (struct peer **link = &peach2->peers; peer->linked; link = &(*link)->next) {
        if (*link != peer)
            continue;
        *link = peer->next;
        break;
    }
    free(peer);
}

/* ---- failure ---- */

/* Whether the board may be reading sources of puts to this peer. */
static bool is_read(const struct peer *peer)
{
    bool read = false;
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++) {
        const struct stream *stream = &peer->streams[i];
        read |= stream->turn && stream->turn->staging;
        for (const struct put *put = stream->first; put; put = put->next)
            read |= put->state == PUT_SENT;
    }
    return read;
}

void peach2_peer_down(struct peach2 *peach2, struct peer *peer, int error)
{
    const bool read = is_read(peer);
    if (peer->error == 0)
        peer->error = error;
    peer->state = PEER_FAILED;
    peer->request = peer->fail_pending = false;
    if (read) /* stops the board from reading the sources; other peers that this affects resync */
        peach2_channels_reset(peach2);
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        while (peer->streams[i].first)
            peach2_put_done(peach2, peer->streams[i].first, peer->error);
    flushes_fail(&peer->flushes, peer->error);
    if (!peer->told && peach2->driver.events.peer_down)
        peach2->driver.events.peer_down(peach2->driver.events.context, (struct driver_peer *)peer,
                                        peer->error);
    peer->told = true;
}

void peach2_peer_fail(struct driver *driver, struct driver_peer *driver_peer, int error)
{
    struct peach2 *peach2 = peach2_of(driver);
    struct peer *peer = (struct peer *)driver_peer;
    if (peer->error == 0)
        peer->error = error;
    peer->told = true;
    peer->fail_pending = true;
    peach2_peer_link(peach2, peer);
}

/* ---- synchronisation ---- */

/* Epochs always increase, also over restarts of boards and daemons: an epoch is the time, or the
 * last epoch plus 1 if the time has not advanced. */
uint64_t peach2_peer_epoch(struct peach2 *peach2)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t time = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    peach2->device.epoch = time > peach2->device.epoch ? time : peach2->device.epoch + 1;
    if (peach2->device.bar0)
        atomic_store(&peach2->device.bar0->epoch, peach2->device.epoch);
    return peach2->device.epoch;
}

/*
 * Each sync request has a new epoch. The board stamps packets when it creates them, possibly after
 * the lines of BAR 2 have waited, so the packet of a request can carry a later epoch than that of
 * the request, but never an earlier one. So the reply to any request since the start of the sync is
 * valid.
 */
void peach2_peer_sync(struct peach2 *peach2, struct peer *peer)
{
    uint64_t now_ns = clock_now_ns();
    if (peer->state != PEER_SYNCING) {
        peer->deadline_ns = now_ns + SYNC_TIMEOUT_MS * MS;
        peer->cut_ns = 0;
    }
    peer->state = PEER_SYNCING;
    peer->sync_epoch = peach2_peer_epoch(peach2);
    peer->request_again_ns = now_ns + REQUEST_AGAIN_MS * MS;
    peer->request = true;
}

static bool is_before(uint32_t sequence, uint32_t expected)
{
    uint32_t ahead = (expected - sequence) & SEQUENCE_MASK;
    return ahead > 0 && ahead <= SEQUENCE_MASK / 2;
}

static void resume(struct peach2 *peach2, struct stream *stream, uint32_t expected)
{
    while (stream->first && stream->first->state == PUT_UNSURE &&
           is_before(stream->first->sequence, expected))
        peach2_put_done(peach2, stream->first, 0);
    stream->next_sequence = expected;
    for (struct put *put = stream->first, *next; put; put = next) {
        next = put->next;
        if (put->stale) {
            peach2_put_done(peach2, put, -ESTALE);
            continue;
        }
        if (put->state == PUT_UNSURE)
            put->op->retries++;
        put->state = PUT_QUEUED;
        put->staging = false;
    }
    stream->turn = stream->first;
}

void peach2_peer_synced(struct peach2 *peach2, unsigned node, uint64_t epoch,
                        const uint32_t *expected)
{
    for (struct peer *peer = peach2->peers, *next; peer; peer = next) {
        next = peer->next;
        if (peer->address.node == node && peer->state == PEER_OPEN && epoch > peer->credit_epoch)
            peer->credit_epoch = epoch; /* reply to a repeated request */
        if (peer->address.node != node || peer->state != PEER_SYNCING || epoch < peer->sync_epoch)
            continue;
        if (!expected) {
            peach2_peer_down(peach2, peer, -EHOSTDOWN);
            continue;
        }
        peer->sent = peer->credited = 0;
        peer->credit_epoch = epoch;
        peer->request = false;
        peer->starved_ns = 0;
        for (unsigned i = 0; i < PEACH2_CHANNELS; i++) {
            peer->streams[i].last_command = peach2->channels[i].start;
            resume(peach2, &peer->streams[i], expected[i]);
        }
        peer->state = PEER_OPEN;
        peach2_channel_pump(peach2, peer);
    }
}

void peach2_peer_credited(struct peach2 *peach2, unsigned node, uint64_t epoch, uint32_t taken)
{
    for (struct peer *peer = peach2->peers; peer; peer = peer->next) {
        if (peer->address.node != node || peer->state != PEER_OPEN || epoch != peer->credit_epoch ||
            peer->sent - taken > RING_ENTRIES)
            continue;
        peer->credited = taken;
        peer->starved_ns = 0;
    }
}

/* Only a report on the current sync counts: an old one must not start another sync. */
void peach2_peer_gap(struct peach2 *peach2, unsigned node, uint64_t epoch)
{
    for (struct peer *peer = peach2->peers; peer; peer = peer->next) {
        if (peer->address.node != node || peer->state != PEER_OPEN || epoch != peer->credit_epoch)
            continue;
        peach2_channels_reset(peach2);
        if (peer->state == PEER_OPEN)
            peach2_peer_sync(peach2, peer);
    }
}

/* ---- flushes ---- */

int peach2_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op)
{
    struct peach2 *peach2 = peach2_of(driver);
    struct peer *peer = (struct peer *)driver_peer;
    peach2_peer_link(peach2, peer);
    if (peer->error < 0)
        return peer->error;
    flushes_push(&peer->flushes, op, ++peach2->last_flush);
    return 0;
}

/* Whether a request for the oldest flush was sent. */
static bool flush_requested(const struct peer *peer)
{
    return peer->flushes.first && peer->flushes.first->flush_count <= peer->flush_requested;
}

/* A reply covers all earlier flushes, because the peer processes notifications in order. */
void peach2_peer_flushed(struct peach2 *peach2, unsigned node, uint64_t number)
{
    for (struct peer *peer = peach2->peers; peer; peer = peer->next) {
        if (peer->address.node != node || !flush_requested(peer) || number > peer->flush_requested)
            continue;
        peer->flush_deadline_ns = clock_now_ns() + FLUSH_MS * MS;
        flushes_complete(&peer->flushes, number);
    }
}

/* The peer's board has acknowledged all completed puts; a flush asks the peer's driver to process
 * their notifications. */
static bool request_flush(struct peach2 *peach2, struct peer *peer, uint64_t now_ns)
{
    if (!peer->flushes.first || peer->state != PEER_OPEN)
        return false;
    const uint64_t number = peer->flushes.last->flush_count;
    if ((number == peer->flush_requested && now_ns < peer->flush_again_ns) ||
        !peach2_message_flush(peach2, peer, number))
        return false;
    if (!flush_requested(peer))
        peer->flush_deadline_ns = now_ns + FLUSH_MS * MS;
    peer->flush_requested = number;
    peer->flush_again_ns = now_ns + REQUEST_AGAIN_MS * MS;
    return true;
}

unsigned peach2_flushes_run(struct peach2 *peach2, uint64_t now_ns)
{
    unsigned moved = 0;
    for (struct peer *peer = peach2->peers; peer; peer = peer->next)
        moved += request_flush(peach2, peer, now_ns);
    return moved;
}

/* ---- timers ---- */

static bool has_queued(const struct peer *peer)
{
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        if (peer->streams[i].turn)
            return true;
    return false;
}

/* Whether puts have waited for credit for too long: a credit message may have been lost. */
static bool starved(struct peer *peer, uint64_t now_ns)
{
    if (peer->state != PEER_OPEN || !has_queued(peer) ||
        peer->sent - peer->credited < RING_ENTRIES - RING_RESERVE) {
        peer->starved_ns = 0;
        return false;
    }
    if (peer->starved_ns == 0)
        peer->starved_ns = now_ns;
    return now_ns - peer->starved_ns > STALL_MS * MS;
}

/* Whether a peer has not replied to sync requests, or has been unreachable, for too long. */
static bool sync_timed_out(const struct peach2 *peach2, struct peer *peer, uint64_t now_ns)
{
    if (peer->state != PEER_SYNCING)
        return false;
    if (!peach2->gone && peach2->exits[peer->address.node] != PEACH2_DISCARD)
        peer->cut_ns = 0;
    else if (peer->cut_ns == 0)
        peer->cut_ns = now_ns;
    return now_ns > peer->deadline_ns ||
           (peer->cut_ns > 0 && now_ns - peer->cut_ns > CUT_OFF_MS * MS);
}

static unsigned tick(struct peach2 *peach2, struct peer *peer, uint64_t now_ns)
{
    if (peer->fail_pending || sync_timed_out(peach2, peer, now_ns)) {
        peach2_peer_down(peach2, peer, -ENETDOWN);
        return 1;
    }
    if (peer->state == PEER_SYNCING && now_ns > peer->request_again_ns) {
        peer->request_again_ns = now_ns + REQUEST_AGAIN_MS * MS;
        peer->request = true;
    }
    if (starved(peer, now_ns))
        peach2_channels_reset(peach2);
    if (starved(peer, now_ns)) /* nothing was unsure, so the reset did not start a sync */
        peach2_peer_sync(peach2, peer);
    if (flush_requested(peer) && now_ns >= peer->flush_deadline_ns)
        flushes_fail(&peer->flushes, -ETIMEDOUT);
    return 0;
}

bool peach2_peers_waiting(const struct peach2 *peach2)
{
    for (const struct peer *peer = peach2->peers; peer; peer = peer->next)
        if (has_puts(peer) || peer->flushes.first || peer->fail_pending ||
            peer->state == PEER_SYNCING)
            return true;
    return false;
}

unsigned peach2_peers_tick(struct peach2 *peach2, uint64_t now_ns)
{
    unsigned moved = 0;
    for (struct peer *peer = peach2->peers, *next; peer; peer = next) {
        next = peer->next;
        moved += tick(peach2, peer, now_ns);
    }
    for (unsigned i = 0; i < PEACH2_CHANNELS && peach2->device.bar0; i++)
        if (peach2_channel_stalled(peach2, i, now_ns)) {
            peach2->channels[i].moved_ns = now_ns;
            peach2_channels_reset(peach2);
        }
    return moved;
}
