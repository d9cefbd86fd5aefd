/* Advances all operations, and prepares to sleep. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "drivers/ofi/ofi.h"
#include "proto/wait.h"

static void take_message(struct ofi_driver *ofi, struct ofi_request *request, size_t bytes)
{
    struct ofi_message message;
    struct ofi_address from;
    memcpy(&message, request->buffer, sizeof(message));
    if (bytes != sizeof(message) || message.magic != OFI_MESSAGE_MAGIC ||
        message.version != PROTO_VERSION || !ofi_same(&message.to, &ofi->address.cookie) ||
        ofi_address_check(&message.from, sizeof(message.from), &from) < 0) {
        ofi_forged(ofi);
        return;
    }
    switch (message.type) {
    case OFI_HELLO:
        ofi_source_hello(ofi, &message);
        break;
    case OFI_WELCOME:
        ofi_link_welcome(ofi, &message);
        break;
    case OFI_BYE:
        ofi_source_bye(ofi, &message);
        break;
    case OFI_SYNC:
        ofi_source_sync(ofi, &message);
        break;
    case OFI_SYNCED:
        ofi_link_synced(ofi, &message);
        break;
    case OFI_REVOKE:
        ofi_revoke(ofi, &message);
        break;
    case OFI_REVOKED:
        ofi_revoked(ofi, &message);
        break;
    default:
        break;
    }
}

static int take_data(struct ofi_driver *ofi, uint64_t data)
{
    switch ((uint32_t)data >> 30) {
    case OFI_DATA_SEGMENT:
    case OFI_DATA_PIECE:
        return ofi_source_operation(ofi, data);
    case OFI_DATA_CREDIT:
        ofi_link_credit(ofi, data);
        return 1;
    default:
        ofi_forged(ofi);
        return 0;
    }
}

static void complete_write(struct ofi_driver *ofi, struct ofi_request *request)
{
    struct ofi_put *put = request->peer ? request->put : NULL;
    ofi_write_give(ofi, request);
    if (put)
        ofi_put_unread(put);
}

static void repost_recv(struct ofi_driver *ofi, struct ofi_request *request)
{
    if (ofi_recv_post(ofi, request) < 0) {
        request->next = ofi->requests.recvs;
        ofi->requests.recvs = request;
    }
}

static int take_entry(struct ofi_driver *ofi, const struct fi_cq_data_entry *entry)
{
    if (entry->flags & FI_REMOTE_CQ_DATA && entry->flags & FI_REMOTE_WRITE)
        return take_data(ofi, entry->data);
    if (!ofi_request_known(ofi, entry->op_context))
        return 0;
    struct ofi_request *request = entry->op_context;
    switch (request->kind) {
    case OFI_REQUEST_WRITE:
        complete_write(ofi, request);
        break;
    case OFI_REQUEST_SEND:
        ofi_send_give(ofi, request);
        break;
    case OFI_REQUEST_RECV:
        take_message(ofi, request, entry->len);
        repost_recv(ofi, request);
        break;
    }
    return 1;
}

static bool means_stale(int error)
{
    return error == FI_EACCES || error == FI_EKEYREJECTED || error == FI_ENOKEY;
}

/* The operation will be sent again, unless the error shows that its target is gone. */
static void fail_write(struct ofi_driver *ofi, struct ofi_request *request, int error)
{
    struct ofi_peer *peer = request->peer;
    if (peer && request->put && means_stale(error))
        request->put->base.stale = true;
    if (peer)
        ofi_link_broken(ofi, peer);
    complete_write(ofi, request);
}

static int take_error(struct ofi_driver *ofi)
{
    struct fi_cq_err_entry entry = {0};
    ssize_t r = fi_cq_readerr(ofi->cq, &entry, 0);
    if (r == -FI_EAGAIN)
        return 0;
    if (r < 0)
        return (int)r;
    if (!ofi_request_known(ofi, entry.op_context))
        return 1;
    struct ofi_request *request = entry.op_context;
    switch (request->kind) {
    case OFI_REQUEST_WRITE:
        fail_write(ofi, request, entry.err);
        break;
    case OFI_REQUEST_SEND: /* requests are repeated until the reply arrives */
        ofi_send_give(ofi, request);
        break;
    case OFI_REQUEST_RECV:
        repost_recv(ofi, request);
        break;
    }
    return 1;
}

static int take_completions(struct ofi_driver *ofi, unsigned budget)
{
    struct fi_cq_data_entry entries[OFI_CQ_BATCH];
    int moved = 0;
    while ((unsigned)moved < budget) {
        /* In libfabric 1.17, net mistakes the end of a connection that is being established for
         * an interrupted call if errno is still EINTR from before, and retries for ever. */
        errno = 0;
        ssize_t count = fi_cq_read(ofi->cq, entries, OFI_CQ_BATCH);
        if (count == -FI_EAGAIN)
            break;
        if (count == -FI_EAVAIL) {
            ofi->cq_signalled = true;
            int r = take_error(ofi);
            if (r <= 0)
                return r < 0 ? r : moved;
            moved++;
            continue;
        }
        if (count < 0)
            return (int)count;
        ofi->cq_signalled = true;
        for (ssize_t i = 0; i < count; i++)
            take_entry(ofi, &entries[i]);
        moved += (int)count;
        if (count < OFI_CQ_BATCH)
            break;
    }
    return moved;
}

static bool too_early(const struct ofi_peer *peer, uint64_t now_ns)
{
    return peer->blocked == OFI_BLOCKED_PROVIDER && now_ns < peer->retry_ns;
}

static bool has_work(const struct ofi_peer *peer)
{
    return window_next_put(&peer->window) || peer->window.made != peer->window.counted ||
           peer->error < 0 || peer->link.state == OFI_LINK_SYNCING || peer->window.ask;
}

/* Serves the active peers in turn. A peer that made progress moves to the end of the list. */
static int pump_peers(struct ofi_driver *ofi, unsigned budget)
{
    int moved = 0;
    const uint64_t now_ns = clock_now_ns();
    struct ofi_peer *peer = ofi->active.next_active, *end = ofi->active.previous_active, *next;
    for (bool more = peer != &ofi->active; more && (unsigned)moved < budget; peer = next) {
        next = peer->next_active;
        more = peer != end;
        if (peer->error <
            0) { /* the owner is told, and may disconnect peers: the list may have changed */
            ofi_peer_complete_failed(ofi, peer);
            return moved + 1;
        }
        int posted = 0;
        if (!too_early(peer, now_ns)) {
            posted = ofi_peer_pump(ofi, peer, OFI_POST_BUDGET);
            moved += posted;
            peer->retry_ns = now_ns + OFI_RETRY_MS * UINT64_C(1000000);
        }
        ofi_link_run(ofi, peer, now_ns);
        if (!has_work(peer)) {
            ofi_peer_deactivate(peer);
        } else if (posted > 0) {
            ofi_peer_deactivate(peer);
            ofi_peer_activate(ofi, peer);
        }
    }
    return moved;
}

static void repost_recvs(struct ofi_driver *ofi)
{
    struct ofi_request *request = ofi->requests.recvs;
    ofi->requests.recvs = NULL;
    while (request) {
        struct ofi_request *next = request->next;
        repost_recv(ofi, request);
        request = next;
    }
}

int ofi_progress(struct driver *driver, unsigned budget)
{
    struct ofi_driver *ofi = ofi_of(driver);
    int moved = take_completions(ofi, budget);
    if (moved < 0)
        return moved;
    if (ofi->requests.recvs)
        repost_recvs(ofi);
    if (ofi->active.next_active != &ofi->active)
        moved += pump_peers(ofi, budget);
    if (ofi->owed)
        moved += ofi_sources_credit(ofi, moved == 0);
    if (ofi_quarantine_waiting(ofi))
        moved += ofi_quarantine_run(ofi);
    return moved;
}

int ofi_event_fd(struct driver *driver)
{
    return ofi_of(driver)->event_fd;
}

static void set_timer(struct ofi_driver *ofi, uint64_t period_ms)
{
    if (period_ms == ofi->timer_ms)
        return;
    struct timespec period = {.tv_sec = (time_t)(period_ms / 1000),
                              .tv_nsec = (long)(period_ms % 1000) * 1000000};
    struct itimerspec timer = {.it_interval = period, .it_value = period};
    timerfd_settime(ofi->timer_fd, 0, &timer, NULL);
    ofi->timer_ms = period_ms;
}

/* 0: until a message or a completion arrives. */
static uint64_t quarantine_after_ms(struct ofi_driver *ofi)
{
    if (!ofi_quarantine_waiting(ofi))
        return 0;
    const uint64_t due_ns = ofi_quarantine_due_ns(ofi), now_ns = clock_now_ns();
    if (due_ns == UINT64_MAX)
        return 0;
    return due_ns > now_ns ? (due_ns - now_ns) / UINT64_C(1000000) + 1 : 1;
}

/* The period of the timer, for work that no completion announces; 0: there is none. */
static uint64_t wake_after_ms(struct ofi_driver *ofi)
{
    if (ofi->requests.recvs || !ofi->cq_has_fd || ofi_sources_urgent(ofi))
        return OFI_RETRY_MS;
    uint64_t after_ms = ofi->owed ? OFI_CREDIT_MS : quarantine_after_ms(ofi);
    for (const struct ofi_peer *peer = ofi->active.next_active; peer != &ofi->active;
         peer = peer->next_active) {
        if (peer->blocked == OFI_BLOCKED_PROVIDER || peer->link.refused)
            return OFI_RETRY_MS;
        if (after_ms == 0 || after_ms > OFI_AGAIN_MS)
            after_ms = OFI_AGAIN_MS;
    }
    return after_ms;
}

/*
 * For net, of libfabric 1.16 and 1.17: its descriptor is an epoll set of its connections and of a
 * signal, which the first completion sets and nothing resets. So the descriptor is watched for
 * edges. It is dry if, after the last edge was consumed, there is no completion and no event except
 * the signal.
 */
static bool is_dry(struct ofi_driver *ofi)
{
    struct epoll_event events[2];
    epoll_wait(ofi->event_fd, events, 2, 0);
    if (fi_cq_read(ofi->cq, NULL, 0) != -FI_EAGAIN)
        return false;
    return epoll_wait(ofi->cq_fd, events, 2, 0) <= (ofi->cq_signalled ? 1 : 0);
}

int ofi_arm(struct driver *driver)
{
    struct ofi_driver *ofi = ofi_of(driver);
    uint64_t ticks;
    if (ofi->timer_ms > 0 && read(ofi->timer_fd, &ticks, sizeof(ticks)) == sizeof(ticks))
        return -EAGAIN;
    for (const struct ofi_peer *peer = ofi->active.next_active; peer != &ofi->active;
         peer = peer->next_active)
        if (peer->error < 0 || (peer->blocked == OFI_RUNNING && window_next_put(&peer->window)) ||
            (peer->link.state == OFI_LINK_READY && peer->link.again != peer->window.made &&
             peer->blocked == OFI_RUNNING))
            return -EAGAIN;
    if (atomic_load_explicit(&ofi->recall.woken, memory_order_relaxed))
        return -EAGAIN;
    set_timer(ofi, wake_after_ms(ofi));

    if (ofi->cq_edges)
        return is_dry(ofi) ? 0 : -EAGAIN;
    struct fid *fids[] = {&ofi->cq->fid};
    if (ofi->cq_has_fd && fi_trywait(ofi->fabric, fids, 1) != FI_SUCCESS)
        return -EAGAIN;
    return 0;
}
