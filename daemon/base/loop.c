#include "daemon/base/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/loop_internal.h"

/* How long the loop looks for an expected post before it sleeps: about as long as a wake-up
 * takes. */
enum { EXPECT_SPIN_NS = 5000, EXPECT_YIELD_NS = 20000 };

struct event_base *loop_base(struct loop *loop)
{
    return loop->base;
}

/* Rounded up: a timer of 1 ns is not one of 0. */
static struct timeval loop_timeval(uint64_t ns)
{
    uint64_t us = ns / 1000 + (ns % 1000 != 0);
    return (struct timeval){.tv_sec = (time_t)(us / 1000000),
                            .tv_usec = (suseconds_t)(us % 1000000)};
}

/* ---- the loop ---- */

/* The posts are run at the end of the turn. */
static void posted(int fd, short what, void *context)
{
    eventfd_t count;
    eventfd_read(fd, &count); /* non-blocking; resets it */
    loop_awake(context);
}

static struct event_base *base_new(void)
{
    struct event_config *config = event_config_new();
    if (!config)
        return NULL;
    /* One thread calls libevent. Without a cached time, a timer set in a long callback counts from
     * that call and not from the start of the callback. */
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    event_config_set_flag(config, EVENT_BASE_FLAG_NO_CACHE_TIME);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

int loop_new(struct loop **ret_loop)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return -ENOMEM;
    loop->last = &loop->first;
    loop->last_taken = &loop->taken;
    loop->last_job = &loop->jobs;
    pthread_mutex_init(&loop->mutex, NULL);
    waiter_init(&loop->waiter, EXPECT_SPIN_NS, EXPECT_YIELD_NS);
    loop->posted_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = loop->posted_fd < 0 ? -errno : 0;
    if (r == 0) {
        loop->base = base_new();
        if (loop->base)
            loop->posted =
                event_new(loop->base, loop->posted_fd, EV_READ | EV_PERSIST, posted, loop);
        if (!loop->posted || event_add(loop->posted, NULL) < 0)
            r = -ENOMEM;
    }
    if (r < 0) {
        loop_free(loop);
        return r;
    }
    *ret_loop = loop;
    return 0;
}

struct loop *loop_free(struct loop *loop)
{
    if (!loop)
        return NULL;
    if (loop->posted)
        event_free(loop->posted);
    if (loop->base)
        event_base_free(loop->base);
    if (loop->posted_fd >= 0)
        close(loop->posted_fd);
    pthread_mutex_destroy(&loop->mutex);
    free(loop);
    return NULL;
}

int loop_run(struct loop *loop)
{
    int r = 0;
    loop->stopped = false;
    while (!loop->stopped && r >= 0) {
        const int wait = loop_may_sleep(loop) ? 0 : EVLOOP_NONBLOCK;
        r = event_base_loop(loop->base, EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY | wait);
        loop_run_posts(loop);
        loop_run_jobs(loop);
        loop_run_lasts(loop);
        loop_turn_over(loop);
    }
    return r < 0 ? -EIO : 0;
}

void loop_stop(struct loop *loop)
{
    loop->stopped = true;
    event_base_loopbreak(loop->base);
}

/* ---- descriptors ---- */

struct loop_io {
    struct loop *loop;
    struct event *event;
    int fd;
    unsigned events;
    void (*ready)(void *context, unsigned events);
    void *context;
};

static void io_ready(int fd, short what, void *context)
{
    struct loop_io *io = context;
    loop_awake(io->loop);
    io->ready(io->context,
              ((what & EV_READ) ? LOOP_READ : 0) | ((what & EV_WRITE) ? LOOP_WRITE : 0));
}

int loop_io_set(struct loop_io *io, unsigned events)
{
    if (io->events == events)
        return 0;
    event_del(io->event);
    io->events = 0;
    if (!events)
        return 0;
    short what = (short)(EV_PERSIST | ((events & LOOP_READ) ? EV_READ : 0) |
                         ((events & LOOP_WRITE) ? EV_WRITE : 0));
    if (event_assign(io->event, io->loop->base, io->fd, what, io_ready, io) < 0 ||
        event_add(io->event, NULL) < 0)
        return -EINVAL; /* a descriptor that epoll does not support */
    io->events = events;
    return 0;
}

int loop_io_new(struct loop *loop, int fd, unsigned events,
                void (*ready)(void *context, unsigned events), void *context,
                struct loop_io **ret_io)
{
    struct loop_io *io = malloc(sizeof(*io));
    if (!io)
        return -ENOMEM;
    *io = (struct loop_io){.loop = loop, .fd = fd, .ready = ready, .context = context};
    io->event = event_new(loop->base, fd, 0, io_ready, io);
    int r = io->event ? loop_io_set(io, events) : -ENOMEM;
    if (r < 0) {
        loop_io_free(io);
        return r;
    }
    *ret_io = io;
    return 0;
}

struct loop_io *loop_io_free(struct loop_io *io)
{
    if (!io)
        return NULL;
    if (io->event)
        event_free(io->event);
    free(io);
    return NULL;
}

/* ---- timers ---- */

struct loop_timer {
    struct loop *loop;
    struct event *event;
    uint64_t interval_ns;
    void (*expired)(void *context);
    void *context;
};

static void timer_expired(int fd, short what, void *context)
{
    struct loop_timer *timer = context;
    loop_awake(timer->loop);
    if (timer->interval_ns) {
        struct timeval interval = loop_timeval(timer->interval_ns);
        event_add(timer->event, &interval); /* cannot fail: its entry in the heap is reserved */
    }
    timer->expired(timer->context);
}

int loop_timer_new(struct loop *loop, void (*expired)(void *context), void *context,
                   struct loop_timer **ret_timer)
{
    struct loop_timer *timer = malloc(sizeof(*timer));
    if (!timer)
        return -ENOMEM;
    *timer = (struct loop_timer){.loop = loop, .expired = expired, .context = context};
    timer->event = event_new(loop->base, -1, 0, timer_expired, timer);
    if (!timer->event) {
        free(timer);
        return -ENOMEM;
    }
    *ret_timer = timer;
    return 0;
}

int loop_timer_set(struct loop_timer *timer, uint64_t delay_ns, uint64_t interval_ns)
{
    struct timeval delay = loop_timeval(delay_ns);
    timer->interval_ns = interval_ns;
    return event_add(timer->event, &delay) < 0 ? -ENOMEM : 0;
}

void loop_timer_stop(struct loop_timer *timer)
{
    timer->interval_ns = 0;
    event_del(timer->event);
}

struct loop_timer *loop_timer_free(struct loop_timer *timer)
{
    if (!timer)
        return NULL;
    event_free(timer->event);
    free(timer);
    return NULL;
}

/* ---- signals ---- */

struct loop_signal {
    struct loop *loop;
    struct event *event;
    void (*raised)(void *context);
    void *context;
};

static void signal_raised(int number, short what, void *context)
{
    struct loop_signal *signal = context;
    loop_awake(signal->loop);
    signal->raised(signal->context);
}

int loop_signal_new(struct loop *loop, int number, void (*raised)(void *context), void *context,
                    struct loop_signal **ret_signal)
{
    struct loop_signal *signal = malloc(sizeof(*signal));
    if (!signal)
        return -ENOMEM;
    *signal = (struct loop_signal){.loop = loop, .raised = raised, .context = context};
    signal->event = evsignal_new(loop->base, number, signal_raised, signal);
    if (!signal->event || event_add(signal->event, NULL) < 0) {
        loop_signal_free(signal);
        return -ENOMEM;
    }
    *ret_signal = signal;
    return 0;
}

struct loop_signal *loop_signal_free(struct loop_signal *signal)
{
    if (!signal)
        return NULL;
    if (signal->event)
        event_free(signal->event);
    free(signal);
    return NULL;
}
