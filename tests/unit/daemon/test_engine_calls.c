/* Calls on the engine's thread: long work lets others run between its slices, and quiet work does
 * not wait for an engine that sleeps. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "daemon/engine/engine.h"

TestSuite(engine_calls, .timeout = 60);

enum { STEPS = 5 };

static struct loop *loop;
static struct engine *engine;
static sem_t begun, called;
static char order[2 * STEPS + 1];
static unsigned steps;

static void note(char what)
{
    order[strlen(order)] = what;
}

static bool step(struct engine *of, void *context)
{
    note('j');
    if (++steps == 1) {
        sem_post(&begun);
        sem_wait(&called);
    }
    while (!engine_slice_over(of))
        ;
    return steps < STEPS;
}

static void job_done(void *context)
{
    note('d');
    loop_stop(context);
}

static void work(struct engine *of, void *context)
{
    note('c');
}

static void begin(void)
{
    const struct engine_config config = {.spin_ns = 1000, .yield_ns = 1000};
    const struct engine_events events = {0};
    sem_init(&begun, 0, 0);
    sem_init(&called, 0, 0);
    cr_assert_eq(loop_new(&loop), 0);
    cr_assert_eq(engine_new(loop, &config, &events, &engine), 0);
    cr_assert_eq(engine_run(engine), 0);
}

static void end(void)
{
    engine = engine_free(engine);
    loop = loop_free(loop);
}

Test(engine_calls, between_slices)
{
    static struct engine_call job, first, second;
    begin();
    engine_job(engine, &job, step, job_done, loop);
    sem_wait(&begun);
    engine_call(engine, &first, work, NULL, NULL);
    engine_call(engine, &second, work, NULL, NULL);
    sem_post(&called);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_str_eq(order, "jjccjjjd");
    end();
}

/* ---- quiet jobs ---- */

static pthread_t quiet_thread;

static bool quiet_step(struct engine *of, void *context)
{
    note('q');
    quiet_thread = pthread_self();
    return false;
}

static void quiet_done(void *context)
{
}

static void wait_until_asleep(void)
{
    struct engine_stats stats = {0};
    while (!stats.asleep) {
        usleep(1000);
        engine_stats(engine, &stats);
    }
    usleep(1000); /* it says so shortly before it sleeps */
}

Test(engine_calls, a_quiet_job_does_not_wake_a_sleeper)
{
    static struct engine_call quiet;
    begin();
    wait_until_asleep();
    engine_job_quiet(engine, &quiet, quiet_step, job_done, loop);
    cr_assert_str_eq(order, "q");
    cr_assert(pthread_equal(quiet_thread, pthread_self()));
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_str_eq(order, "qd");
    end();
}

Test(engine_calls, a_quiet_job_waits_while_the_engine_works)
{
    static struct engine_call job, quiet;
    begin();
    engine_job(engine, &job, step, job_done, loop);
    sem_wait(&begun);
    engine_job_quiet(engine, &quiet, quiet_step, quiet_done, NULL);
    cr_assert_str_eq(order, "j"); /* the engine is in its first step */
    sem_post(&called);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_not(pthread_equal(quiet_thread, pthread_self()));
    end();
}

Test(engine_calls, a_quiet_job_keeps_its_place)
{
    static struct engine_call call, quiet;
    begin();
    wait_until_asleep();
    engine_call(engine, &call, work, NULL, NULL);
    engine_job_quiet(engine, &quiet, quiet_step, job_done, loop);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_str_eq(order, "cqd");
    end();
}

/* A long one goes on in the engine. */
static bool long_step(struct engine *of, void *context)
{
    note(pthread_equal(*(const pthread_t *)context, pthread_self()) ? 'h' : 't');
    while (!engine_slice_over(of))
        ;
    return ++steps < STEPS;
}

static void long_done(void *context)
{
    loop_stop(loop);
}

Test(engine_calls, a_long_quiet_job_goes_on_in_the_engine)
{
    static struct engine_call quiet;
    static pthread_t self;
    self = pthread_self();
    begin();
    wait_until_asleep();
    engine_job_quiet(engine, &quiet, long_step, long_done, &self);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_str_eq(order, "htttt");
    end();
}
