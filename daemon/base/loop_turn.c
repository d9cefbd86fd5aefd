/*
 * A turn of the loop processes every ready event once. Posted calls and jobs get one slice each and
 * continue in the next turn, so that other events wait only milliseconds, however much there is to
 * do.
 */
#include <sys/eventfd.h>

#include "daemon/base/loop.h"
#include "daemon/base/loop_internal.h"
#include "proto/list.h"
#include "proto/wait.h"

#define SLICE_NS UINT64_C(5000000)

/* ---- turns ---- */

static uint64_t load(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

/* Only the loop's thread writes. */
static void store(_Atomic uint64_t *value, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_relaxed);
}

static void begin_slice(struct loop *loop)
{
    loop->slice_end_ns = clock_now_ns() + SLICE_NS;
}

bool loop_slice_over(const struct loop *loop)
{
    return clock_now_ns() >= loop->slice_end_ns;
}

void loop_awake(struct loop *loop)
{
    if (load(&loop->turn_since_ns))
        return;
    store(&loop->turn_since_ns, clock_now_ns());
    begin_slice(loop);
    pthread_mutex_lock(&loop->mutex);
    loop->sleeps = false; /* what is posted from now on runs at the end of the turn */
    pthread_mutex_unlock(&loop->mutex);
}

void loop_turn_over(struct loop *loop)
{
    const uint64_t took_ns = loop_busy_ns(loop);
    if (took_ns > load(&loop->longest_ns))
        store(&loop->longest_ns, took_ns);
    store(&loop->turn_since_ns, 0);
}

uint64_t loop_busy_ns(const struct loop *loop)
{
    const uint64_t since = load(&loop->turn_since_ns), now = clock_now_ns();
    return since && now > since ? now - since : 0;
}

uint64_t loop_longest_ns(const struct loop *loop)
{
    return load(&loop->longest_ns);
}

uint64_t loop_slices(const struct loop *loop)
{
    return load(&loop->slices);
}

/* ---- sleeping ---- */

void loop_expect(struct loop *loop)
{
    atomic_store_explicit(&loop->expects, true, memory_order_relaxed);
}

/* Whether an expected post may still come at once. */
static bool expects_post(struct loop *loop)
{
    if (atomic_load_explicit(&loop->expects, memory_order_relaxed)) {
        atomic_store_explicit(&loop->expects, false, memory_order_relaxed);
        loop->awaits = true;
        waiter_begin(&loop->waiter);
        return true;
    }
    loop->awaits = loop->awaits && waiter_step_dear(&loop->waiter) != WAITER_SLEEP;
    return loop->awaits;
}

bool loop_may_sleep(struct loop *loop)
{
    if (loop->taken || loop->jobs || loop->lasts || expects_post(loop))
        return false;
    pthread_mutex_lock(&loop->mutex);
    const bool sleeps = loop->sleeps = !loop->first;
    pthread_mutex_unlock(&loop->mutex);
    return sleeps;
}

/* ---- posts ---- */

static void take_posts(struct loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    loop->sleeps = false;
    if (loop->first) {
        loop->awaits = false; /* it has come */
        *loop->last_taken = loop->first;
        loop->last_taken = loop->last;
        loop->first = NULL;
        loop->last = &loop->first;
    }
    pthread_mutex_unlock(&loop->mutex);
}

static struct loop_post *next_post(struct loop *loop)
{
    struct loop_post *post = loop->taken;
    if (!post)
        return NULL;
    loop->taken = post->next;
    if (!loop->taken)
        loop->last_taken = &loop->taken;
    return post;
}

/* call() may free what the post lies in. */
static void run_post(struct loop_post *post)
{
    void (*call)(void *context) = post->call;
    void *context = post->context;
    call(context);
}

void loop_run_posts(struct loop *loop)
{
    struct loop_post *post = NULL;
    take_posts(loop); /* calls posted by these run in the next turn */
    if (!loop->taken)
        return;
    loop_awake(loop);
    begin_slice(loop);
    while (!loop_slice_over(loop) && (post = next_post(loop)))
        run_post(post);
}

void loop_finish_posts(struct loop *loop)
{
    struct loop_post *post;
    take_posts(loop);
    while ((post = next_post(loop)) || loop->jobs) {
        if (post)
            run_post(post);
        else
            loop_run_jobs(loop);
        take_posts(loop);
    }
}

void loop_post_own(struct loop *loop, struct loop_post *post, void (*call)(void *context),
                   void *context)
{
    *post = (struct loop_post){.call = call, .context = context};
    pthread_mutex_lock(&loop->mutex);
    const bool wakes = loop->sleeps;
    loop->sleeps = false;
    *loop->last = post;
    loop->last = &post->next;
    pthread_mutex_unlock(&loop->mutex);
    if (wakes)
        eventfd_write(loop->posted_fd, 1); /* cannot fail: it is reset long before it overflows */
}

/* ---- jobs ---- */

static void queue(struct loop *loop, struct loop_job *job)
{
    job->next = NULL;
    *loop->last_job = job;
    loop->last_job = &job->next;
}

static void step(struct loop *loop, struct loop_job *job)
{
    store(&loop->slices, load(&loop->slices) + 1);
    if (job->step(job->context)) /* else the job may have been freed */
        queue(loop, job);
}

void loop_job_begin(struct loop *loop, struct loop_job *job, bool (*step_of)(void *context),
                    void *context)
{
    *job = (struct loop_job){.step = step_of, .context = context};
    if (loop->jobs || loop_slice_over(loop))
        queue(loop, job);
    else
        step(loop, job);
}

/* Runs the jobs round robin for one slice in total. A job that uses the whole slice is queued
 * behind the others. */
void loop_run_jobs(struct loop *loop)
{
    struct loop_job *job = loop->jobs;
    if (!job)
        return;
    loop_awake(loop);
    begin_slice(loop);
    do {
        loop->jobs = job->next;
        if (!loop->jobs)
            loop->last_job = &loop->jobs;
        step(loop, job);
    } while (!loop_slice_over(loop) && (job = loop->jobs));
}

/* ---- the end of a turn ---- */

void loop_last(struct loop *loop, struct loop_last *last, void (*call)(void *context),
               void *context)
{
    if (last->link)
        return;
    *last = (struct loop_last){.call = call, .context = context};
    LIST_ADD(&loop->lasts, last, next, link);
}

void loop_last_cancel(struct loop_last *last)
{
    if (last->link)
        LIST_REMOVE(last, next, link);
}

void loop_run_lasts(struct loop *loop)
{
    while (loop->lasts) {
        struct loop_last *last = loop->lasts;
        loop_last_cancel(last);
        last->call(last->context);
    }
}
