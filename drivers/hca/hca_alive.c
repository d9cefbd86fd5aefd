/*
 * Whether the other end of a connection is still there. A device acknowledges messages, and the
 * peer's program counts them later. If the other end goes away in between (only its port went down,
 * only its daemon was told), no packet is left that this device would send again in vain. So while
 * somebody waits for a count that does not come, a write of no bytes is sent now and then: it takes
 * no receive buffer and needs no key, and if nobody acknowledges it, the device fails the
 * connection.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "drivers/hca/hca.h"
#include "proto/wait.h"

#define LOOK_NS UINT64_C(250000000)

int hca_alive_init(struct hca_driver *hca)
{
    struct epoll_event event = {.events = EPOLLIN};
    hca->look_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return hca->look_fd < 0 || epoll_ctl(hca->epoll_fd, EPOLL_CTL_ADD, hca->look_fd, &event) < 0
               ? -errno
               : 0;
}

void hca_alive_deinit(struct hca_driver *hca)
{
    if (hca->look_fd >= 0)
        close(hca->look_fd);
}

/* Its descriptor is not readable until it expires. */
static void set_timer(struct hca_driver *hca, bool on)
{
    const struct itimerspec after = {.it_value.tv_nsec = on ? LOOK_NS : 0};
    hca->look_ns = on ? clock_now_ns() + LOOK_NS : 0;
    timerfd_settime(hca->look_fd, 0, &after, NULL);
}

void hca_alive_watch(struct hca_driver *hca)
{
    if (hca->look_ns == 0)
        set_timer(hca, true);
}

static bool waits(const struct hca_peer *peer)
{
    return peer->answered && peer->error == 0 && peer->failing == 0 &&
           (peer->window.asked > peer->window.counted || peer->window.flushes.first ||
            window_next_put(&peer->window));
}

static void send_nothing(struct hca_peer *peer)
{
    struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE};
    hca_send_chain(peer, &request, 1, NULL); /* -EAGAIN: the queue is full of others */
}

static void look(struct hca_driver *hca)
{
    bool any = recall_is_busy(&hca->recall); /* it has a deadline */
    pthread_mutex_lock(&hca->lock);
    for (struct hca_peer *peer = hca->peers; peer; peer = peer->next) {
        const bool is_waiting = waits(peer);
        if (is_waiting && peer->looked && peer->looked_counted == peer->window.counted)
            send_nothing(peer);
        peer->looked = is_waiting;
        peer->looked_counted = peer->window.counted;
        any |= is_waiting;
    }
    pthread_mutex_unlock(&hca->lock);
    set_timer(hca, any);
}

void hca_alive_look(struct hca_driver *hca)
{
    if (hca->look_ns > 0 && clock_now_ns() >= hca->look_ns)
        look(hca);
}
