#include "daemon/engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/engine/engine_internal.h"
#include "proto/notify.h"
#include "proto/thread.h"

enum {
    PROGRESS_BUDGET = 64,
    /* A network driver's progress() may make a system call. An idle driver is polled only once in
     * so many rounds, so that it does not delay starts on shared memory. */
    QUIET_ROUNDS = 256,
    QUIET_EVERY = 16,
    /* Wake-ups of parked sessions are checked for after so many rounds, each of which moves no more
     * than a turn of each driver, if that took so long. */
    LOOK_EVERY = 8,
    LOOK_NS = 10 * 1000,
    WAKE_MAX = 64, /* sessions that are polled again after a wake-up */
};

/* ---- the thread ---- */

static unsigned poll_drivers(struct engine *engine)
{
    unsigned work = 0;
    for (unsigned rail = 1; rail <= engine->rails; rail++) {
        struct engine_driver *slot = &engine->drivers[rail];
        if (!slot->driver || atomic_load_explicit(&slot->error, memory_order_relaxed))
            continue;
        if (slot->event_fd >= 0 && ++slot->idle_rounds > QUIET_ROUNDS &&
            slot->idle_rounds % QUIET_EVERY != 0)
            continue;
        int r = slot->driver->ops->progress(slot->driver, PROGRESS_BUDGET);
        if (r < 0) {
            atomic_store_explicit(&slot->error, r, memory_order_relaxed);
        } else if (r > 0) {
            slot->idle_rounds = 0;
            work += (unsigned)r;
        }
    }
    return work;
}

static unsigned poll_sessions(struct engine *engine)
{
    unsigned work = 0;
    for (struct engine_session *session = engine->active, *next; session; session = next) {
        next = session->next;
        if (session->detaching && engine_session_detach_step(session))
            continue;
        work += engine_session_poll(session);
    }
    return work;
}

static void take_events(struct engine *engine, int timeout_ms)
{
    struct epoll_event events[64];
    if (timeout_ms != 0)
        pthread_mutex_unlock(&engine->turn);
    int n = epoll_wait(engine->epoll_fd, events, 64, timeout_ms);
    if (timeout_ms != 0)
        pthread_mutex_lock(&engine->turn);
    for (unsigned rail = 1; rail <= engine->rails; rail++)
        engine->drivers[rail].idle_rounds = 0; /* it may have been one of them that woke us */
    bool rung = false;
    for (int i = 0; i < n; i++) {
        eventfd_t ignored;
        if (events[i].data.ptr == engine) { /* a call */
            eventfd_read(engine->call_fd, &ignored);
        } else if (events[i].data.ptr) { /* a session; a driver's descriptor (NULL) is emptied by
                                            its progress() */
            engine_session_wake(events[i].data.ptr);
            rung = true;
        }
    }
    if (rung)
        engine_wake_others(engine);
}

static void sleep_until_woken(struct engine *engine, int timeout_ms)
{
    atomic_store_explicit(&engine->asleep, true, memory_order_relaxed);
    engine_count(&engine->sleeps, 1);
    take_events(engine, timeout_ms);
    engine_awake(engine);
    atomic_store_explicit(&engine->asleep, false, memory_order_relaxed);
}

/* Wake-ups of parked sessions come only through epoll, which must be checked even if the engine
 * never sleeps. */
static void listen_to_parked(struct engine *engine)
{
    if (!engine->parked && !(engine->config.several && engine_others_await(engine)))
        return;
    if (++engine->rounds % LOOK_EVERY != 0)
        return;
    const uint64_t now_ns = clock_now_ns();
    if (now_ns - engine->looked_ns < LOOK_NS)
        return;
    engine->looked_ns = now_ns;
    take_events(engine, 0);
}

static bool arm_drivers(struct engine *engine)
{
    for (unsigned rail = 1; rail <= engine->rails; rail++) {
        struct engine_driver *slot = &engine->drivers[rail];
        if (slot->driver && slot->event_fd >= 0 &&
            !atomic_load_explicit(&slot->error, memory_order_relaxed) &&
            slot->driver->ops->arm(slot->driver) < 0)
            return false;
    }
    return true;
}

static bool is_stopped(const struct engine *engine)
{
    /* acquire: pairs with engine_free() */
    return atomic_load_explicit(&engine->stop, memory_order_acquire);
}

/* Arms all sessions and drivers, then checks all of them once more. */
static void arm_and_sleep(struct engine *engine)
{
    int timeout_ms = -1;
    engine_set_awaits(engine, engine->active);
    for (struct engine_session *session = engine->active, *next; session; session = next) {
        next = session->next;
        if (session->detaching)
            timeout_ms = 1; /* waits for a driver: normally its event wakes us */
        else if (!session->armed && !engine_session_arm(session))
            goto awake;
    }
    engine_set_awaits(engine, engine->active); /* the others are parked now */
    /* stop wakes it through call_fd, unless listen_to_parked() has just emptied that. */
    if (arm_drivers(engine) && !is_stopped(engine) && engine_may_sleep(engine))
        sleep_until_woken(engine, timeout_ms);
awake:
    engine_set_awaits(engine, false);
    for (struct engine_session *session = engine->active; session; session = session->next)
        engine_session_wake(session);
    /* When one session starts something, others often do soon: polls them without a wake-up. */
    unsigned woken = 0;
    for (struct engine_session *session = engine->parked, *next; session && woken < WAKE_MAX;
         session = next) {
        next = session->next;
        if (!session->dormant) {
            engine_session_wake(session);
            woken++;
        }
    }
}

/* engine_job_quiet() may run meanwhile. */
static enum waiter_advice wait_step(struct engine *engine)
{
    pthread_mutex_unlock(&engine->turn);
    const enum waiter_advice advice = waiter_step_dear(&engine->waiter);
    pthread_mutex_lock(&engine->turn);
    return advice;
}

static void *engine_main(void *argument)
{
    struct engine *engine = argument;
    if (engine->config.pin)
        pthread_setaffinity_np(pthread_self(), sizeof(engine->config.cpus), &engine->config.cpus);
    pthread_mutex_lock(&engine->turn);
    while (!atomic_load_explicit(&engine->stop, memory_order_relaxed)) {
        bool called = engine_run_calls(engine);
        unsigned work = poll_sessions(engine) + poll_drivers(engine);
        if (called || work) {
            waiter_begin(&engine->waiter);
            listen_to_parked(engine);
            continue;
        }
        listen_to_parked(engine);
        if (wait_step(engine) == WAITER_SLEEP) {
            arm_and_sleep(engine);
            waiter_begin(&engine->waiter);
        }
    }
    while (engine_run_calls(engine))
        ;
    pthread_mutex_unlock(&engine->turn);
    return NULL;
}

/* ---- life ---- */

static int watch(struct engine *engine, int fd, void *pointer)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = pointer};
    return epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int engine_new(struct loop *loop, const struct engine_config *config,
               const struct engine_events *events, struct engine **ret_engine)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return -ENOMEM;
    engine->loop = loop;
    engine->config = *config;
    engine->events = *events;
    engine->calls_last = &engine->calls;
    engine->taken_last = &engine->taken;
    pthread_mutex_init(&engine->mutex, NULL);
    pthread_mutex_init(&engine->turn, NULL);
    waiter_init(&engine->waiter, (uint32_t)config->spin_ns, (uint32_t)config->yield_ns);
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    engine->call_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = engine->epoll_fd < 0 || engine->call_fd < 0 ? -errno
                                                        : watch(engine, engine->call_fd, engine);
    if (r < 0) {
        engine_free(engine);
        return r;
    }
    *ret_engine = engine;
    return 0;
}

/* An open driver, which becomes the engine's. */
static int take_driver(struct engine *engine, unsigned rail, struct driver *driver)
{
    struct engine_driver *slot = &engine->drivers[rail];
    slot->event_fd = driver->ops->event_fd(driver);
    int r = slot->event_fd >= 0 ? watch(engine, slot->event_fd, NULL) : 0;
    if (r < 0) {
        driver->ops->close(driver);
        return r;
    }
    slot->driver = driver;
    engine->rails = rail > engine->rails ? rail : engine->rails;
    return 0;
}

int engine_add_driver(struct engine *engine, unsigned rail, const struct driver_ops *ops,
                      const struct driver_config *config)
{
    struct engine_driver *slot = &engine->drivers[rail];
    const struct driver_events events = engine_driver_events(engine);
    assert(!engine->running && !slot->driver);
    int r = ops->probe(config, &slot->caps);
    if (r < 0)
        return r;
    struct driver *driver;
    r = ops->open(config, &events, &driver);
    return r < 0 ? r : take_driver(engine, rail, driver);
}

static int add_branch(struct engine *engine, const struct engine *first, unsigned rail)
{
    const struct engine_driver *of = &first->drivers[rail];
    const struct driver_events events = engine_driver_events(engine);
    struct driver *branch;
    assert(!engine->running && !engine->drivers[rail].driver);
    if (!of->driver)
        return 0;
    if (!of->driver->ops->branch)
        return -EOPNOTSUPP;
    int r = of->driver->ops->branch(of->driver, &events, &branch);
    engine->drivers[rail].caps = of->caps;
    return r < 0 ? r : take_driver(engine, rail, branch);
}

int engine_add_branches(struct engine *engine, const struct engine *first, unsigned *ret_rail)
{
    for (unsigned rail = 1; rail <= first->rails; rail++) {
        int r = add_branch(engine, first, rail);
        *ret_rail = rail;
        if (r < 0)
            return r;
    }
    return 0;
}

int engine_run(struct engine *engine)
{
    engine->running = true;
    int r = thread_begin(&engine->thread, "tcad-engine", engine_main, engine);
    if (r < 0) {
        engine->running = false;
        return r;
    }
    return 0;
}

struct tuning {
    struct engine_call call;
    uint64_t spin_ns, yield_ns;
};

static void tune_work(struct engine *engine, void *context)
{
    struct tuning *tuning = context;
    waiter_init(&engine->waiter, (uint32_t)tuning->spin_ns, (uint32_t)tuning->yield_ns);
}

int engine_tune(struct engine *engine, uint64_t spin_ns, uint64_t yield_ns)
{
    struct tuning *tuning = malloc(sizeof(*tuning));
    if (!tuning)
        return -ENOMEM;
    *tuning = (struct tuning){.spin_ns = spin_ns, .yield_ns = yield_ns};
    engine_call(engine, &tuning->call, tune_work, free, tuning);
    return 0;
}

void engine_stop(struct engine *engine)
{
    if (!engine->running)
        return;
    atomic_store(&engine->stop, true);
    eventfd_write(engine->call_fd, 1);
    pthread_join(engine->thread, NULL);
    engine->running = false;
    loop_finish_posts(engine->loop); /* calls posted by the engine still need the drivers */
}

struct engine *engine_free(struct engine *engine)
{
    if (!engine)
        return NULL;
    engine_stop(engine);
    assert(!engine->active && !engine->parked);
    for (unsigned rail = 1; rail <= engine->rails; rail++) {
        struct driver *driver = engine->drivers[rail].driver;
        if (driver)
            driver->ops->close(driver);
    }
    loop_finish_posts(engine->loop); /* calls posted when the drivers were closed */
    if (engine->epoll_fd >= 0)
        close(engine->epoll_fd);
    if (engine->call_fd >= 0)
        close(engine->call_fd);
    engine_losses_free(engine);
    pthread_mutex_destroy(&engine->mutex);
    pthread_mutex_destroy(&engine->turn);
    free(engine);
    return NULL;
}

struct driver *engine_driver(const struct engine *engine, unsigned rail)
{
    return engine->drivers[rail].driver;
}

const struct driver_caps *engine_driver_caps(const struct engine *engine, unsigned rail)
{
    return engine->drivers[rail].driver ? &engine->drivers[rail].caps : NULL;
}

int engine_driver_error(const struct engine *engine, unsigned rail)
{
    return atomic_load_explicit(&engine->drivers[rail].error, memory_order_relaxed);
}

void engine_stats(const struct engine *engine, struct engine_stats *ret_stats)
{
    *ret_stats = (struct engine_stats){
        .starts = atomic_load_explicit(&engine->starts, memory_order_relaxed),
        .completions = atomic_load_explicit(&engine->completions, memory_order_relaxed),
        .errors = atomic_load_explicit(&engine->errors, memory_order_relaxed),
        .bytes = atomic_load_explicit(&engine->bytes, memory_order_relaxed),
        .sleeps = atomic_load_explicit(&engine->sleeps, memory_order_relaxed),
        .slices = atomic_load_explicit(&engine->slices, memory_order_relaxed),
        .longest_ns = atomic_load_explicit(&engine->longest_ns, memory_order_relaxed),
        .sessions = engine->session_count,
        .asleep = atomic_load_explicit(&engine->asleep, memory_order_relaxed),
    };
}
