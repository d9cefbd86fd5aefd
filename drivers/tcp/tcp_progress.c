/* The driver's round: what is to be written, what has come, what is due. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "drivers/patience.h"
#include "drivers/tcp/tcp.h"
#include "proto/wait.h"

void tcp_free_later(struct tcp_driver *tcp, struct tcp_stream *stream)
{
    stream->role = TCP_DEAD;
    stream->next_dead = tcp->dead;
    tcp->dead = stream;
}

static void free_dead(struct tcp_driver *tcp)
{
    while (tcp->dead) {
        struct tcp_stream *stream = tcp->dead;
        tcp->dead = stream->next_dead;
        free(stream);
    }
}

/* ---- what has come ---- */

static bool is_open(const struct tcp_source *source)
{
    return source->stream.fd >= 0 && (!source->peer || source->peer->link.state == TCP_LINK_UP);
}

/* For both directions of the connection. */
static int take_pair_event(struct tcp_driver *tcp, struct tcp_source *source, uint64_t now_ns)
{
    if (source->stream.fd < 0)
        return 0;
    tcp_peer_activate(source->peer);
    int moved = tcp_link_work(source->peer, now_ns);
    return moved + (is_open(source) ? tcp_source_read(tcp, source, now_ns) : 0);
}

static int take_source_event(struct tcp_driver *tcp, struct tcp_source *source, uint64_t now_ns)
{
    struct tcp_stream *stream = &source->stream;
    if (source->peer)
        return take_pair_event(tcp, source, now_ns);
    if (source->outbox_bytes > 0 || tcp_stream_flush(stream) < 0)
        tcp_source_tell(tcp, source, now_ns);
    return stream->fd >= 0 ? tcp_source_read(tcp, source, now_ns) : 0;
}

static int take_event(struct tcp_driver *tcp, const struct epoll_event *event, uint64_t now_ns)
{
    struct tcp_stream *stream = event->data.ptr;
    uint64_t ticks;
    stream->readable |= (event->events & ~(uint32_t)EPOLLOUT) != 0;
    stream->ended |= (event->events & (EPOLLRDHUP | EPOLLERR | EPOLLHUP)) != 0;
    stream->writable |= (event->events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0;
    switch (stream->role) {
    case TCP_LISTENER:
        tcp_accept(tcp, now_ns);
        break;
    case TCP_TIMER:
        if (read(stream->fd, &ticks, sizeof ticks) > 0)
            tcp->timer_ns = 0;
        break;
    case TCP_OPENING:
        tcp_opening_work(tcp, (struct tcp_opening *)stream, now_ns);
        break;
    case TCP_LINK:
        tcp_peer_activate((struct tcp_peer *)stream);
        break;
    case TCP_SOURCE:
        return take_source_event(tcp, (struct tcp_source *)stream, now_ns);
    case TCP_DEAD:
        break;
    }
    return 0;
}

static int take_events(struct tcp_driver *tcp, uint64_t now_ns)
{
    struct epoll_event events[TCP_EVENTS];
    int moved = 0;
    int count = epoll_wait(tcp->epoll_fd, events, TCP_EVENTS, 0);
    for (int i = 0; i < count; i++)
        moved += take_event(tcp, &events[i], now_ns);
    return moved + (count > 0);
}

/* Sources that had data lately are read without asking: one call for each instead of two. Of many,
 * only those that are known to have more. */
static int read_hot(struct tcp_driver *tcp, uint64_t now_ns)
{
    const bool few = tcp->hot_count <= TCP_HOT_MAX;
    int moved = 0;
    for (struct tcp_source *source = tcp->sources, *next; source && tcp->hot_count > 0;
         source = next) {
        next = source->next;
        if (source->hot == 0)
            continue;
        tcp->hot_count -= --source->hot == 0;
        if (few || source->stream.readable)
            moved += tcp_source_read(tcp, source, now_ns);
    }
    return moved;
}

static int work(struct tcp_driver *tcp, unsigned budget, uint64_t now_ns)
{
    int moved = 0;
    for (struct tcp_peer *peer = tcp->active, *next; peer; peer = next) {
        next = peer->next_active;
        if (peer->failed < 0) {
            tcp_peer_lose(peer, peer->failed);
            continue;
        }
        moved += tcp_puts_pump(peer, budget);
        moved += tcp_link_work(peer, now_ns);
        const struct tcp_link *link = &peer->link;
        /* Counts that nobody waits for come as events. */
        if (link->state == TCP_LINK_UP && link->written == link->window.made && !link->ask &&
            link->telling <= link->window.counted && !window_next_put(&link->window) &&
            !tcp_source_unsent(peer->source))
            tcp_peer_deactivate(peer);
    }
    return moved;
}

/* ---- what is due ---- */

static void tell_due(struct tcp_driver *tcp, uint64_t now_ns)
{
    for (struct tcp_source *source = tcp->sources, *next; source; source = next) {
        next = source->next;
        if (source->tell_ns != 0 && now_ns >= source->tell_ns)
            tcp_source_tell(tcp, source, now_ns);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* 0: nothing is. */
static uint64_t due_ns(const struct tcp_driver *tcp)
{
    uint64_t due = 0;
    for (const struct tcp_source *source = tcp->sources; source; source = source->next) {
        due = earlier(due, source->tell_ns);
        if (source->broken_ns != 0)
            due = earlier(due, source->broken_ns + (TCP_FORGET_MS + 1) * TCP_MS);
    }
    for (const struct tcp_opening *opening = tcp->openings; opening; opening = opening->next)
        due = earlier(due, opening->deadline_ns);
    for (const struct tcp_peer *peer = tcp->active; peer; peer = peer->next_active) {
        const struct tcp_link *link = &peer->link;
        if (link->state != TCP_LINK_UP)
            due = earlier(due, link->retry_ns);
        if (link->broken_ns != 0 && !peer->source)
            due = earlier(due, link->looked_ns + PATIENCE_LOOK_NS);
    }
    return due;
}

int tcp_progress(struct driver *driver, unsigned budget)
{
    struct tcp_driver *tcp = tcp_of(driver);
    const uint64_t now_ns = clock_now_ns();
    int moved = tcp->active ? work(tcp, budget, now_ns) : 0;
    if (tcp->hot_count > 0)
        moved += read_hot(tcp, now_ns);
    const bool idle = moved == 0 && tcp->hot_count == 0;
    if (idle || tcp->hot_count > TCP_HOT_MAX || ++tcp->rounds % TCP_POLL_EVERY == 0 ||
        now_ns - tcp->polled_ns >= TCP_POLL_US * UINT64_C(1000)) {
        tcp->polled_ns = now_ns;
        moved += take_events(tcp, now_ns);
        tell_due(tcp, now_ns);
        tcp_openings_expire(tcp, now_ns);
        tcp_sources_expire(tcp, now_ns);
    }
    free_dead(tcp);
    return moved;
}

/* ---- sleeping ---- */

int tcp_event_fd(struct driver *driver)
{
    return tcp_of(driver)->epoll_fd;
}

int tcp_arm(struct driver *driver)
{
    struct tcp_driver *tcp = tcp_of(driver);
    const uint64_t now_ns = clock_now_ns(), due = due_ns(tcp);
    if (due != 0 && due <= now_ns)
        return -EAGAIN;
    for (const struct tcp_source *source = tcp->sources; source; source = source->next)
        if (is_open(source) && source->stream.readable && !source->held)
            return -EAGAIN;
    for (const struct tcp_peer *peer = tcp->active; peer; peer = peer->next_active) {
        const struct tcp_link *link = &peer->link;
        if (peer->failed < 0 || link->state == TCP_LINK_IDLE ||
            (link->state == TCP_LINK_UP && link->stream->writable &&
             (link->written < link->window.made || tcp_source_unsent(peer->source))))
            return -EAGAIN;
    }
    if (due == tcp->timer_ns)
        return 0;
    const struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(due / 1000000000), .tv_nsec = (long)(due % 1000000000)}};
    tcp->timer_ns = due;
    return timerfd_settime(tcp->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) < 0 ? -errno : 0;
}
