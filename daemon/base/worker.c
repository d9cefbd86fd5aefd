#include "daemon/base/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "proto/thread.h"

struct job {
    struct job *next;
    struct worker *worker;
    void (*work)(void *context);
    void (*done)(void *context);
    void (*dropped)(void *context);
    void *context;
    struct loop_post post;
};

struct worker {
    struct loop *loop;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct job *first, **last; /* under the mutex */
    bool stop;
    uint64_t in_flight; /* loop's thread only: submitted and not complete */
};

static void job_done(void *context)
{
    struct job *job = context;
    job->worker->in_flight--;
    job->done(job->context);
    free(job);
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;

    pthread_mutex_lock(&worker->mutex);
    while (!worker->stop) {
        struct job *job = worker->first;
        if (!job) {
            pthread_cond_wait(&worker->wake, &worker->mutex);
            continue;
        }
        worker->first = job->next;
        if (!worker->first)
            worker->last = &worker->first;
        pthread_mutex_unlock(&worker->mutex);
        job->work(job->context);
        loop_post_own(worker->loop, &job->post, job_done, job);
        pthread_mutex_lock(&worker->mutex);
    }
    pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

int worker_new(struct loop *loop, struct worker **ret_worker)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return -ENOMEM;
    worker->loop = loop;
    worker->last = &worker->first;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->wake, NULL);

    int r = thread_begin(&worker->thread, "tcad-worker", worker_main, worker);
    if (r < 0) {
        free(worker);
        return r;
    }
    *ret_worker = worker;
    return 0;
}

struct worker *worker_free(struct worker *worker)
{
    if (!worker)
        return NULL;
    pthread_mutex_lock(&worker->mutex);
    worker->stop = true;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->mutex);
    pthread_join(worker->thread, NULL);
    loop_finish_posts(worker->loop); /* includes job_done() */
    while (worker->first) {
        struct job *job = worker->first;
        worker->first = job->next;
        job->dropped(job->context);
        free(job);
    }
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->mutex);
    free(worker);
    return NULL;
}

int worker_submit(struct worker *worker, void (*work)(void *context), void (*done)(void *context),
                  void (*dropped)(void *context), void *context)
{
    struct job *job = malloc(sizeof *job);
    if (!job)
        return -ENOMEM;
    *job = (struct job){
        .worker = worker, .work = work, .done = done, .dropped = dropped, .context = context};
    pthread_mutex_lock(&worker->mutex);
    *worker->last = job;
    worker->last = &job->next;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->mutex);
    worker->in_flight++;
    return 0;
}

bool worker_idle(const struct worker *worker)
{
    return worker->in_flight == 0;
}
