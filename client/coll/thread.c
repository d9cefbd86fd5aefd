#include "client/coll/thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/coll/coll.h"
#include "client/core/clock.h"
#include "client/core/error.h"

enum { WATCH_NS = 1000 * 1000 * 1000 };

struct coll_thread {
    pthread_t id;
    pthread_mutex_t lock;
    pthread_cond_t begun, completed;
    bool ending;
    struct coll_siblings *siblings;
    uint64_t watch_ns; /* when to look for ranks that have ended */
};

/* ---- the thread */

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

static void *run(void *argument)
{
    struct coll_thread *thread = argument;
    uint64_t round = 0;

    pthread_mutex_lock(&thread->lock);
    while (!thread->ending) {
        if (!thread->siblings->open)
            pthread_cond_wait(&thread->begun, &thread->lock);
        if (advance(thread)) {
            round = 0;
            continue;
        }
        pthread_mutex_unlock(&thread->lock);
        tca_pause(round++);
        pthread_mutex_lock(&thread->lock);
    }
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

/* ---- beginning and ending */

static void init(struct coll_thread *thread)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->begun, NULL);
    pthread_cond_init(&thread->completed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void deinit(struct coll_thread *thread)
{
    pthread_mutex_destroy(&thread->lock);
    pthread_cond_destroy(&thread->begun);
    pthread_cond_destroy(&thread->completed);
    free(thread);
}

/* The program's signal handlers do not run in it. */
static int create(struct coll_thread *thread)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread->id, NULL, run, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_setname_np(thread->id, "tca-coll");
    return -error;
}

int coll_thread_begin(struct coll_siblings *siblings)
{
    if (siblings->thread)
        return 0;
    if (siblings->running > 0)
        return error_static(-EBUSY, "a collective operation of this session is running: wait for "
                                    "it before the first one that uses a thread");
    struct coll_thread *thread = calloc(1, sizeof(*thread));
    if (!thread)
        return error_static(-ENOMEM, "out of memory");
    thread->siblings = siblings;
    init(thread);
    int r = create(thread);
    if (r < 0) {
        deinit(thread);
        return error_set(r, "the thread of the collective operations: %s", strerror(-r));
    }
    siblings->thread = thread;
    return 0;
}

void coll_thread_end(struct coll_thread *thread)
{
    if (!thread)
        return;
    pthread_mutex_lock(&thread->lock);
    thread->ending = true;
    pthread_cond_signal(&thread->begun);
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->id, NULL);
    deinit(thread);
}

/* ---- the program's side */

void coll_thread_lock(struct coll_thread *thread)
{
    if (thread)
        pthread_mutex_lock(&thread->lock);
}

void coll_thread_unlock(struct coll_thread *thread)
{
    if (thread)
        pthread_mutex_unlock(&thread->lock);
}

void coll_thread_wake(struct coll_thread *thread)
{
    pthread_cond_signal(&thread->begun);
}

int coll_thread_sleep(struct coll_thread *thread, uint64_t end_ns)
{
    struct timespec end = {(time_t)(end_ns / 1000000000), (long)(end_ns % 1000000000)};

    if (end_ns == END_NEVER)
        return -pthread_cond_wait(&thread->completed, &thread->lock);
    return -pthread_cond_timedwait(&thread->completed, &thread->lock, &end);
}
