/*
 * A thread that stands in for the program while that is not in a call of the library: it moves
 * connections on, and takes what arrives. A lock decides who of the two works:
 *
 *   - The program holds it in every call that touches connections (standby_enter, standby_leave).
 *   - While the program makes such calls, the thread naps: it only looks every NAP_MS whether they go
 *     on, without the lock, so that it neither delays the program nor takes events from under its nose.
 *   - When none was made during a nap, or the program sleeps in a wait, the thread works until nothing
 *     is left, and then sleeps until something comes. It wakes a program that sleeps.
 *
 * Entering and leaving makes no system call, except when the thread has to be waited for, or sleeps and
 * has something to do.
 */
#pragma once

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct notify_segment;

/* Called with the lock. */
struct standby_ops {
    /* On the thread: does what there is to do now, a little at a time. Whether it did anything. */
    bool (*work)(void *context);
    /* On the thread, before it sleeps: from now on, a descriptor becomes readable when there is work.
     * False: there is work now. */
    bool (*arm)(void *context);
    /* While the thread sleeps, at the end of each call of the program: whether that leaves work behind
     * of which no descriptor tells. */
    bool (*left)(void *context);
};

struct standby {
    pthread_mutex_t lock;
    /* of the program */
    unsigned depth; /* of nested calls */
    /* under the lock */
    bool stop;
    bool rung; /* the bell was, since the thread began to rest */
    /* written under the lock, and read by the thread without it */
    _Atomic uint64_t entries; /* of the program */
    _Atomic bool waits;       /* the program sleeps in a wait, or is about to */
    _Atomic bool wanted;      /* the program waits for the lock */
    /* written by the thread */
    _Atomic enum standby_rest { STANDBY_AWAKE, STANDBY_NAPS, STANDBY_SLEEPS } rest;
    int epoll_fd, bell_fd;
    const struct standby_ops *ops;
    void *context;
    struct notify_segment *segment;
    struct standby *next; /* of this process */
    pthread_t thread;
    int program;    /* the program's thread, by gettid() */
    cpu_set_t cpus; /* that the thread may use */
};

/* Called by the program's thread: the standby thread may run where that may. The segment has the
 * doorbell of the program's waits (proto/notify.h). 0, -ENOMEM, -EAGAIN, -EMFILE. */
int standby_new(const struct standby_ops *ops, void *context, struct notify_segment *segment,
                struct standby **ret_standby);
/* With or without the lock. NULL is a no-op. Returns NULL. */
struct standby *standby_free(struct standby *standby);

/* The thread wakes up when the descriptor is readable. once: until it is added again. With the lock. */
int standby_add(struct standby *standby, int fd, bool once);

void standby_lock(struct standby *standby);
void standby_leave_behind(struct standby *standby);

/* Calls may be nested. NULL: there is no such thread, and nothing to lock. */
static inline void standby_enter(struct standby *standby)
{
    if (standby && standby->depth++ == 0)
        standby_lock(standby);
}

static inline void standby_leave(struct standby *standby)
{
    if (!standby)
        return;
    assert(standby->depth > 0);
    if (--standby->depth > 0)
        return;
    if (__builtin_expect(
            atomic_load_explicit(&standby->rest, memory_order_relaxed) == STANDBY_SLEEPS, 0))
        standby_leave_behind(standby);
    pthread_mutex_unlock(&standby->lock);
}

/* The program is about to sleep on its doorbell, which the thread then rings:
 *
 *     uint32_t doorbell = notify_prepare_sleep(segment);
 *     if (the condition holds, or there is work) // with the lock
 *         notify_cancel_sleep(segment);
 *     else {
 *         standby_wait(standby); // with the lock
 *         notify_sleep(segment, doorbell, timeout_ns); // without
 *     }
 */
void standby_wait(struct standby *standby);

/* Around fork() (client/forks.c). */
void standby_before_fork(void);
void standby_after_fork(void);
void standby_in_child(void);
