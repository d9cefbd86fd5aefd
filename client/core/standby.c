#include "client/core/standby.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/notify.h"
#include "proto/thread.h"

enum { NAP_MS = 1, EVENTS = 4 };

/* ---- forks: a child gets locks that nobody holds, and no threads ---- */

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct standby *all;

void standby_before_fork(void)
{
    pthread_mutex_lock(&all_lock);
    for (struct standby *standby = all; standby; standby = standby->next)
        pthread_mutex_lock(&standby->lock);
}

void standby_after_fork(void)
{
    for (struct standby *standby = all; standby; standby = standby->next)
        pthread_mutex_unlock(&standby->lock);
    pthread_mutex_unlock(&all_lock);
}

/* The parent's thread cannot be joined here, and must not be woken. */
void standby_in_child(void)
{
    for (struct standby *standby = all; standby; standby = standby->next) {
        standby->rest = STANDBY_AWAKE;
        standby->stop = true;
    }
    standby_after_fork();
}

static void enlist(struct standby *standby)
{
    pthread_mutex_lock(&all_lock);
    standby->next = all;
    all = standby;
    pthread_mutex_unlock(&all_lock);
}

static void strike_off(struct standby *standby)
{
    pthread_mutex_lock(&all_lock);
    struct standby **link = &all;
    while (*link != standby)
        link = &(*link)->next;
    *link = standby->next;
    pthread_mutex_unlock(&all_lock);
}

/* ---- the thread ---- */

/* The program may have been bound to a processor since the thread began. Elsewhere, the thread would take
 * processor time from other ranks. */
static void follow_program(struct standby *standby)
{
    cpu_set_t cpus;
    if (sched_getaffinity(standby->program, sizeof cpus, &cpus) == 0 &&
        !CPU_EQUAL(&cpus, &standby->cpus) && sched_setaffinity(0, sizeof cpus, &cpus) == 0)
        standby->cpus = cpus;
}

static uint64_t entries(const struct standby *standby)
{
    return atomic_load_explicit(&standby->entries, memory_order_relaxed); /* a hint */
}

/*
 * Without the lock: sleeps until a descriptor is readable, if `sleep`, and then naps until the program
 * has made no call for a while, or rings. A thread that took the lock before would make a program that
 * is at work wait for it. *seen: the program's entries.
 */
static void rest(struct standby *standby, bool sleep, uint64_t *seen)
{
    struct pollfd bell = {.fd = standby->bell_fd, .events = POLLIN};
    struct epoll_event events[EVENTS];
    standby->rung = false;
    if (sleep) {
        *seen = entries(standby);
        atomic_store_explicit(&standby->rest, STANDBY_SLEEPS, memory_order_relaxed);
        pthread_mutex_unlock(&standby->lock);
        epoll_wait(standby->epoll_fd, events, EVENTS, -1);
    } else {
        pthread_mutex_unlock(&standby->lock);
    }
    for (bool nap = !sleep; nap || entries(standby) != *seen; nap = false) {
        *seen = entries(standby);
        /* seq_cst, as in standby_wait(): either the program rings, or this sees that it waits */
        atomic_store_explicit(&standby->rest, STANDBY_NAPS, memory_order_seq_cst);
        if (atomic_load_explicit(&standby->waits, memory_order_seq_cst) ||
            poll(&bell, 1, NAP_MS) != 0)
            break;
    }
    follow_program(standby);
    pthread_mutex_lock(&standby->lock);
    atomic_store_explicit(&standby->rest, STANDBY_AWAKE, memory_order_relaxed);
}

static void hear_bell(const struct standby *standby)
{
    eventfd_t count;
    if (standby->rung)
        eventfd_read(standby->bell_fd, &count);
}

/* Lets the program in, which may wait for the lock or sleep. */
static void give_way(struct standby *standby)
{
    pthread_mutex_unlock(&standby->lock);
    notify_wake(standby->segment);
    sched_yield();
    pthread_mutex_lock(&standby->lock);
}

static void *standby_main(void *argument)
{
    struct standby *standby = argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&standby->lock);
    while (!standby->stop) {
        /* relaxed: a hint; the lock orders */
        const bool away = entries(standby) == seen &&
                          !atomic_load_explicit(&standby->wanted, memory_order_relaxed);
        if (!away && !atomic_load_explicit(&standby->waits, memory_order_relaxed))
            rest(standby, false, &seen);
        else if (standby->ops->work(standby->context))
            give_way(standby);
        else if (standby->ops->arm(standby->context))
            rest(standby, true, &seen);
        else
            give_way(standby);
        hear_bell(standby);
    }
    pthread_mutex_unlock(&standby->lock);
    return NULL;
}

static void ring(struct standby *standby)
{
    if (!standby->rung &&
        atomic_load_explicit(&standby->rest, memory_order_relaxed) != STANDBY_AWAKE)
        standby->rung = eventfd_write(standby->bell_fd, 1) == 0;
}

/* ---- the program ---- */

void standby_lock(struct standby *standby)
{
    if (pthread_mutex_trylock(&standby->lock) != 0) {
        atomic_store_explicit(&standby->wanted, true, memory_order_relaxed);
        pthread_mutex_lock(&standby->lock);
        atomic_store_explicit(&standby->wanted, false, memory_order_relaxed);
    }
    atomic_store_explicit(&standby->entries, entries(standby) + 1, memory_order_relaxed);
    atomic_store_explicit(&standby->waits, false, memory_order_relaxed);
}

void standby_leave_behind(struct standby *standby)
{
    if (!standby->rung && standby->ops->left(standby->context))
        ring(standby);
}

void standby_wait(struct standby *standby)
{
    atomic_store_explicit(&standby->waits, true, memory_order_seq_cst); /* as in rest() */
    if (atomic_load_explicit(&standby->rest, memory_order_seq_cst) == STANDBY_NAPS)
        ring(standby);
}

/* ---- life ---- */

int standby_add(struct standby *standby, int fd, bool once)
{
    struct epoll_event event = {.events = EPOLLIN | (once ? EPOLLONESHOT : 0)};
    if (epoll_ctl(standby->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ||
        (errno == EEXIST && epoll_ctl(standby->epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0))
        return 0;
    return -errno;
}

static int begin(struct standby *standby)
{
    standby->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    standby->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (standby->epoll_fd < 0 || standby->bell_fd < 0)
        return -errno;
    int r = standby_add(standby, standby->bell_fd, false);
    return r == 0 ? thread_begin(&standby->thread, "tca-standby", standby_main, standby) : r;
}

static void release(struct standby *standby)
{
    if (standby->epoll_fd >= 0)
        close(standby->epoll_fd);
    if (standby->bell_fd >= 0)
        close(standby->bell_fd);
    free(standby);
}

int standby_new(const struct standby_ops *ops, void *context, struct notify_segment *segment,
                struct standby **ret_standby)
{
    struct standby *standby = malloc(sizeof *standby);
    if (!standby)
        return -ENOMEM;
    *standby = (struct standby){.lock = PTHREAD_MUTEX_INITIALIZER,
                                .epoll_fd = -1,
                                .bell_fd = -1,
                                .ops = ops,
                                .context = context,
                                .segment = segment,
                                .program = gettid()};
    pthread_mutex_lock(&standby->lock);
    int r = begin(standby);
    if (r < 0) {
        release(standby);
        return r;
    }
    *ret_standby = standby; /* before the thread does anything */
    pthread_mutex_unlock(&standby->lock);
    enlist(standby);
    return 0;
}

struct standby *standby_free(struct standby *standby)
{
    if (!standby)
        return NULL;
    strike_off(standby);
    if (!standby->stop) { /* else this is a forked child */
        standby_enter(standby);
        standby->stop = true;
        ring(standby);
        pthread_mutex_unlock(&standby->lock);
        pthread_join(standby->thread, NULL);
    }
    release(standby);
    return NULL;
}
