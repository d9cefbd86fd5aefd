#include "client/coll/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/coll/coll.h"
#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/helper.h"

enum { WATCH_NS = 1000 * 1000 * 1000 };

struct coll_thread {
    struct helper_job job;
    pthread_mutex_t lock; /* recursive: coll_kept_spare() may be called with it */
    pthread_cond_t completed;
    struct coll_siblings *siblings;
    bool sleeps;
    uint64_t watch_ns; /* when to look for ranks that have ended */
};

/* ---- on the helper thread */

/* Operations that need a rank that has ended fail. */
static void watch(struct coll_thread *thread)
{
    bool look = clock_left(thread->watch_ns) == 0;

    if (look)
        thread->watch_ns = clock_end(WATCH_NS);
    for (struct tca_coll *coll = thread->siblings->open, *next; coll; coll = next) {
        next = coll->next_open;
        coll_run_watch(coll, look);
    }
}

/* Does what can be done without waiting, and returns whether that was anything. */
static bool advance(struct coll_thread *thread)
{
    uint32_t running = thread->siblings->running;
    bool moved = coll_run_all(thread->siblings) > 0;

    if (!moved)
        watch(thread);
    if (thread->siblings->running < running)
        pthread_cond_broadcast(&thread->completed);
    return moved;
}

static enum helper_next turn(struct helper_job *job)
{
    struct coll_thread *thread =
        (struct coll_thread *)((char *)job - offsetof(struct coll_thread, job));
    enum helper_next next = HELPER_SLEEPS;

    pthread_mutex_lock(&thread->lock);
    thread->sleeps = !thread->siblings->open;
    if (!thread->sleeps)
        next = advance(thread) ? HELPER_GOES_ON : HELPER_LOOKS;
    pthread_mutex_unlock(&thread->lock);
    return next;
}

/* ---- beginning and ending */

int coll_thread_begin(struct coll_siblings *siblings)
{
    if (siblings->thread)
        return 0;
    if (siblings->running > 0)
        return error_static(-EBUSY, "a collective operation of this session is running: wait for "
                                    "it before the first one that uses a thread");
    struct coll_thread *thread = malloc(sizeof(*thread));
    if (!thread)
        return error_static(-ENOMEM, "out of memory");
    *thread = (struct coll_thread){.job = {.turn = turn, .fd = -1},
                                   .lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                                   .completed = PTHREAD_COND_INITIALIZER,
                                   .siblings = siblings};
    int r = helper_add(&thread->job);
    if (r < 0) {
        free(thread);
        return error_set(r, "the thread of the collective operations: %s", strerror(-r));
    }
    siblings->thread = thread;
    return 0;
}

void coll_thread_end(struct coll_thread *thread)
{
    if (!thread)
        return;
    helper_remove(&thread->job);
    free(thread);
}

/* ---- the program's side */

/* In a forked child, nobody else is left, and the thread may have held the lock. */
void coll_thread_lock(struct coll_thread *thread)
{
    if (thread && thread->job.added)
        pthread_mutex_lock(&thread->lock);
}

void coll_thread_unlock(struct coll_thread *thread)
{
    if (thread && thread->job.added)
        pthread_mutex_unlock(&thread->lock);
}

void coll_thread_wake(struct coll_thread *thread)
{
    if (thread->sleeps)
        helper_wake(&thread->job);
    thread->sleeps = false;
}

int coll_thread_sleep(struct coll_thread *thread, uint64_t end_ns)
{
    const struct timespec end = clock_timespec(end_ns);

    if (!thread->job.added)
        return -ETIMEDOUT;
    if (end_ns == END_NEVER)
        return -pthread_cond_wait(&thread->completed, &thread->lock);
    return -pthread_cond_clockwait(&thread->completed, &thread->lock, CLOCK_MONOTONIC, &end);
}
