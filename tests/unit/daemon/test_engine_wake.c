/* A call that arrives just before the engine goes to sleep is run nevertheless. The driver here
 * makes another thread send one in every such round. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/engine/engine.h"
#include "idle_driver.h"

TestSuite(engine_wake, .timeout = 60);

enum {
    CALLS = 2000,
    BUSY_ROUNDS = 40000, /* then the idle session is dormant, and woken through epoll only */
};

static struct engine *engine;
static struct engine_call call;
static sem_t wanted, made;
static atomic_uint calls;
static atomic_bool pending, over;

static void work(struct engine *of, void *context)
{
    atomic_fetch_add(&calls, 1);
    atomic_store(&pending, false);
}

static void *make_calls(void *context)
{
    for (;;) {
        sem_wait(&wanted);
        if (atomic_load(&over))
            return NULL;
        atomic_store(&pending, true);
        engine_call(engine, &call, work, NULL, NULL);
        sem_post(&made);
    }
}

/* Engine's thread. Some cycles have an additional round, so that calls come in rounds of every
 * number. */
static int progress(struct driver *driver, unsigned budget)
{
    static unsigned seen, cycle, busy;
    static bool more;
    const unsigned now = atomic_load(&calls);
    if (busy < BUSY_ROUNDS) {
        busy++;
        return 1;
    }
    if (atomic_load(&over) || atomic_load(&pending))
        return 0;
    if (seen != now) {
        seen = now;
        more = ++cycle % 5 == 0;
        return 0;
    }
    if (more) {
        more = false;
        return 1;
    }
    sem_post(&wanted);
    sem_wait(&made);
    return 0;
}

static void detached(void *context)
{
    loop_stop(context);
}

Test(engine_wake, call_before_sleep)
{
    const struct engine_config config = {0}; /* does not poll for long */
    const struct engine_events events = {0};
    struct engine_session *session;
    struct loop *loop;
    pthread_t caller;
    struct engine_session_args args = {
        .id = 1,
        .segment = aligned_alloc(4096, (sizeof(*args.segment) + 4095) / 4096 * 4096),
        .notify = aligned_alloc(4096, (sizeof(*args.notify) + 4095) / 4096 * 4096),
        .wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    memset(args.segment, 0, sizeof(*args.segment));
    memset(args.notify, 0, sizeof(*args.notify));
    sem_init(&wanted, 0, 0);
    sem_init(&made, 0, 0);
    the_driver.ops = &ops;
    cr_assert_eq(loop_new(&loop), 0);
    cr_assert_eq(engine_new(loop, &config, &events, &engine), 0);
    cr_assert_eq(engine_add_driver(engine, 1, &ops, NULL), 0);
    cr_assert_eq(engine_session_new(engine, &args, &session), 0); /* idle */
    cr_assert_eq(pthread_create(&caller, NULL, make_calls, NULL), 0);
    cr_assert_eq(engine_run(engine), 0);
    while (atomic_load(&calls) < CALLS)
        usleep(1000);
    atomic_store(&over, true);
    sem_post(&wanted);
    sem_post(&made); /* the engine may wait for a call */
    pthread_join(caller, NULL);
    engine_session_detach(session, detached, loop);
    cr_assert_eq(loop_run(loop), 0);
    engine_free(engine);
    loop_free(loop);
    close(args.wake_fd);
    free(args.segment);
    free(args.notify);
}
