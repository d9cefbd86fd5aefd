#include "client/core/standby.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "proto/notify.h"

static uint64_t entries(const struct standby *standby)
{
    return atomic_load_explicit(&standby->entries, memory_order_relaxed); /* a hint */
}

/* ---- on the helper thread ---- */

/* The program may have been bound to a processor since it began. Elsewhere, the thread would take
 * processor time from other ranks. */
static void follow_program(const struct standby *standby)
{
    static _Thread_local cpu_set_t cpus; /* of this thread; none: not known */
    cpu_set_t wanted;
    if (sched_getaffinity(standby->program, sizeof(wanted), &wanted) == 0 &&
        !CPU_EQUAL(&wanted, &cpus) && sched_setaffinity(0, sizeof(wanted), &wanted) == 0)
        cpus = wanted;
}

/* With the lock. */
static enum helper_next work(struct standby *standby)
{
    /* relaxed: hints; the lock orders */
    const bool away = entries(standby) == standby->seen &&
                      !atomic_load_explicit(&standby->wanted, memory_order_relaxed);
    if (!away && !atomic_load_explicit(&standby->waits, memory_order_relaxed))
        return HELPER_NAPS;
    if (standby->ops->work(standby->context) || !standby->ops->arm(standby->context))
        return HELPER_GOES_ON;
    standby->seen = entries(standby);
    atomic_store_explicit(&standby->rest, STANDBY_SLEEPS, memory_order_relaxed);
    return HELPER_SLEEPS;
}

/* Whether the program has not begun to wait meanwhile. */
static bool nap(struct standby *standby)
{
    standby->seen = entries(standby);
    /* seq_cst, as in standby_wait(): either the program wakes the job, or this sees that it
     * waits */
    atomic_store_explicit(&standby->rest, STANDBY_NAPS, memory_order_seq_cst);
    return !atomic_load_explicit(&standby->waits, memory_order_seq_cst);
}

/* Whether the program, which has the lock, is still blocked. */
static bool stop(struct standby *standby)
{
    if (!atomic_load_explicit(&standby->blocked, memory_order_relaxed))
        return false;
    /* seq_cst, as in standby_block(): either the program wakes the job, or this sees that it is not
     * blocked any more */
    atomic_store_explicit(&standby->rest, STANDBY_STOPS, memory_order_seq_cst);
    return atomic_load_explicit(&standby->blocked, memory_order_seq_cst);
}

/* A program that has the lock is at work. It is let in after each turn. */
static enum helper_next turn(struct helper_job *job)
{
    struct standby *standby = (struct standby *)((char *)job - offsetof(struct standby, job));
    enum helper_next next = HELPER_NAPS;
    if (atomic_load_explicit(&standby->rest, memory_order_relaxed) != STANDBY_AWAKE)
        follow_program(standby);
    if (pthread_mutex_trylock(&standby->lock) == 0) {
        atomic_store_explicit(&standby->rest, STANDBY_AWAKE, memory_order_relaxed);
        next = work(standby);
        pthread_mutex_unlock(&standby->lock);
    } else if (stop(standby)) {
        return HELPER_STOPS;
    }
    if (next == HELPER_GOES_ON) {
        notify_wake(standby->segment);
        sched_yield();
    }
    return next == HELPER_NAPS && !nap(standby) ? HELPER_GOES_ON : next;
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
    if (standby->job.added && standby->ops->left(standby->context))
        helper_wake(&standby->job);
}

void standby_block(struct standby *standby, bool blocked)
{
    atomic_store_explicit(&standby->blocked, blocked, memory_order_seq_cst); /* as in stop() */
    if (!blocked && atomic_load_explicit(&standby->rest, memory_order_seq_cst) == STANDBY_STOPS)
        helper_wake(&standby->job);
}

void standby_wait(struct standby *standby)
{
    atomic_store_explicit(&standby->waits, true, memory_order_seq_cst); /* as in nap() */
    if (atomic_load_explicit(&standby->rest, memory_order_seq_cst) == STANDBY_NAPS)
        helper_wake(&standby->job);
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

int standby_new(const struct standby_ops *ops, void *context, struct notify_segment *segment,
                struct standby **ret_standby)
{
    const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct standby *standby = epoll_fd < 0 ? NULL : malloc(sizeof(*standby));
    if (!standby) {
        const int error = epoll_fd < 0 ? errno : ENOMEM;
        if (epoll_fd >= 0)
            close(epoll_fd);
        return -error;
    }
    *standby = (struct standby){.job = {.turn = turn, .fd = epoll_fd, .lock = &standby->lock},
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .epoll_fd = epoll_fd,
                                .ops = ops,
                                .context = context,
                                .segment = segment,
                                .program = gettid()};
    *ret_standby = standby;
    int r = helper_add(&standby->job);
    if (r < 0)
        *ret_standby = standby_free(standby);
    return r;
}

struct standby *standby_free(struct standby *standby)
{
    if (!standby)
        return NULL;
    helper_remove(&standby->job);
    close(standby->epoll_fd);
    free(standby);
    return NULL;
}
