/* Instances: what is in them, and their rounds: what is to be written, what has come, what is
 * due. */
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "drivers/seat.h"
#include "drivers/table.h"
#include "drivers/tcp/tcp.h"
#include "proto/wait.h"

/* ---- life ---- */

static int set_up(struct tcp_driver *tcp)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &tcp->timer_fd};
    tcp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    tcp->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    return tcp->epoll_fd < 0 || tcp->timer_fd < 0 ||
                   epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, tcp->timer_fd, &event) < 0
               ? -errno
               : 0;
}

int tcp_instance_new(const struct driver_events *events, struct tcp_driver **ret_tcp)
{
    struct tcp_driver *tcp = calloc(1, sizeof(*tcp));
    if (!tcp)
        return -ENOMEM;
    tcp->driver = (struct driver){.ops = &tcp_driver_ops, .events = *events};
    tcp->trunk = tcp;
    tcp->process = getpid();
    tcp->epoll_fd = tcp->timer_fd = -1;
    tcp->landings = LANDINGS_INIT;
    pthread_mutex_init(&tcp->listener.lock, NULL);
    int r = set_up(tcp);
    if (r < 0) {
        tcp_close(&tcp->driver);
        return r;
    }
    *ret_tcp = tcp;
    return 0;
}

/* It dials as the instance. */
static int branch(struct driver *driver, const struct driver_events *events,
                  struct driver **ret_branch)
{
    struct tcp_driver *trunk = tcp_of(driver), *tcp;
    int r = tcp_instance_new(events, &tcp);
    if (r < 0)
        return r;
    tcp->trunk = trunk;
    tcp->address = trunk->address;
    tcp->address.count = 0;
    tcp->kernel_tls = trunk->kernel_tls;
    *ret_branch = &tcp->driver;
    return 0;
}

void tcp_free_later(struct tcp_driver *tcp, struct tcp_object *object)
{
    object->next_dead = tcp->dead;
    tcp->dead = object;
}

static void free_dead(struct tcp_driver *tcp)
{
    while (tcp->dead) {
        struct tcp_object *object = tcp->dead;
        tcp->dead = object->next_dead;
        free(object);
    }
}

void tcp_close(struct driver *driver)
{
    struct tcp_driver *tcp = tcp_of(driver);
    while (tcp->receivers)
        tcp_receiver_free(tcp->receivers);
    tcp_listener_deinit(tcp);
    free_dead(tcp);
    if (tcp->timer_fd >= 0)
        close(tcp->timer_fd);
    if (tcp->epoll_fd >= 0)
        close(tcp->epoll_fd);
    SSL_CTX_free(tcp->tls);
    BIO_meth_free(tcp->seal_method);
    landings_deinit(&tcp->landings);
    free(tcp);
}

static int address(struct driver *driver, void *ret_address)
{
    memcpy(ret_address, &tcp_of(driver)->address, sizeof(struct tcp_address));
    return sizeof(struct tcp_address);
}

/* ---- rounds ---- */

static int take_event(struct tcp_driver *tcp, const struct epoll_event *event, uint64_t now_ns)
{
    void *whose = event->data.ptr;
    uint64_t ticks;
    if (whose == &tcp->listener)
        tcp_listener_accept(tcp, now_ns);
    else if (whose != &tcp->timer_fd)
        return tcp_connection_event(whose, event->events, now_ns);
    else if (read(tcp->timer_fd, &ticks, sizeof(ticks)) > 0)
        tcp->timer_ns = 0;
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

/* Counts that nobody waits for come as events. */
static bool has_work(const struct tcp_peer *peer)
{
    const struct tcp_sender *sender = &peer->sender;
    const struct window *window = &sender->window;
    return !tcp_is_up(sender->connection) || sender->written < window->made || window->ask ||
           window->asked > window->counted || window_next_put(window) ||
           tcp_receiver_unsent(peer->receiver);
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
        moved += tcp_sender_work(peer, now_ns);
        if (!has_work(peer))
            tcp_peer_deactivate(peer);
    }
    return moved;
}

int tcp_progress(struct driver *driver, unsigned budget)
{
    struct tcp_driver *tcp = tcp_of(driver);
    const uint64_t now_ns = clock_now_ns();
    int moved = tcp->active ? work(tcp, budget, now_ns) : 0;
    if (tcp->polled_count > 0)
        moved += tcp_receivers_poll(tcp, now_ns);
    const bool idle = moved == 0 && tcp->polled_count == 0;
    if (idle || tcp->polled_count > TCP_POLLED_MAX || ++tcp->rounds % TCP_EVENTS_EVERY == 0 ||
        now_ns - tcp->events_ns >= TCP_EVENTS_US * UINT64_C(1000)) {
        tcp->events_ns = now_ns;
        moved += take_events(tcp, now_ns);
        tcp_listener_expire(tcp, now_ns);
        tcp_receivers_expire(tcp, now_ns);
    }
    free_dead(tcp);
    return moved;
}

/* ---- sleeping ---- */

static int event_fd(struct driver *driver)
{
    return tcp_of(driver)->epoll_fd;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* 0: nothing is. */
static uint64_t due_ns(const struct tcp_driver *tcp)
{
    uint64_t due = 0;
    for (const struct tcp_receiver *at = tcp->receivers; at; at = at->next)
        due = earlier(due, tcp_receiver_due_ns(at));
    for (const struct tcp_connection *at = tcp->listener.accepted; at; at = at->next_accepted)
        due = earlier(due, at->deadline_ns);
    for (const struct tcp_peer *at = tcp->active; at; at = at->next_active)
        due = earlier(due, tcp_sender_due_ns(at));
    return due;
}

/* Without an event. */
static bool has_something(const struct tcp_driver *tcp)
{
    for (const struct tcp_receiver *at = tcp->receivers; at; at = at->next)
        if (tcp_is_up(at->connection) && at->connection->readable && !at->held)
            return true;
    for (const struct tcp_peer *at = tcp->active; at; at = at->next_active) {
        const struct tcp_sender *sender = &at->sender;
        if (at->failed < 0 ||
            (tcp_is_up(sender->connection) && sender->connection->writable &&
             (sender->written < sender->window.made || tcp_receiver_unsent(at->receiver))))
            return true;
    }
    return false;
}

static int arm(struct driver *driver)
{
    struct tcp_driver *tcp = tcp_of(driver);
    const uint64_t due = due_ns(tcp);
    if (has_something(tcp) || (due != 0 && due <= clock_now_ns()))
        return -EAGAIN;
    if (due == tcp->timer_ns)
        return 0;
    const struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(due / 1000000000), .tv_nsec = (long)(due % 1000000000)}};
    tcp->timer_ns = due;
    return timerfd_settime(tcp->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) < 0 ? -errno : 0;
}

static const struct driver_pair_ops pair_ops = {
    .seat = &tca_tcp_seat,
    .expect = tcp_pair_expect,
    .forget = tcp_pair_forget,
    .dial = tcp_pair_dial,
};

const struct driver_ops tcp_driver_ops = {
    .name = "tcp",
    .id = DRIVER_TCP,
    .probe = tcp_probe,
    .open = tcp_open,
    .branch = branch,
    .close = tcp_close,
    .address = address,
    .region_add = mapped_add,
    .region_remove = mapped_remove,
    .peer_connect = tcp_peer_connect,
    .peer_disconnect = tcp_peer_disconnect,
    .peer_fail = tcp_peer_fail,
    .landing_compile = packed_landing_compile,
    .landing_new = tcp_landing_new,
    .landing_free = tcp_landing_free,
    .landing_bytes = tcp_landing_bytes,
    .put_compile = packed_put_compile,
    .put_prepare = tcp_put_prepare,
    .put_release = tcp_put_release,
    .put_part = tcp_put_part,
    .put_post = tcp_put_post,
    .put_stop = window_put_stop,
    .peer_flush = tcp_peer_flush,
    .progress = tcp_progress,
    .event_fd = event_fd,
    .arm = arm,
    .door = tcp_door,
    .admit = tcp_admit,
    .shut = tcp_shut,
    .encrypts = tcp_encrypts,
    .pairs = &pair_ops,
};
