/* Processes interrupts and timers, and prepares to sleep. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "drivers/peach2/peach2.h"
#include "proto/wait.h"

enum { LOOK_ROUNDS = 4096 }; /* polling rounds between two checks of the board's connection */

int peach2_events_open(struct peach2 *peach2)
{
    struct epoll_event event = {.events = EPOLLIN};
    peach2->event_fd = epoll_create1(EPOLL_CLOEXEC);
    peach2->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (peach2->event_fd < 0 || peach2->timer_fd < 0 ||
        epoll_ctl(peach2->event_fd, EPOLL_CTL_ADD, peach2->timer_fd, &event) < 0)
        return -errno;
    return 0;
}

/* Removes the descriptors explicitly, because the board has a duplicate of the interrupt: closing
 * ours would not remove it from the epoll set while the board lives. */
static void events_unwatch(struct peach2 *peach2)
{
    epoll_ctl(peach2->event_fd, EPOLL_CTL_DEL, peach2->device.interrupt_fd, NULL);
    epoll_ctl(peach2->event_fd, EPOLL_CTL_DEL, peach2->device.control, NULL);
}

int peach2_events_watch(struct peach2 *peach2)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(peach2->event_fd, EPOLL_CTL_ADD, peach2->device.interrupt_fd, &event) < 0 ||
        epoll_ctl(peach2->event_fd, EPOLL_CTL_ADD, peach2->device.control, &event) < 0)
        return -errno;
    return 0;
}

int peach2_event_fd(struct driver *driver)
{
    return peach2_of(driver)->event_fd;
}

/* ---- loss and return of the board ---- */

void peach2_board_lost(struct peach2 *peach2)
{
    pthread_mutex_lock(&peach2->lock);
    bool was_gone = peach2->gone;
    peach2->gone = true;
    if (!was_gone) {
        events_unwatch(peach2);
        peach2_device_disable(&peach2->device);
        peach2_device_detach(&peach2->device);
    }
    pthread_mutex_unlock(&peach2->lock);
    if (was_gone)
        return;
    peach2_links_none(peach2);
    peach2->line.mask = 0;
    peach2->reattach_ns = clock_now_ns();
    peach2_messages_take(peach2); /* what the board has delivered to our rings counts */
    peach2_channels_lost(peach2);
}

/* Whether the board lives: the connection ends with it. */
static bool lives(const struct peach2 *peach2)
{
    char byte;
    ssize_t r = recv(peach2->device.control, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return r > 0 || (r < 0 && (errno == EAGAIN || errno == EINTR));
}

static unsigned look_for_board(struct peach2 *peach2, uint64_t now_ns)
{
    struct device *coming = &peach2->coming;
    if (coming->control < 0) {
        if (now_ns < peach2->reattach_ns)
            return 0;
        peach2->reattach_ns = now_ns + (uint64_t)REATTACH_MS * 1000000;
        coming->path = peach2->device.path;
        if (peach2_device_dial(coming) < 0)
            return 0;
    }
    if (peach2_device_attach(coming, 0) < 0) /* without waiting, in case it is stuck */
        return 0;
    const struct device none = {.control = -1, .interrupt_fd = -1, .bell_fd = -1};
    const uint32_t node = peach2->device.node;
    pthread_mutex_lock(&peach2->lock);
    coming->epoch = peach2->device.epoch;
    peach2->device = *coming;
    *coming = none;
    peach2->gone = false;
    int r = peach2->device.node == node ? peach2_set_up(peach2) : -EPROTO;
    if (r == 0)
        r = peach2_events_watch(peach2);
    if (r < 0) {
        events_unwatch(peach2);
        peach2_device_detach(&peach2->device);
        peach2->device.node = node;
        peach2->gone = true;
    }
    pthread_mutex_unlock(&peach2->lock);
    return r == 0;
}

/* ---- rounds ---- */

static unsigned take_cause(struct peach2 *peach2)
{
    _Atomic uint32_t *cause = &peach2->device.bar0->cause;
    unsigned moved = 0;
    if (atomic_load_explicit(cause, memory_order_relaxed) == 0)
        return 0;
    uint32_t bits = atomic_exchange(
        cause, 0); /* before reading what was stored for them: pairs with the board's fence */
    peach2_fault_discarded(peach2, bits);
    if (bits & PEACH2_CAUSE_NOTIFY)
        moved += peach2_messages_take(peach2);
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++) {
        if (bits & PEACH2_CAUSE_DONE << i)
            moved += peach2_channel_look(peach2, i);
        if (bits & PEACH2_CAUSE_ERROR << i && peach2->device.bar0)
            peach2_channel_failed(peach2, i);
    }
    if (bits & (PEACH2_CAUSE_PORT | PEACH2_CAUSE_SCRATCH) && peach2->device.bar0)
        peach2_links_look(peach2);
    if (bits & PEACH2_CAUSE_GAP && peach2->device.bar0)
        for (unsigned i = 0; i < PEACH2_NODES; i++)
            peach2->sources[i].gap |= atomic_load(&peach2->device.bar0->broken) >> i & 1;
    return moved + 1;
}

static unsigned look_at_time(struct peach2 *peach2)
{
    uint64_t now_ns = clock_now_ns();
    unsigned moved = peach2_flushes_run(peach2, now_ns);
    if (now_ns - peach2->tick_ns < (uint64_t)TICK_MS * 1000000)
        return moved;
    peach2->tick_ns = now_ns;
    if (!peach2->gone && !lives(peach2))
        peach2_board_lost(peach2);
    if (peach2->gone)
        moved += look_for_board(peach2, now_ns);
    return moved + peach2_peers_tick(peach2, now_ns);
}

static bool fail_pending(const struct peach2 *peach2)
{
    for (const struct peer *peer = peach2->peers; peer; peer = peer->next)
        if (peer->fail_pending)
            return true;
    return false;
}

int peach2_progress(struct driver *driver, unsigned budget)
{
    struct peach2 *peach2 = peach2_of(driver);
    unsigned moved = 0;
    if (peach2->device.bar0)
        moved += take_cause(peach2);
    if (peach2->device.bar0)
        moved += peach2_messages_send(peach2);
    for (struct peer *peer = peach2->peers, *next; peer; peer = next) {
        next = peer->next;
        moved += peach2_channel_pump(peach2, peer);
    }
    if (fail_pending(peach2))
        peach2->tick_ns = 0;
    if (peach2_recall_due(peach2))
        moved += peach2_recall_run(peach2, clock_now_ns());
    if (peach2->gone || peach2_peers_waiting(peach2) || ++peach2->rounds % LOOK_ROUNDS == 0)
        moved += look_at_time(peach2);
    return (int)moved;
}

static void set_timer(struct peach2 *peach2, bool on)
{
    const struct itimerspec tick = {.it_interval.tv_nsec = on ? TICK_MS * 1000000 : 0,
                                    .it_value.tv_nsec = on ? TICK_MS * 1000000 : 0};
    uint64_t ignored;
    ssize_t r = read(peach2->timer_fd, &ignored, sizeof(ignored));
    (void)r; /* fails if it has not expired */
    if (on != peach2->timer_on)
        timerfd_settime(peach2->timer_fd, 0, &tick, NULL);
    peach2->timer_on = on;
}

int peach2_arm(struct driver *driver)
{
    struct peach2 *peach2 = peach2_of(driver);
    eventfd_t ignored;
    if (!peach2->gone && !lives(peach2))
        peach2_board_lost(peach2);
    set_timer(peach2, peach2->gone || peach2_peers_waiting(peach2) || peach2_recall_due(peach2));
    if (peach2->gone)
        return fail_pending(peach2) ? -EAGAIN : 0;
    eventfd_read(peach2->device.interrupt_fd, &ignored);
    atomic_store(&peach2->device.bar0->mask, UINT32_MAX);
    atomic_thread_fence(memory_order_seq_cst); /* before the last check: pairs with the board's */
    if (atomic_load(&peach2->device.bar0->cause) == 0 && !fail_pending(peach2))
        return 0;
    atomic_store(&peach2->device.bar0->mask, 0);
    return -EAGAIN;
}
