/*
 * The loop and a client, against a running engine: the loop attaches plans by quiet jobs, which run
 * in either thread, and detaches them, while the client starts a plan of its own, and both let the
 * engine fall asleep now and then. What the engine's turn protects is plain memory of the driver
 * here, for the thread sanitizer to look at.
 */
#include <errno.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>

#include "daemon/engine/engine.h"
#include "proto/list.h"
#include "proto/notify.h"
#include "proto/ring.h"
#include "proto/wait.h"
#include "tests/unit/proto/stress.h"

static int put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
#define IDLE_DRIVER_OPS .put_post = put_post
#include "tests/unit/daemon/idle_driver.h"

enum { OWN, BY_LOOP }; /* plans */
enum {
    LIFE = 500,      /* rounds of an engine's life */
    NAP_EVERY = 16,  /* rounds */
    NAP_NS = 300000, /* longer than the engine stays awake */
    LAST_JOBS = 8,   /* given just before the engine ends */
};

/* ---- a driver whose puts are complete in the next round */

struct driver_put {
    struct driver_put *next, **link;
    struct driver_op *op; /* in flight */
};

static struct {
    struct driver_put *puts;
    unsigned in_flight;
    unsigned inside; /* threads that use it */
} the;

static void enter(void)
{
    if (the.inside++ != 0)
        stress_fail("two threads run the engine");
}

static void leave(void)
{
    the.inside--;
}

static void prepare(struct driver_put *put)
{
    enter();
    *put = (struct driver_put){0};
    LIST_ADD(&the.puts, put, next, link);
    leave();
}

static void release(struct driver_put *put)
{
    enter();
    LIST_REMOVE(put, next, link);
    leave();
}

static int put_post(struct driver *driver, struct driver_put *put, struct driver_op *op)
{
    enter();
    put->op = op;
    the.in_flight++;
    leave();
    return 0;
}

static int progress(struct driver *driver, unsigned budget)
{
    int work = 0;
    enter();
    for (struct driver_put *put = the.puts; put && the.in_flight; put = put->next) {
        struct driver_op *op = put->op;
        if (!op)
            continue;
        put->op = NULL;
        the.in_flight--;
        op->done(op, 0);
        work++;
    }
    leave();
    return work;
}

/* ---- the world */

struct planned {
    struct driver_put put;
    struct chain *chain;
    struct engine_plan plan;
};

static struct {
    struct loop *loop;
    struct loop_timer *timer;
    struct engine *engine;
    struct engine_session *session;
    struct session_segment *segment;
    struct notify_segment *notify;
    int wake_fd;
    struct planned plans[2];
    uint64_t round, rounds; /* of this life */
    struct engine_call call, job;
    uint64_t called, seen;        /* numbers of calls: given, run */
    unsigned here, there, halves; /* jobs of the loop's, run by whom; that were divided */
    unsigned ended;
    pthread_t loop_thread;
    _Atomic uint64_t goes; /* the life that the client may begin */
    _Atomic bool over;     /* it is over */
} world;

static void stop_loop(void *context)
{
    loop_stop(world.loop);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

static void late(void *context)
{
    stress_fail("nobody woke the engine or the loop, in round %llu",
                (unsigned long long)world.round);
}

static void run_loop(void)
{
    if (loop_timer_set(world.timer, 10ull * STRESS_LOST_NS, 0) < 0 || loop_run(world.loop) < 0)
        stress_fail("the loop failed");
}

/* ---- the loop's rounds */

static void planned_new(struct planned *planned, uint32_t id)
{
    *planned = (struct planned){0};
    const struct chain_step step = {.kind = CHAIN_PUT, .put = {&the_driver, &planned->put}};
    if (chain_new(&step, 1, &planned->chain) < 0)
        stress_fail("no memory");
    planned->plan = (struct engine_plan){.id = id, .channel = id, .chain_count = 1};
    if (engine_plan_make_room(&planned->plan, 1) < 0)
        stress_fail("no memory");
    planned->plan.chains[0] = planned->chain;
}

static void call_work(struct engine *engine, void *context)
{
    enter();
    world.seen++;
    leave();
}

static void attach_now(struct planned *planned)
{
    if (world.seen != world.called)
        stress_fail("a quiet job overtook a call");
    if (pthread_equal(pthread_self(), world.loop_thread))
        world.here++;
    else
        world.there++;
    engine_plan_attach(world.session, &planned->plan);
}

/* Some in two slices, of which the second is the engine's. */
static bool attach_step(struct engine *engine, void *context)
{
    struct planned *planned = context;
    const bool second = planned->put.link != NULL;
    if (!second)
        prepare(&planned->put);
    if (!second && world.round % 8 == 5) {
        world.halves++;
        return true;
    }
    attach_now(planned);
    return false;
}

static void begin_round(void *context);

static void released(void *context)
{
    struct planned *planned = context;
    planned->chain = chain_free(planned->chain);
    free(planned->plan.chains);
    if (++world.round < world.rounds)
        begin_round(NULL);
    else
        loop_stop(world.loop);
}

static void release_work(struct engine *engine, void *context)
{
    struct planned *planned = context;
    release(&planned->put);
}

static void detached(void *context)
{
    engine_call(world.engine, &world.call, release_work, released, context);
}

static void attached(void *context)
{
    struct planned *planned = context;
    engine_plan_detach(world.session, &planned->plan, -ECANCELED, detached, planned);
}

static void begin_round(void *context)
{
    struct planned *planned = &world.plans[BY_LOOP];
    planned_new(planned, BY_LOOP);
    if (world.round % NAP_EVERY == 0)
        nap();
    if (world.round % 4 == 3) {
        world.called++;
        engine_call(world.engine, &world.call, call_work, NULL, NULL);
    }
    engine_job_quiet(world.engine, &world.job, attach_step, attached, planned);
    if (loop_timer_set(world.timer, 10ull * STRESS_LOST_NS, 0) < 0)
        stress_fail("no timer");
}

/* ---- lives */

static void *pages(size_t bytes)
{
    const size_t rounded = (bytes + 4095) / 4096 * 4096;
    void *memory = aligned_alloc(4096, rounded);
    if (!memory)
        stress_fail("no memory");
    return memset(memory, 0, rounded);
}

static bool end_step(struct engine *engine, void *context)
{
    enter();
    world.ended++;
    leave();
    return world.ended % 3 == 0;
}

static void end_done(void *context)
{
    ++*(unsigned *)context;
}

/* Jobs that the engine has been given are done, although it ends. */
static void end_engine(void)
{
    static struct engine_call calls[LAST_JOBS];
    unsigned done = 0;
    for (unsigned i = 0; i < LAST_JOBS; i++)
        if (i % 4 == 1)
            engine_job(world.engine, &calls[i], end_step, end_done, &done);
        else
            engine_job_quiet(world.engine, &calls[i], end_step, end_done, &done);
    world.engine = engine_free(world.engine);
    if (done != LAST_JOBS)
        stress_fail("the engine ended with %u of %d jobs done", done, LAST_JOBS);
}

static void attach_own(void *context)
{
    loop_stop(world.loop);
}

static void up(void)
{
    const struct engine_config config = {.spin_ns = 2000, .yield_ns = 20000};
    const struct engine_events events = {0};
    world.segment = pages(sizeof(*world.segment));
    world.notify = pages(sizeof(struct notify_segment));
    world.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    const struct engine_session_args args = {
        .id = 1, .segment = world.segment, .notify = world.notify, .wake_fd = world.wake_fd};
    the_driver.ops = &ops;
    if (loop_new(&world.loop) < 0 || loop_timer_new(world.loop, late, NULL, &world.timer) < 0 ||
        engine_new(world.loop, &config, &events, &world.engine) < 0 ||
        engine_add_driver(world.engine, 1, &ops, NULL) < 0 ||
        engine_session_new(world.engine, &args, &world.session) < 0 || engine_run(world.engine) < 0)
        stress_fail("no engine");
    planned_new(&world.plans[OWN], OWN);
    engine_job_quiet(world.engine, &world.job, attach_step, attach_own, &world.plans[OWN]);
    run_loop();
}

static void down(void)
{
    struct planned *own = &world.plans[OWN];
    engine_plan_detach(world.session, &own->plan, -ECANCELED, stop_loop, NULL);
    run_loop();
    engine_call(world.engine, &world.call, release_work, stop_loop, own);
    run_loop();
    chain_free(own->chain);
    free(own->plan.chains);
    engine_session_detach(world.session, stop_loop, NULL);
    run_loop();
    end_engine();
    loop_timer_free(world.timer);
    world.loop = loop_free(world.loop);
    close(world.wake_fd);
    free(world.segment);
    free(world.notify);
}

static uint64_t lives(const struct stress *stress)
{
    return (stress->iterations + LIFE - 1) / LIFE;
}

static void wait_for(const _Atomic uint64_t *value, uint64_t at_least)
{
    while (atomic_load(value) < at_least)
        sched_yield();
}

static void loop_party(struct stress *stress)
{
    world.loop_thread = pthread_self();
    for (uint64_t life = 1; life <= lives(stress); life++) {
        world.round = 0;
        world.rounds = LIFE;
        up();
        atomic_store(&world.over, false);
        atomic_store(&world.goes, 2 * life - 1);
        begin_round(NULL);
        run_loop();
        atomic_store(&world.over, true);
        wait_for(&world.goes, 2 * life); /* the client has ended */
        down();
    }
    if (world.here == 0 || world.there == 0 || world.halves == 0)
        stress_fail("quiet jobs ran in one thread only: %u here, %u in the engine, %u in both",
                    world.here, world.there, world.halves);
}

/* ---- the client's rounds: starts until the loop's are over */

static void start(struct ring *submit, struct ring *complete, uint32_t sequence)
{
    const struct submit_entry entry = {.plan = OWN, .sequence = sequence};
    struct complete_entry got;
    const uint64_t begin_ns = clock_now_ns();
    if (ring_push(submit, &entry) < 0)
        stress_fail("the submission ring is full");
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_exchange(&world.segment->engine_armed, 0))
        eventfd_write(world.wake_fd, 1);
    while (ring_pop(complete, &got) == 0) {
        sched_yield();
        if (clock_now_ns() - begin_ns > 10ull * STRESS_LOST_NS)
            stress_fail("nobody woke the engine for start %u", sequence);
    }
    if (got.plan != OWN || got.sequence != sequence || got.status != 0)
        stress_fail("completion of plan %u, start %u, status %u instead of start %u", got.plan,
                    got.sequence, got.status, sequence);
}

static void client_party(struct stress *stress)
{
    for (uint64_t life = 1; life <= lives(stress); life++) {
        struct ring submit, complete;
        wait_for(&world.goes, 2 * life - 1);
        ring_init(&submit, &world.segment->submit[OWN], world.segment->submit_entries[OWN],
                  sizeof(struct submit_entry), SUBMIT_ENTRIES);
        ring_init(&complete, &world.segment->complete, world.segment->complete_entries,
                  sizeof(struct complete_entry), COMPLETE_ENTRIES);
        for (uint32_t i = 1; !atomic_load(&world.over); i++) {
            if (i % NAP_EVERY == 0)
                nap();
            start(&submit, &complete, i);
        }
        atomic_store(&world.goes, 2 * life);
    }
}

int main(int argc, char **argv)
{
    struct stress stress = {.iterations = argc > 1 ? strtoull(argv[1], NULL, 0) : 10000};
    stress_threads(&stress, loop_party, client_party);
    return 0;
}
