/* Peers: what they have to do, and when they are lost. */
#include <errno.h>

#include "drivers/hca/hca.h"
#include "proto/list.h"

void hca_peer_activate(struct hca_peer *peer)
{
    struct hca_driver *hca = peer->hca;
    if (peer->error < 0)
        return;
    hca->fresh = true;
    if (!peer->active_link)
        LIST_ADD(&hca->active, peer, next_active, active_link);
}

void hca_peer_deactivate(struct hca_peer *peer)
{
    if (peer->active_link)
        LIST_REMOVE(peer, next_active, active_link);
}

bool hca_peer_rests(const struct hca_peer *peer)
{
    return !window_next_put(&peer->window) && !peer->window.ask && !peer->asked &&
           peer->failing == 0 && !peer->paused && hca_finds_rest(peer);
}

/* The queue pair lives on for a moment: see reap() in hca_progress.c. */
void hca_peer_disconnect(struct driver *driver, struct driver_peer *driver_peer)
{
    struct hca_peer *peer = (struct hca_peer *)driver_peer;
    struct hca_driver *hca = hca_of(driver);
    hca_peer_deactivate(peer);
    if (peer->qp)
        hca_peer_stop(peer);
    peer->error = peer->error < 0 ? peer->error : -ENOTCONN;
    recall_leave(&hca->recall, &peer->holder);
    pthread_mutex_lock(&hca->lock);
    peer->answered = false;
    pthread_mutex_unlock(&hca->lock);
    peer->next_dead = hca->dead;
    hca->dead = peer;
}

/* ---- losing one ---- */

void hca_peer_break(struct hca_peer *peer, int error)
{
    if (peer->error < 0 || peer->failing < 0)
        return;
    peer->failing = error;
    hca_peer_activate(peer);
}

/* The puts end in the next round, as the contract says: this may be called from anywhere. */
void hca_peer_fail(struct driver *driver, struct driver_peer *driver_peer, int error)
{
    struct hca_peer *peer = (struct hca_peer *)driver_peer;
    if (peer->error < 0)
        return;
    peer->told = true;
    peer->failing = error;
    hca_peer_activate(peer);
}

/* Of a peer that waits for another queue pair: the device has nothing to report of these. */
static void end_unsent(struct hca_peer *peer, uint64_t first, int error)
{
    for (uint64_t n = first; n < peer->window.made; n++) {
        struct hca_piece *piece = &peer->pieces[n % HCA_WINDOW];
        struct hca_put *put = piece->immediate ? piece->writes : NULL;
        piece->writes = NULL;
        if (!put)
            continue;
        put->base.error = put->base.error < 0 ? put->base.error : error;
        window_put_check(&put->base);
    }
}

/* A put can wait for requests and for messages; it is not freed before it waits for neither. */
void hca_peer_lose(struct hca_peer *peer, int error)
{
    const struct driver_events *events = &peer->hca->driver.events;
    const uint32_t end = peer->signals_made;
    const uint64_t first = peer->window.counted;
    hca_peer_deactivate(peer);
    peer->error = error;
    recall_leave(&peer->hca->recall, &peer->holder);
    for (uint32_t i = peer->signals_done; i != end; i++) {
        struct hca_put *put = peer->signals[i % HCA_REQUESTS].put;
        if (put && put->base.error == 0)
            put->base.error = error;
    }
    window_fail(&peer->window, events, (struct driver_peer *)peer, peer->told, error);
    while (peer->signals_done != end) {
        const struct hca_signal signal = peer->signals[peer->signals_done++ % HCA_REQUESTS];
        if (!signal.put)
            continue;
        if (signal.piece >= first)
            peer->pieces[signal.piece % HCA_WINDOW].writes = NULL;
        signal.put->base.pending--;
        window_put_check(&signal.put->base);
    }
    end_unsent(peer, first, error);
    if (!peer->told && events->peer_down)
        events->peer_down(events->context, (struct driver_peer *)peer, error);
    peer->told = true;
}

int hca_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op)
{
    struct hca_peer *peer = (struct hca_peer *)driver_peer;
    if (peer->error < 0)
        return peer->error;
    if (!window_flush(&peer->window, op))
        return 0;
    hca_peer_activate(peer);
    hca_alive_watch(peer->hca);
    return 0;
}
