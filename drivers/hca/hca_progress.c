/* The driver's round: completions, what peers have to do, events of the device. */
#include <errno.h>
#include <unistd.h>

#include "drivers/hca/hca.h"

/* ---- completions ---- */

static void take_sent(struct hca_peer *peer)
{
    if (peer->error < 0 || peer->signals_done == peer->signals_made)
        return;
    const struct hca_signal signal = peer->signals[peer->signals_done++ % HCA_REQUESTS];
    peer->reported = signal.requests;
    if (signal.put) {
        if (signal.piece >= peer->window.counted)
            peer->pieces[signal.piece % HCA_WINDOW].writes = NULL;
        signal.put->base.pending--;
        window_put_check(&signal.put->base);
    }
}

/* wr_id: the peer, and 1 for what was received. */
static void take(const struct ibv_wc *completion)
{
    struct hca_peer *peer = (struct hca_peer *)(uintptr_t)(completion->wr_id & ~UINT64_C(1));
    int r = 0;
    if (completion->qp_num != peer->qpn)
        return;
    if (completion->status != IBV_WC_SUCCESS)
        r = -ENETDOWN;
    else if (completion->wr_id & 1)
        r = hca_receive(peer, completion);
    else
        take_sent(peer);
    peer->garbled |= r == -EPROTO;
    if (r < 0)
        hca_peer_break(peer, -ENETDOWN);
}

/* Takes at most about so many; *ret_empty: there are no more. */
static int take_completions(struct hca_driver *hca, unsigned most, bool *ret_empty)
{
    struct ibv_wc completions[HCA_POLL];
    int taken = 0, count;
    for (int i = 0; i < hca->early_count; i++)
        take(&hca->early[i]);
    taken += hca->early_count;
    hca->early_count = 0;
    do {
        count = ibv_poll_cq(hca->cq, HCA_POLL, completions);
        for (int i = 0; i < count; i++)
            take(&completions[i]);
        taken += count > 0 ? count : 0;
    } while (count == HCA_POLL && (unsigned)taken < most);
    *ret_empty = count < HCA_POLL;
    if (taken > 0 && hca->armed) {
        hca->armed = false;
        hca->announced = true;
    }
    return taken;
}

/* ---- peers ---- */

void hca_peer_take_last(struct hca_driver *hca, struct hca_peer *peer)
{
    const int failing = peer->failing;
    bool empty;
    if (peer->qp && !hca->inherited) {
        hca_peer_stop(peer);
        take_completions(hca, (unsigned)hca->cq->cqe, &empty);
        ibv_destroy_qp(peer->qp);
        peer->qp = NULL;
        take_completions(hca, (unsigned)hca->cq->cqe, &empty); /* it was still receiving */
    }
    peer->qp = NULL;
    peer->qpn = 0;
    peer->failing = failing;
}

/* What the device has acknowledged is taken first, and what it reads is complete last. */
void hca_peer_end(struct hca_driver *hca, struct hca_peer *peer)
{
    const struct driver_events *events = &hca->driver.events;
    hca_peer_take_last(hca, peer);
    if (!hca_again_possible(peer)) {
        hca_peer_lose(peer, peer->failing);
        return;
    }
    peer->failing = 0;
    hca_again_pause(peer);
    events->peer_broken(events->context, (struct driver_peer *)peer, -ENETDOWN);
}

static int work(struct hca_driver *hca, unsigned budget)
{
    int moved = 0;
    hca->fresh = false;
    for (struct hca_peer *peer = hca->active, *next; peer; peer = next) {
        if (peer->failing < 0) {
            hca_peer_end(hca, peer); /* can activate and lose others */
            moved++;
            next = hca->active;
            continue;
        }
        if (peer->answered) {
            if (peer->paused)
                hca_again_run(peer);
            moved += hca_puts_pump(peer, budget);
            if (!hca_finds_rest(peer))
                hca_finds_run(peer);
            hca_send_owed(peer);
        }
        next = peer->next_active;
        if (!peer->answered || hca_peer_rests(peer))
            hca_peer_deactivate(peer);
    }
    return moved;
}

/* Frees disconnected peers when the completion queue has nothing of them: it is empty now. */
static void reap(struct hca_driver *hca)
{
    struct hca_peer **at = &hca->dead;
    while (*at) {
        struct hca_peer *peer = *at;
        if (peer->qp) { /* its last completions are taken in the next round */
            ibv_destroy_qp(peer->qp);
            peer->qp = NULL;
            at = &peer->next_dead;
            continue;
        }
        *at = peer->next_dead;
        hca_peer_free(peer);
    }
}

/* ---- events of the device ---- */

/* qp: NULL: all. */
static void break_peers(struct hca_driver *hca, const struct ibv_qp *qp, int broken)
{
    pthread_mutex_lock(&hca->lock);
    hca->broken = broken < 0 ? broken : hca->broken;
    for (struct hca_peer *peer = hca->peers; peer; peer = peer->next)
        if ((peer->answered || peer->listens) && (!qp || peer->qp == qp))
            hca_peer_break(peer, -ENETDOWN);
    pthread_mutex_unlock(&hca->lock);
}

static void take_event(struct hca_driver *hca, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        break_peers(hca, event->element.qp, 0);
        break;
    case IBV_EVENT_PORT_ERR:
        if (event->element.port_num == hca->port)
            break_peers(hca, NULL, 0);
        break;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_DEVICE_FATAL:
        break_peers(hca, NULL, -ENODEV);
        break;
    default:
        break;
    }
}

/* Each request for an announcement brings one. */
static bool take_announcement(struct hca_driver *hca)
{
    struct ibv_cq *cq;
    void *context;
    if (ibv_get_cq_event(hca->channel, &cq, &context) != 0)
        return false;
    ibv_ack_cq_events(cq, 1);
    hca->announced = false;
    return true;
}

/* What is rare, and costs system calls. */
static void look_around(struct hca_driver *hca)
{
    struct ibv_async_event event;
    while (take_announcement(hca)) /* late ones */
        hca->armed = false;
    while (ibv_get_async_event(hca->context, &event) == 0) {
        take_event(hca, &event);
        ibv_ack_async_event(&event);
    }
    hca_alive_look(hca);
}

/* After a sleep, it is not known what has ended it: a completion, another part of the engine, or
 * something rare, which will end the next sleeps as well. */
static bool is_time_to_look(struct hca_driver *hca)
{
    hca->rounds += hca->slept ? HCA_EVENTS_EVERY / HCA_SLEEPS_MAX : 1;
    hca->slept = false;
    if (hca->rounds < HCA_EVENTS_EVERY)
        return false;
    hca->rounds = 0;
    return true;
}

int hca_progress(struct driver *driver, unsigned budget)
{
    struct hca_driver *hca = hca_of(driver);
    bool empty;
    if (is_time_to_look(hca))
        look_around(hca);
    int moved = take_completions(hca, budget, &empty);
    if (hca->announced && moved > 0)
        take_announcement(hca);
    if (hca->dead && empty)
        reap(hca);
    if (recall_is_busy(&hca->recall))
        moved += hca_recall_run(hca);
    if (hca->active)
        moved += work(hca, budget);
    return moved;
}

/* ---- sleeping ---- */

int hca_event_fd(struct driver *driver)
{
    return hca_of(driver)->epoll_fd;
}

/* Completions that come after the request for an announcement are announced, those before it are
 * not. The request stands until a completion comes. */
int hca_arm(struct driver *driver)
{
    struct hca_driver *hca = hca_of(driver);
    if (hca->early_count > 0 || hca->fresh || hca->dead)
        return -EAGAIN;
    const int error = hca->armed ? 0 : ibv_req_notify_cq(hca->cq, 0);
    if (error != 0)
        return -error;
    hca->armed = true;
    const int count = ibv_poll_cq(hca->cq, HCA_POLL, hca->early);
    hca->early_count = count > 0 ? count : 0;
    hca->slept = count <= 0;
    return count > 0 ? -EAGAIN : 0;
}
