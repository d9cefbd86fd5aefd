/*
 * What stands in for the program while that is not in a call of the library, on the library's
 * thread (client/core/helper.h): it moves connections on, and takes what arrives. A lock decides
 * who of the two works:
 *
 *   - The program holds it in every call that touches connections (standby_enter, standby_leave).
 *   - While the program makes such calls, the standby naps: it only looks every millisecond whether
 *     they go on, without the lock, so that it neither delays the program nor takes events that the
 *     program is about to take.
 *   - While the program waits for tcad in such a call, in which it takes all events itself, the
 *     standby stops: of many ranks that wait for one another, each would look a thousand times a
 *     second.
 *   - When none was made during a nap, or the program sleeps in a wait, it works until nothing is
 *     left, and then sleeps until something comes. It wakes a program that sleeps.
 *
 * Entering and leaving makes no system call, except when the standby has to be waited for, or
 * sleeps and has something to do.
 */
#pragma once

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/core/helper.h"

struct notify_segment;

/* Called with the lock. */
struct standby_ops {
    /* On the helper thread: does what there is to do now, a little at a time. Whether it did
     * anything. */
    bool (*work)(void *context);
    /* On the helper thread, before it sleeps: from now on, a descriptor becomes readable when there
     * is work. False: there is work now. */
    bool (*arm)(void *context);
    /* While it sleeps, at the end of each call of the program: whether that leaves work behind of
     * which no descriptor tells. */
    bool (*left)(void *context);
};

struct standby {
    struct helper_job job;
    pthread_mutex_t lock;
    unsigned depth; /* of the program's nested calls */
    /* written under the lock, and read by the helper without it */
    _Atomic uint64_t entries; /* of the program */
    _Atomic bool waits;       /* the program sleeps in a wait, or is about to */
    _Atomic bool wanted;      /* the program waits for the lock, */
    _Atomic bool blocked;     /* or has it, and waits for tcad */
    /* written by the helper */
    _Atomic enum standby_rest {
        STANDBY_AWAKE,
        STANDBY_NAPS,
        STANDBY_SLEEPS,
        STANDBY_STOPS, /* until the program is no longer blocked */
    } rest;
    uint64_t seen; /* entries before the rest */
    int epoll_fd;
    const struct standby_ops *ops;
    void *context;
    struct notify_segment *segment;
    int program; /* the program's thread, by gettid() */
};

/* Called by the program's thread: the helper works where that may run. The segment has the doorbell
 * of the program's waits (proto/notify.h). *ret_standby is set before ops are called. 0, -ENOMEM,
 * -EAGAIN, -EMFILE. */
int standby_new(const struct standby_ops *ops, void *context, struct notify_segment *segment,
                struct standby **ret_standby);
/* Without the lock. NULL is a no-op. Returns NULL. */
struct standby *standby_free(struct standby *standby);

/* The standby wakes up when the descriptor is readable. once: until it is added again. With the
 * lock. */
int standby_add(struct standby *standby, int fd, bool once);

void standby_lock(struct standby *standby);
void standby_leave_behind(struct standby *standby);

/* Calls may be nested. NULL: there is no standby, and nothing to lock. */
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

/* With the lock: the program begins to wait for tcad, or ends that. */
void standby_block(struct standby *standby, bool blocked);

/* The program is about to sleep on its doorbell, which the helper then rings:
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
