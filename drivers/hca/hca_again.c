/*
 * Another queue pair for the peer of a process. When the first one has failed, the peer is paused:
 * the owner is told (driver_events.peer_broken), and has both processes exchange offers once more.
 * An offer says how many pieces of the window its process has received, and no more are received
 * over the old queue pair: so each end knows which of its pieces to send again, and each arrives
 * once. Messages are still in their buffers, or in the source of a put that has not completed.
 * Writes are repeated from the start, because the target is nobody else's before the notification.
 *
 * Keys belong to the domain, and outlive the queue pair: so memory that was freed meanwhile is
 * recalled from a paused peer as from others, and is not written again.
 *
 * A queue pair that fails before a single piece was counted is not replaced: the reason is still
 * there.
 */
#include <errno.h>

#include "drivers/hca/hca.h"

static uint64_t counted_both_ways(const struct hca_peer *peer)
{
    return peer->window.counted + peer->credits.counted;
}

bool hca_again_possible(const struct hca_peer *peer)
{
    const struct hca_driver *hca = peer->hca;
    return hca->driver.events.peer_broken && !hca->inherited && hca->broken == 0 && !peer->told &&
           !peer->garbled && !(peer->renewed && counted_both_ways(peer) == peer->mark);
}

/* ---- pausing ---- */

static struct hca_piece *piece_at(struct hca_peer *peer, uint64_t number)
{
    return &peer->pieces[number % HCA_WINDOW];
}

/* The device reads nothing more. A put whose piece has writes waits until it is known whether the
 * other end has received them. */
static void forget_signals(struct hca_peer *peer)
{
    while (peer->signals_done != peer->signals_made) {
        const struct hca_signal signal = peer->signals[peer->signals_done++ % HCA_REQUESTS];
        if (!signal.put)
            continue;
        signal.put->base.pending--;
        if (signal.piece < peer->window.counted || !piece_at(peer, signal.piece)->writes)
            window_put_check(&signal.put->base);
    }
    peer->reported = peer->posted;
}

void hca_again_pause(struct hca_peer *peer)
{
    pthread_mutex_lock(&peer->hca->lock);
    peer->answered = peer->listens = false;
    pthread_mutex_unlock(&peer->hca->lock);
    peer->paused = true;
    recall_mute(&peer->hca->recall, &peer->holder);
    forget_signals(peer);
    for (struct hca_put *put = peer->writes; put; put = put->next)
        if (put->base.op && !put->base.made && put->writes)
            put->base.made_bytes = put->base.from_bytes;
}

/* ---- resuming ---- */

int hca_again_check(const struct hca_peer *peer, uint64_t counted)
{
    if (counted < peer->window.counted || counted > peer->window.made)
        return -EPROTO;
    for (uint64_t n = counted; n < peer->window.made; n++) {
        const struct hca_piece *piece = &peer->pieces[n % HCA_WINDOW];
        if (piece->immediate && !piece->writes) /* its device has acknowledged it */
            return -EPROTO;
    }
    return 0;
}

void hca_again_resume(struct hca_peer *peer, uint64_t counted)
{
    for (uint64_t n = peer->window.counted; n < counted && peer->error == 0; n++) {
        struct hca_piece *piece = piece_at(peer, n);
        struct hca_put *put = piece->immediate ? piece->writes : NULL;
        piece->writes = NULL;
        if (put)
            window_put_check(&put->base);
    }
    if (peer->error < 0)
        return;
    window_count(&peer->window, counted);
    hca_recall_counted(peer);
    peer->renewed |= peer->paused;
    peer->mark = counted_both_ways(peer);
    peer->again = counted;
    peer->rewriting = false;
}

/* Its put fails, or its memory was freed: the piece is counted all the same. */
static void retract(struct hca_peer *peer, uint64_t number)
{
    struct hca_piece *piece = piece_at(peer, number);
    struct hca_put *put = piece->writes;
    piece->writes = NULL;
    piece->immediate = false;
    hca_send_instead(peer, number);
    put->base.error = put->base.error < 0 ? put->base.error : -ESTALE;
    window_put_check(&put->base);
}

/* 1: all of them have been sent. */
static int write_again(struct hca_peer *peer, const struct hca_piece *piece)
{
    struct hca_put *put = piece->writes;
    if (put->base.stale || put->base.error < 0) {
        retract(peer, peer->again);
        return 1;
    }
    if (!peer->rewriting) {
        put->base.made_bytes = put->base.from_bytes;
        put->base.op->retries++;
    }
    peer->rewriting = true;
    if (put->base.made_bytes == put->base.end_bytes)
        return 1;
    return hca_write_again(put, piece);
}

/* 1: the piece has been sent, 0: a part of it. */
static int send_again(struct hca_peer *peer)
{
    const struct hca_piece *piece = piece_at(peer, peer->again);
    int r = piece->writes ? write_again(peer, piece) : 1;
    if (r <= 0 || piece->immediate)
        return r;
    r = hca_send_again(peer, peer->again);
    if (r == 0 && piece->base.put && !piece->writes)
        piece->base.put->op->retries++;
    return r < 0 ? r : 1;
}

int hca_again_run(struct hca_peer *peer)
{
    hca_alive_watch(peer->hca);
    while (peer->again < peer->window.made) {
        int r = send_again(peer);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        peer->again++;
        peer->rewriting = false;
    }
    peer->paused = false;
    return 0;
}
