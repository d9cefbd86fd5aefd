#include "daemon/base/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/base/table.h"
#include "proto/thread.h"

enum { SLEEPING_MAX = 4 }; /* threads that wait for jobs; others end */

struct job {
    struct job *next;
    struct worker *worker;
    void (*work)(void *context);
    void (*done)(void *context);
    void (*dropped)(void *context);
    void *context;
    struct loop_post post;
};

/* Exists while it has jobs, including the running one. It is in the queue unless one is running. */
struct lane {
    struct lane *next; /* in the queue */
    struct table_entry entry;
    struct job *first, **last;
    unsigned jobs;
};

/* Shared by the loop's thread and its own; the last of them frees it. */
struct worker {
    char name[16];
    unsigned threads_max;
    pthread_mutex_t mutex;
    pthread_cond_t wake, ended;
    /* under the mutex: */
    struct loop *loop;  /* NULL: nothing is done any more */
    struct table lanes; /* by key */
    struct lane *first, **last;
    unsigned queued;            /* lanes in it */
    unsigned threads, sleeping; /* all, and those of them that wait for jobs */
    bool ended_any;
    pthread_t ended_last; /* of those that have ended: to be joined */
    bool stop, left;      /* set by the loop's thread; left: it does not use the worker */
    /* loop's thread only: */
    uint64_t in_flight; /* submitted and not complete */
};

static void job_done(void *context)
{
    struct job *job = context;
    job->worker->in_flight--;
    job->done(job->context);
    free(job);
}

/* ---- lanes, under the mutex ---- */

static void enqueue(struct worker *worker, struct lane *lane)
{
    lane->next = NULL;
    *worker->last = lane;
    worker->last = &lane->next;
    worker->queued++;
}

static struct lane *next_lane(struct worker *worker)
{
    struct lane *lane = worker->first;
    worker->first = lane->next;
    if (!worker->first)
        worker->last = &worker->first;
    worker->queued--;
    return lane;
}

static struct job *next_job(struct lane *lane)
{
    struct job *job = lane->first;
    lane->first = job->next;
    if (!lane->first)
        lane->last = &lane->first;
    return job;
}

static void drop_jobs(struct lane *lane)
{
    while (lane->first) {
        struct job *job = next_job(lane);
        job->dropped(job->context);
        free(job);
    }
}

static void lane_free(struct worker *worker, struct lane *lane)
{
    table_remove(&worker->lanes, &lane->entry);
    free(lane);
}

/* A new one is in the queue, with its first job to come. */
static struct lane *lane_get(struct worker *worker, uint64_t key)
{
    struct lane *lane = table_find(&worker->lanes, key);
    if (lane)
        return lane;
    lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->last = &lane->first;
    table_add(&worker->lanes, &lane->entry, key, lane);
    enqueue(worker, lane);
    return lane;
}

/* Not under the mutex, when no thread is left but that one. */
static void destroy(struct worker *worker)
{
    if (worker->ended_any)
        pthread_join(worker->ended_last, NULL);
    table_deinit(&worker->lanes);
    pthread_cond_destroy(&worker->wake);
    pthread_cond_destroy(&worker->ended);
    pthread_mutex_destroy(&worker->mutex);
    free(worker);
}

/* ---- threads ---- */

static void run_one(struct worker *worker)
{
    struct lane *lane = next_lane(worker);
    struct job *job = next_job(lane);
    pthread_mutex_unlock(&worker->mutex);
    job->work(job->context);
    pthread_mutex_lock(&worker->mutex);
    lane->jobs--;
    if (worker->loop) {
        loop_post_own(worker->loop, &job->post, job_done, job);
    } else {
        job->dropped(job->context);
        free(job);
        drop_jobs(lane);
    }
    if (lane->first)
        enqueue(worker, lane);
    else
        lane_free(worker, lane);
}

/* Each thread joins the one that ended before it, so that none outlives worker_free(): what
 * libraries keep for a thread is freed at its very end, and not any more when the process ends.
 * Under the mutex, which it releases. */
static void end_thread(struct worker *worker)
{
    const bool joins = worker->ended_any, last = --worker->threads == 0 && worker->left;
    const pthread_t before = worker->ended_last;
    if (last) {
        pthread_mutex_unlock(&worker->mutex);
        pthread_detach(pthread_self());
        destroy(worker);
        return;
    }
    worker->ended_last = pthread_self();
    worker->ended_any = true;
    if (worker->threads == 0)
        pthread_cond_signal(&worker->ended);
    pthread_mutex_unlock(&worker->mutex);
    if (joins)
        pthread_join(before, NULL);
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;

    pthread_mutex_lock(&worker->mutex);
    while (!worker->stop) {
        if (worker->first) {
            run_one(worker);
            continue;
        }
        if (worker->sleeping == SLEEPING_MAX)
            break;
        worker->sleeping++;
        pthread_cond_wait(&worker->wake, &worker->mutex);
        worker->sleeping--;
    }
    end_thread(worker);
    return NULL;
}

/* Another thread, if there may be one. Under the mutex, for which the thread waits. */
static int add_thread(struct worker *worker)
{
    pthread_t thread;
    if (worker->threads == worker->threads_max || worker->stop)
        return 0;
    int r = thread_begin(&thread, worker->name, worker_main, worker);
    if (r < 0)
        return r;
    worker->threads++;
    return 0;
}

/* ---- the worker ---- */

int worker_new(struct loop *loop, const char *name, unsigned threads, struct worker **ret_worker)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return -ENOMEM;
    worker->loop = loop;
    snprintf(worker->name, sizeof(worker->name), "%s", name);
    worker->threads_max = threads;
    worker->last = &worker->first;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->wake, NULL);
    pthread_cond_init(&worker->ended, NULL);
    pthread_mutex_lock(&worker->mutex);
    int r = add_thread(worker); /* so that a job finds one */
    pthread_mutex_unlock(&worker->mutex);
    if (r < 0) {
        destroy(worker);
        return r;
    }
    *ret_worker = worker;
    return 0;
}

/* Under the mutex, without which dropped() may submit another job. */
static void drop_queued(struct worker *worker)
{
    while (worker->first) {
        struct lane *lane = next_lane(worker);
        pthread_mutex_unlock(&worker->mutex);
        drop_jobs(lane);
        pthread_mutex_lock(&worker->mutex);
        lane_free(worker, lane);
    }
}

static struct worker *end(struct worker *worker, bool wait)
{
    if (!worker)
        return NULL;
    pthread_mutex_lock(&worker->mutex);
    worker->stop = true;
    pthread_cond_broadcast(&worker->wake);
    while (wait && worker->threads > 0)
        pthread_cond_wait(&worker->ended, &worker->mutex);
    struct loop *loop = worker->loop;
    worker->loop = NULL;
    pthread_mutex_unlock(&worker->mutex);
    loop_finish_posts(loop); /* includes job_done() */
    pthread_mutex_lock(&worker->mutex);
    drop_queued(worker);
    worker->left = true;
    const bool last = worker->threads == 0;
    pthread_mutex_unlock(&worker->mutex);
    if (last)
        destroy(worker);
    return NULL;
}

struct worker *worker_free(struct worker *worker)
{
    return end(worker, true);
}

struct worker *worker_leave(struct worker *worker)
{
    return end(worker, false);
}

int worker_submit(struct worker *worker, uint64_t key, void (*work)(void *context),
                  void (*done)(void *context), void (*dropped)(void *context), void *context)
{
    struct job *job = malloc(sizeof(*job));
    if (!job)
        return -ENOMEM;
    *job = (struct job){
        .worker = worker, .work = work, .done = done, .dropped = dropped, .context = context};
    pthread_mutex_lock(&worker->mutex);
    struct lane *lane = lane_get(worker, key);
    if (lane) {
        *lane->last = job;
        lane->last = &job->next;
        lane->jobs++;
        worker->in_flight++;
        pthread_cond_signal(&worker->wake);
        if (worker->queued > worker->sleeping)
            add_thread(worker); /* without it, the others do the job later */
    }
    pthread_mutex_unlock(&worker->mutex);
    if (!lane) {
        free(job);
        return -ENOMEM;
    }
    return 0;
}

bool worker_idle(const struct worker *worker)
{
    return worker->in_flight == 0;
}

unsigned worker_jobs(struct worker *worker, uint64_t key)
{
    pthread_mutex_lock(&worker->mutex);
    const struct lane *lane = table_find(&worker->lanes, key);
    const unsigned jobs = lane ? lane->jobs : 0;
    pthread_mutex_unlock(&worker->mutex);
    return jobs;
}
