/* Calls from the loop. Those that are ready run in order for one slice in each round, so that
 * starts and drivers wait for about a millisecond, however many there are. */
#include <sys/eventfd.h>

#include "daemon/base/loop.h"
#include "daemon/engine/engine_internal.h"

#define SLICE_NS UINT64_C(1000000)

bool engine_slice_over(const struct engine *engine)
{
    return clock_now_ns() >= engine->slice_end_ns;
}

static void append(struct engine *engine, struct engine_call *call)
{
    call->next = NULL;
    *engine->taken_last = call;
    engine->taken_last = &call->next;
}

/* Returns whether the job has more to do. A call may be gone when work() or done() returns. */
static bool run_call(struct engine *engine, struct engine_call *call)
{
    void (*done)(void *context) = call->done;
    if (!call->step)
        call->work(engine, call->context);
    else if (engine_count(&engine->slices, 1), call->step(engine, call->context))
        return true;
    if (done)
        loop_post_own(engine->loop, &call->post, done, call->context);
    return false;
}

static void take_calls(struct engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    if (engine->calls) {
        *engine->taken_last = engine->calls;
        engine->taken_last = engine->calls_last;
        engine->calls = NULL;
        engine->calls_last = &engine->calls;
    }
    atomic_store_explicit(&engine->calls_pending, false, memory_order_relaxed);
    pthread_mutex_unlock(&engine->mutex);
}

static struct engine_call *next_call(struct engine *engine)
{
    struct engine_call *call = engine->taken;
    if (!call)
        return NULL;
    engine->taken = call->next;
    if (!engine->taken)
        engine->taken_last = &engine->taken;
    return call;
}

static bool has_calls(const struct engine *engine)
{
    /* acquire: pairs with the release in give() (the mutex orders the list itself) */
    return engine->taken || atomic_load_explicit(&engine->calls_pending, memory_order_acquire);
}

bool engine_run_calls(struct engine *engine)
{
    struct engine_call *call;
    if (!has_calls(engine))
        return false;
    take_calls(engine);
    const uint64_t begin_ns = clock_now_ns();
    engine->slice_end_ns = begin_ns + SLICE_NS;
    while ((call = next_call(engine))) {
        if (run_call(engine, call))
            append(engine, call);
        if (engine_slice_over(engine))
            break;
    }
    const uint64_t took_ns = clock_now_ns() - begin_ns;
    if (took_ns > atomic_load_explicit(&engine->longest_ns, memory_order_relaxed))
        atomic_store_explicit(&engine->longest_ns, took_ns, memory_order_relaxed);
    return true;
}

/* Runs a slice of the call in this thread, unless the engine works or has other calls to run first.
 * Returns whether the call is over. */
static bool run_here(struct engine *engine, struct engine_call *call)
{
    if (!engine->running || pthread_mutex_trylock(&engine->turn) != 0)
        return false;
    bool over = false;
    if (!has_calls(engine)) {
        engine->slice_end_ns = clock_now_ns() + SLICE_NS;
        over = !run_call(engine, call);
    }
    pthread_mutex_unlock(&engine->turn);
    return over;
}

static void give(struct engine *engine, struct engine_call *call)
{
    if (!engine->running) { /* not started yet, or stopped: nothing can race */
        engine->slice_end_ns = UINT64_MAX;
        run_call(engine, call);
        return;
    }
    if (call->done)
        loop_expect(engine->loop);
    pthread_mutex_lock(&engine->mutex);
    const bool wakes = engine->wakes;
    engine->wakes = false;
    *engine->calls_last = call;
    engine->calls_last = &call->next;
    atomic_store_explicit(&engine->calls_pending, true, memory_order_release);
    pthread_mutex_unlock(&engine->mutex);
    if (wakes)
        eventfd_write(engine->call_fd, 1);
}

bool engine_may_sleep(struct engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    const bool may = engine->wakes = !engine->calls && !engine->taken;
    pthread_mutex_unlock(&engine->mutex);
    return may;
}

void engine_awake(struct engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    engine->wakes = false;
    pthread_mutex_unlock(&engine->mutex);
}

void engine_call(struct engine *engine, struct engine_call *call,
                 void (*work)(struct engine *engine, void *context), void (*done)(void *context),
                 void *context)
{
    *call = (struct engine_call){.work = work, .done = done, .context = context};
    give(engine, call);
}

void engine_job(struct engine *engine, struct engine_call *call,
                bool (*step)(struct engine *engine, void *context), void (*done)(void *context),
                void *context)
{
    *call = (struct engine_call){.step = step, .done = done, .context = context};
    give(engine, call);
}

void engine_job_quiet(struct engine *engine, struct engine_call *call,
                      bool (*step)(struct engine *engine, void *context),
                      void (*done)(void *context), void *context)
{
    *call = (struct engine_call){.step = step, .done = done, .context = context};
    if (!run_here(engine, call))
        give(engine, call);
}

void engine_wake(struct engine *engine)
{
    eventfd_write(engine->call_fd, 1);
}
