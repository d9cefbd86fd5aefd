/* An object that a plan needs ends right after a start was submitted, before the engine has seen
 * it: the chains that do not need the object run to their ends. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/engine/engine.h"
#include "proto/notify.h"
#include "proto/ring.h"
#include "proto/status.h"

static unsigned posts; /* the engine's */

static int put_post(struct driver *driver, struct driver_put *put, struct driver_op *op)
{
    posts++;
    op->done(op, 0);
    return 0;
}

#define IDLE_DRIVER_OPS .put_post = put_post
#include "idle_driver.h"

static int progress(struct driver *driver, unsigned budget)
{
    return 0;
}

TestSuite(engine_break, .timeout = 60);

enum { PLAN = 5, SLOTS = 8 };

static struct {
    struct loop *loop;
    struct engine *engine;
    struct engine_session *session;
    struct engine_session_args args;
    struct ring submit, complete;
    struct engine_plan plan;
    struct engine_call call;
    _Atomic bool gone;
    _Atomic uint64_t taken[SLOTS];
    bool quiet;
} world;

static void *pages(size_t bytes)
{
    const size_t rounded = (bytes + 4095) / 4096 * 4096;
    return memset(aligned_alloc(4096, rounded), 0, rounded);
}

static struct notify_line *line(uint32_t slot)
{
    return notify_line_at(world.args.notify, slot);
}

static struct chain_step wait_for(uint32_t slot)
{
    return (struct chain_step){
        .kind = CHAIN_WAIT,
        .gone = slot == 0 ? &world.gone : NULL,
        .wait = {.line = line(slot),
                 .taken = &world.taken[slot],
                 .count = 1,
                 .may_take = engine_plan_may_take,
                 .context = &world.plan},
    };
}

static void attach(struct engine *engine, void *context)
{
    cr_assert_eq(engine_session_reserve_line(world.session, SLOTS - 1), 0);
    engine_plan_attach(world.session, &world.plan);
}

/* Slot 0 is that of the object. */
static void make_plan(void)
{
    struct chain *chains[2];
    const struct chain_step put = {.kind = CHAIN_PUT, .put = {.driver = &the_driver}};
    const struct chain_step needs[] = {wait_for(0), put}, other[] = {wait_for(1), put};
    cr_assert_eq(chain_new(needs, 2, &chains[0]), 0);
    cr_assert_eq(chain_new(other, 2, &chains[1]), 0);
    world.plan = (struct engine_plan){.id = PLAN, .chain_count = 2};
    cr_assert_eq(engine_plan_make_room(&world.plan, 2), 0);
    memcpy(world.plan.chains, chains, sizeof(chains));
    engine_call(world.engine, &world.call, attach, NULL, NULL);
}

static void up(void)
{
    const struct engine_config config = {0};
    const struct engine_events events = {0};
    world.args = (struct engine_session_args){
        .id = 1,
        .segment = pages(sizeof(*world.args.segment)),
        .notify = mmap(NULL, NOTIFY_SEGMENT_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
        .wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    struct session_segment *segment = world.args.segment;
    ring_init(&world.submit, &segment->submit[0], segment->submit_entries[0],
              sizeof(struct submit_entry), SUBMIT_ENTRIES);
    ring_init(&world.complete, &segment->complete, segment->complete_entries,
              sizeof(struct complete_entry), COMPLETE_ENTRIES);
    the_driver.ops = &ops;
    cr_assert_eq(loop_new(&world.loop), 0);
    cr_assert_eq(engine_new(world.loop, &config, &events, &world.engine), 0);
    cr_assert_eq(engine_add_driver(world.engine, 1, &ops, NULL), 0);
    cr_assert_eq(engine_session_new(world.engine, &world.args, &world.session), 0);
    make_plan();
}

static void stop_loop(void *context)
{
    loop_stop(world.loop);
}

static void down(void)
{
    engine_plan_detach(world.session, &world.plan, -ECANCELED, stop_loop, NULL);
    cr_assert_eq(loop_run(world.loop), 0);
    chain_free(world.plan.chains[0]);
    chain_free(world.plan.chains[1]);
    free(world.plan.chains);
    engine_session_detach(world.session, stop_loop, NULL);
    cr_assert_eq(loop_run(world.loop), 0);
    engine_free(world.engine);
    loop_free(world.loop);
    close(world.args.wake_fd);
    free(world.args.segment);
    munmap(world.args.notify, NOTIFY_SEGMENT_BYTES);
}

static void submit(uint32_t sequence)
{
    const struct submit_entry entry = {.plan = PLAN, .sequence = sequence};
    cr_assert_eq(ring_push(&world.submit, &entry), 0);
}

static void be_quiet(void *context)
{
    world.quiet = true;
    loop_stop(world.loop);
}

/* The engine's thread has not begun yet, so it carries out the order before it polls. */
static void lose_object(void)
{
    atomic_store(&world.gone, true);
    engine_plan_break(world.session, &world.plan, -EOWNERDEAD, be_quiet, NULL);
}

static int completion(uint32_t sequence)
{
    struct complete_entry entry;
    while (ring_pop(&world.complete, &entry) == 0)
        sched_yield();
    cr_assert_eq(entry.sequence, sequence);
    return status_from_wire(entry.status);
}

Test(engine_break, a_start_that_was_just_submitted)
{
    up();
    submit(1);
    lose_object();
    cr_assert_eq(ring_readable(&world.complete), 0, "it was refused");
    notify_raise_routed(line(1), 1, 0);
    cr_assert_eq(engine_run(world.engine), 0);
    cr_assert_eq(completion(1), -EOWNERDEAD);
    cr_assert_eq(loop_run(world.loop), 0);
    cr_assert(world.quiet);
    cr_assert_eq(posts, 1, "%u of the chains ran to their ends", posts);
    submit(2);
    cr_assert_eq(write(world.args.wake_fd, &(uint64_t){1}, sizeof(uint64_t)), sizeof(uint64_t));
    cr_assert_eq(completion(2), -EOWNERDEAD);
    cr_assert_eq(posts, 1);
    down();
}

/* However many are submitted before it. */
Test(engine_break, the_last_of_many)
{
    enum { OTHERS = SUBMIT_ENTRIES - 1 };
    up();
    for (uint32_t sequence = 1; sequence <= OTHERS; sequence++) {
        const struct submit_entry entry = {.plan = PLAN + 1, .sequence = sequence};
        cr_assert_eq(ring_push(&world.submit, &entry), 0);
    }
    submit(OTHERS + 1);
    lose_object();
    for (uint32_t sequence = 1; sequence <= OTHERS; sequence++)
        cr_assert_eq(completion(sequence), -ENOENT);
    cr_assert_eq(ring_readable(&world.complete), 0, "it was refused");
    notify_raise_routed(line(1), 1, 0);
    cr_assert_eq(engine_run(world.engine), 0);
    cr_assert_eq(completion(OTHERS + 1), -EOWNERDEAD);
    cr_assert_eq(posts, 1);
    down();
}
