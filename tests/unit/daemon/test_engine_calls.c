/* Long work on the engine's thread lets other calls run between its slices. */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <string.h>

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

Test(engine_calls, between_slices)
{
    static struct engine_call job, first, second;
    const struct engine_config config = {.spin_ns = 1000, .yield_ns = 1000};
    const struct engine_events events = {0};
    sem_init(&begun, 0, 0);
    sem_init(&called, 0, 0);
    cr_assert_eq(loop_new(&loop), 0);
    cr_assert_eq(engine_new(loop, &config, &events, &engine), 0);
    cr_assert_eq(engine_run(engine), 0);
    engine_job(engine, &job, step, job_done, loop);
    sem_wait(&begun);
    engine_call(engine, &first, work, NULL, NULL);
    engine_call(engine, &second, work, NULL, NULL);
    sem_post(&called);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_str_eq(order, "jjccjjjd");
    engine = engine_free(engine);
    loop = loop_free(loop);
}
