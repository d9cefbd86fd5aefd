#include "daemon/base/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/base/table.h"
#include "proto/thread.h"

enum { THREADS_MAX = 16 };

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
};

struct worker {
    struct loop *loop;
    char name[16];
    unsigned threads_max;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    /* under the mutex: */
    struct table lanes; /* by key */
    struct lane *first, **last;
    unsigned queued;   /* lanes in it */
    unsigned sleeping; /* threads */
    bool stop;         /* set by the loop's thread */
    /* loop's thread only: */
    pthread_t threads[THREADS_MAX];
    unsigned thread_count;
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
    lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    lane->last = &lane->first;
    table_add(&worker->lanes, &lane->entry, key, lane);
    enqueue(worker, lane);
    return lane;
}

/* ---- threads ---- */

static void run_one(struct worker *worker)
{
    struct lane *lane = next_lane(worker);
    struct job *job = next_job(lane);
    pthread_mutex_unlock(&worker->mutex);
    job->work(job->context);
    loop_post_own(worker->loop, &job->post, job_done, job);
    pthread_mutex_lock(&worker->mutex);
    if (lane->first)
        enqueue(worker, lane);
    else
        lane_free(worker, lane);
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
        worker->sleeping++;
        pthread_cond_wait(&worker->wake, &worker->mutex);
        worker->sleeping--;
    }
    pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

/* Another thread, if there may be one. Not under the mutex. */
static int add_thread(struct worker *worker)
{
    if (worker->thread_count == worker->threads_max || worker->stop)
        return 0;
    int r = thread_begin(&worker->threads[worker->thread_count], worker->name, worker_main, worker);
    if (r == 0)
        worker->thread_count++;
    return r;
}

/* ---- the worker ---- */

int worker_new(struct loop *loop, const char *name, unsigned threads, struct worker **ret_worker)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return -ENOMEM;
    worker->loop = loop;
    snprintf(worker->name, sizeof worker->name, "%s", name);
    worker->threads_max = threads < THREADS_MAX ? threads : THREADS_MAX;
    worker->last = &worker->first;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->wake, NULL);
    int r = add_thread(worker); /* so that a job always finds one */
    if (r < 0) {
        worker_free(worker);
        return r;
    }
    *ret_worker = worker;
    return 0;
}

static void drop_lane(struct worker *worker, struct lane *lane)
{
    while (lane->first) {
        struct job *job = next_job(lane);
        job->dropped(job->context);
        free(job);
    }
    lane_free(worker, lane);
}

struct worker *worker_free(struct worker *worker)
{
    if (!worker)
        return NULL;
    pthread_mutex_lock(&worker->mutex);
    worker->stop = true;
    pthread_cond_broadcast(&worker->wake);
    pthread_mutex_unlock(&worker->mutex);
    for (unsigned i = 0; i < worker->thread_count; i++)
        pthread_join(worker->threads[i], NULL);
    loop_finish_posts(worker->loop); /* includes job_done() */
    while (worker->first)
        drop_lane(worker, next_lane(worker));
    table_deinit(&worker->lanes);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->mutex);
    free(worker);
    return NULL;
}

int worker_submit(struct worker *worker, uint64_t key, void (*work)(void *context),
                  void (*done)(void *context), void (*dropped)(void *context), void *context)
{
    struct job *job = malloc(sizeof *job);
    if (!job)
        return -ENOMEM;
    *job = (struct job){
        .worker = worker, .work = work, .done = done, .dropped = dropped, .context = context};
    pthread_mutex_lock(&worker->mutex);
    struct lane *lane = lane_get(worker, key);
    if (lane) {
        *lane->last = job;
        lane->last = &job->next;
        pthread_cond_signal(&worker->wake);
    }
    const bool more = worker->queued > worker->sleeping;
    pthread_mutex_unlock(&worker->mutex);
    if (!lane) {
        free(job);
        return -ENOMEM;
    }
    worker->in_flight++;
    if (more)
        add_thread(worker); /* without it, the others do the job later */
    return 0;
}

bool worker_idle(const struct worker *worker)
{
    return worker->in_flight == 0;
}
