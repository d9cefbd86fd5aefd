/* Jobs of the worker: each ends exactly once, whenever the worker ends; those of one lane delay no
 * other. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>

#include "daemon/base/loop.h"
#include "daemon/base/worker.h"

TestSuite(worker, .timeout = 60);

enum { JOBS = 20 };

struct job {
    sem_t *begun, *gate; /* NULL: it has nothing to wait for */
    unsigned works, dones, drops;
    struct loop *stop;
};

static void work(void *context)
{
    struct job *job = context;
    if (job->gate) {
        sem_post(job->begun);
        sem_wait(job->gate);
    }
    job->works++;
}

static void done(void *context)
{
    struct job *job = context;
    job->dones++;
    if (job->stop)
        loop_stop(job->stop);
}

static void dropped(void *context)
{
    ((struct job *)context)->drops++;
}

Test(worker, does_its_jobs_in_order)
{
    struct loop *loop;
    struct worker *worker;
    struct job jobs[JOBS] = {0};
    cr_assert_eq(loop_new(&loop), 0);
    cr_assert_eq(worker_new(loop, "worker", 2, &worker), 0);
    jobs[JOBS - 1].stop = loop;
    for (int i = 0; i < JOBS; i++)
        cr_assert_eq(worker_submit(worker, 7, work, done, dropped, &jobs[i]), 0);
    cr_assert_not(worker_idle(worker));
    cr_assert_eq(loop_run(loop), 0);
    cr_assert(worker_idle(worker));
    for (int i = 0; i < JOBS; i++) {
        cr_assert_eq(jobs[i].works, 1);
        cr_assert_eq(jobs[i].dones, 1);
        cr_assert_eq(jobs[i].drops, 0);
    }
    worker_free(worker);
    loop_free(loop);
}

/* The first lane's job waits for that of the second one, while others of the first wait for it. */
Test(worker, goes_on_with_other_lanes)
{
    struct loop *loop;
    struct worker *worker;
    sem_t begun, gate;
    struct job first[JOBS] = {0}, second[JOBS] = {0};
    sem_init(&begun, 0, 0);
    sem_init(&gate, 0, 0);
    first[0] = (struct job){.begun = &begun, .gate = &gate};
    second[JOBS - 1] = (struct job){.begun = &gate, .gate = &begun}; /* opens the gate */
    first[JOBS - 1].stop = loop_new(&loop) == 0 ? loop : NULL;
    cr_assert_eq(worker_new(loop, "worker", 2, &worker), 0);
    for (int i = 0; i < JOBS; i++)
        cr_assert_eq(worker_submit(worker, 1, work, done, dropped, &first[i]), 0);
    for (int i = 0; i < JOBS; i++)
        cr_assert_eq(worker_submit(worker, 2, work, done, dropped, &second[i]), 0);
    cr_assert_eq(loop_run(loop), 0);
    worker_free(worker);
    loop_free(loop);
    for (int i = 0; i < JOBS; i++) {
        cr_assert_eq(first[i].dones, 1);
        cr_assert_eq(second[i].dones, 1);
    }
}

/* One thread: the lanes take turns, however many jobs are in one. */
static char order[2 * JOBS + 1];
static unsigned ordered;

static void ignore(void *context)
{
}

static void stop(void *context)
{
    loop_stop(context);
}

static void note(void *context)
{
    order[ordered++] = *(const char *)context;
}

Test(worker, lets_lanes_take_turns)
{
    struct loop *loop;
    struct worker *worker;
    sem_t begun, gate;
    struct job held = {.begun = &begun, .gate = &gate};
    char first[] = "a", second[] = "b";
    sem_init(&begun, 0, 0);
    sem_init(&gate, 0, 0);
    cr_assert_eq(loop_new(&loop), 0);
    cr_assert_eq(worker_new(loop, "worker", 1, &worker), 0);
    cr_assert_eq(worker_submit(worker, 0, work, done, dropped, &held), 0);
    sem_wait(&begun);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(worker_submit(worker, 1, note, ignore, ignore, first), 0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(worker_submit(worker, 2, note, ignore, ignore, second), 0);
    cr_assert_eq(worker_submit(worker, 1, ignore, stop, ignore, loop), 0);
    sem_post(&gate);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_str_eq(order, "ababaaaa");
    worker_free(worker);
    loop_free(loop);
}

/* What libraries keep for a thread is freed at its very end. */
static pthread_key_t kept;
static unsigned forgotten;

static void forget(void *value)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* without a join, others go on */
    __atomic_fetch_add(&forgotten, 1, __ATOMIC_RELAXED);
}

static void keep(void *context)
{
    pthread_setspecific(kept, &forgotten);
    work(context);
}

Test(worker, has_no_threads_any_more_when_it_is_freed)
{
    enum { LANES = 4 };
    struct loop *loop;
    struct worker *worker;
    sem_t begun, gate;
    struct job jobs[LANES], last = {0};
    sem_init(&begun, 0, 0);
    sem_init(&gate, 0, 0);
    cr_assert_eq(pthread_key_create(&kept, forget), 0);
    cr_assert_eq(loop_new(&loop), 0);
    last.stop = loop;
    cr_assert_eq(worker_new(loop, "worker", LANES, &worker), 0);
    for (unsigned i = 0; i < LANES; i++) {
        jobs[i] = (struct job){.begun = &begun, .gate = &gate};
        cr_assert_eq(worker_submit(worker, i, keep, done, dropped, &jobs[i]), 0);
    }
    for (unsigned i = 0; i < LANES; i++)
        sem_wait(&begun); /* each has a thread */
    for (unsigned i = 0; i < LANES; i++)
        sem_post(&gate);
    cr_assert_eq(worker_submit(worker, 0, work, done, dropped, &last), 0);
    cr_assert_eq(loop_run(loop), 0);
    worker_free(worker);
    cr_assert_eq(forgotten, LANES);
    loop_free(loop);
}

static void *open_gate(void *gate)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* worker_free() waits by now */
    sem_post(gate);
    return NULL;
}

Test(worker, lets_go_of_what_it_did_not_begin)
{
    struct loop *loop;
    struct worker *worker;
    pthread_t opener;
    sem_t begun, gate;
    struct job jobs[JOBS] = {[0].begun = &begun, [0].gate = &gate};
    sem_init(&begun, 0, 0);
    sem_init(&gate, 0, 0);
    cr_assert_eq(loop_new(&loop), 0);
    cr_assert_eq(worker_new(loop, "worker", 2, &worker), 0);
    for (int i = 0; i < JOBS; i++)
        cr_assert_eq(worker_submit(worker, 7, work, done, dropped, &jobs[i]), 0);
    sem_wait(&begun);
    cr_assert_eq(pthread_create(&opener, NULL, open_gate, &gate), 0);
    worker_free(worker);
    pthread_join(opener, NULL);
    loop_free(loop);
    cr_assert_eq(jobs[0].dones, 1);
    for (int i = 0; i < JOBS; i++) {
        cr_assert_eq(jobs[i].works, jobs[i].dones, "job %d", i);
        cr_assert_eq(jobs[i].dones + jobs[i].drops, 1, "job %d was forgotten", i);
    }
    sem_destroy(&begun);
    sem_destroy(&gate);
}

/* Every lane has a thread, and worker_leave() does not wait for the jobs that run. */
Test(worker, is_left_while_jobs_run)
{
    enum { LANES = 20 };
    struct loop *loop;
    struct worker *worker;
    sem_t begun, gate;
    struct job jobs[LANES], next[LANES] = {0}, last = {0};
    sem_init(&begun, 0, 0);
    sem_init(&gate, 0, 0);
    last.stop = loop_new(&loop) == 0 ? loop : NULL;
    cr_assert_eq(worker_new(loop, "worker", WORKER_THREAD_PER_LANE, &worker), 0);
    for (unsigned i = 0; i < LANES; i++) {
        jobs[i] = (struct job){.begun = &begun, .gate = &gate};
        cr_assert_eq(worker_submit(worker, i, work, done, dropped, &jobs[i]), 0);
        cr_assert_eq(worker_submit(worker, i, work, done, dropped, &next[i]), 0);
    }
    for (unsigned i = 0; i < LANES; i++)
        sem_wait(&begun);
    cr_assert_eq(worker_submit(worker, LANES, work, done, dropped, &last), 0);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_eq(worker_jobs(worker, 0), 2);
    cr_assert_eq(worker_jobs(worker, LANES), 0);
    cr_assert_null(worker_leave(worker));
    loop_free(loop);
    for (unsigned i = 0; i < LANES; i++)
        sem_post(&gate);
    for (unsigned i = 0; i < LANES; i++) {
        while (__atomic_load_n(&next[i].drops, __ATOMIC_ACQUIRE) == 0)
            sched_yield();
        cr_assert_eq(jobs[i].dones, 0);
        cr_assert_eq(jobs[i].drops, 1);
        cr_assert_eq(next[i].works, 0);
    }
}
