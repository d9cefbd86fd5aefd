/* Starts that choose parts of their puts: taken and checked by the engine, and kept while the plan
 * is paused and its puts are prepared anew. The driver here records what it gets. And what the
 * engine wakes a client for. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/engine/engine.h"
#include "proto/notify.h"
#include "proto/ring.h"
#include "proto/status.h"

TestSuite(engine_parts, .timeout = 60);

enum { SOURCE = 100, TARGET = 60, AT = 7, PLAN = 5 };

struct noted {
    struct driver_part part, moved;
    unsigned posts;
};

static struct driver the_driver;
static struct noted moves[2];

static void put_part(struct driver *driver, struct driver_put *put, const struct driver_part *part)
{
    ((struct noted *)put)->part = *part;
}

static int put_post(struct driver *driver, struct driver_put *put, struct driver_op *op)
{
    struct noted *noted = (struct noted *)put;
    noted->moved = noted->part;
    noted->posts++;
    op->done(op, 0);
    return 0;
}

static int progress(struct driver *driver, unsigned budget)
{
    return 0;
}

static int probe(const struct driver_config *config, struct driver_caps *ret_caps)
{
    *ret_caps = (struct driver_caps){.same_node = true};
    return 0;
}

static int open_driver(const struct driver_config *config, const struct driver_events *events,
                       struct driver **ret_driver)
{
    *ret_driver = &the_driver;
    return 0;
}

static void close_driver(struct driver *driver)
{
}

static int event_fd(struct driver *driver)
{
    return -1;
}

static int arm(struct driver *driver)
{
    return 0;
}

static const struct driver_ops ops = {.probe = probe,
                                      .open = open_driver,
                                      .close = close_driver,
                                      .put_part = put_part,
                                      .put_post = put_post,
                                      .progress = progress,
                                      .event_fd = event_fd,
                                      .arm = arm};

/* ---- the client and its daemon */

static struct {
    struct loop *loop;
    struct engine *engine;
    struct engine_session *session;
    struct session_segment *segment;
    struct notify_segment *notify;
    struct ring submit, complete;
    struct engine_plan plan;
    struct engine_call call;
    int wake_fd;
    uint32_t sequence;
} world;

static void stop_loop(void *context)
{
    loop_stop(world.loop);
}

static void attach(struct engine *engine, void *context)
{
    engine_plan_attach(world.session, &world.plan);
}

static void resume(struct engine *engine, void *context)
{
    world.plan.parts[0].put = (struct driver_put *)&moves[1]; /* as a move to another rail does */
    engine_plan_resume(&world.plan);
}

static void nothing(struct engine *engine, void *context)
{
}

static void in_engine(void (*work)(struct engine *engine, void *context))
{
    engine_call(world.engine, &world.call, work, stop_loop, NULL);
    cr_assert(loop_run(world.loop) == 0);
}

static void submit(uint64_t source_at, uint64_t target_at, uint64_t bytes)
{
    const struct submit_entry entry = {.plan = PLAN | SUBMIT_PARTS, .sequence = ++world.sequence};
    struct start_part *part = &world.segment->parts[AT];
    atomic_store(&part->source_at_bytes, source_at);
    atomic_store(&part->target_at_bytes, target_at);
    atomic_store(&part->bytes, bytes);
    cr_assert(ring_push(&world.submit, &entry) == 0);
    cr_assert(write(world.wake_fd, &(uint64_t){1}, sizeof(uint64_t)) == sizeof(uint64_t));
}

static int completion(void)
{
    struct complete_entry entry;
    while (ring_pop(&world.complete, &entry) == 0)
        sched_yield();
    cr_assert(entry.plan == PLAN && entry.sequence == world.sequence);
    return status_from_wire(entry.status);
}

static void check(const struct noted *noted, unsigned posts, uint64_t source_at, uint64_t target_at,
                  uint64_t bytes)
{
    cr_assert(noted->posts == posts);
    cr_assert(noted->moved.source_at_bytes == source_at &&
              noted->moved.target_at_bytes == target_at && noted->moved.bytes == bytes);
}

static void *pages(size_t bytes)
{
    const size_t rounded = (bytes + 4095) / 4096 * 4096;
    return memset(aligned_alloc(4096, rounded), 0, rounded);
}

static void up(void)
{
    const struct engine_config config = {0};
    const struct engine_events events = {0};
    world.segment = pages(sizeof(*world.segment));
    world.notify = pages(sizeof(struct notify_segment));
    world.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    const struct engine_session_args args = {
        .id = 1, .segment = world.segment, .notify = world.notify, .wake_fd = world.wake_fd};
    ring_init(&world.submit, &world.segment->submit[0], world.segment->submit_entries[0],
              sizeof(struct submit_entry), SUBMIT_ENTRIES);
    ring_init(&world.complete, &world.segment->complete, world.segment->complete_entries,
              sizeof(struct complete_entry), COMPLETE_ENTRIES);
    the_driver.ops = &ops;
    cr_assert(loop_new(&world.loop) == 0);
    cr_assert(engine_new(world.loop, &config, &events, &world.engine) == 0);
    cr_assert(engine_add_driver(world.engine, 1, &ops, NULL) == 0);
    cr_assert(engine_session_new(world.engine, &args, &world.session) == 0);
    cr_assert(engine_run(world.engine) == 0);
}

static void make_plan(void)
{
    struct chain *chains[2];
    static struct engine_part parts[1];
    for (int i = 0; i < 2; i++)
        cr_assert(
            chain_new(&(struct chain_step){.kind = CHAIN_PUT,
                                           .put = {&the_driver, (struct driver_put *)&moves[i]}},
                      1, &chains[i]) == 0);
    parts[0] = (struct engine_part){.driver = &the_driver,
                                    .put = (struct driver_put *)&moves[0],
                                    .source_bytes = SOURCE,
                                    .target_bytes = TARGET};
    world.plan = (struct engine_plan){
        .id = PLAN, .chain_count = 1, .parts = parts, .part_count = 1, .parts_at = AT};
    cr_assert(engine_plan_make_room(&world.plan, 2) == 0);
    memcpy(world.plan.chains, chains, sizeof(chains));
    in_engine(attach);
}

static void down(void)
{
    engine_plan_detach(world.session, &world.plan, -ECANCELED, stop_loop, NULL);
    cr_assert(loop_run(world.loop) == 0);
    chain_free(world.plan.chains[0]);
    chain_free(world.plan.chains[1]);
    free(world.plan.chains);
    engine_session_detach(world.session, stop_loop, NULL);
    cr_assert(loop_run(world.loop) == 0);
    engine_free(world.engine);
    loop_free(world.loop);
    close(world.wake_fd);
    free(world.segment);
    free(world.notify);
}

Test(engine_parts, taken_checked_and_kept)
{
    up();
    make_plan();
    submit(8, 16, 32);
    cr_assert(completion() == 0);
    check(&moves[0], 1, 8, 16, 32);
    submit(SOURCE - TARGET, 0, TARGET);
    cr_assert(completion() == 0);
    check(&moves[0], 2, SOURCE - TARGET, 0, TARGET);
    static const uint64_t outside[][3] = {
        {0, 0, TARGET + 1}, {SOURCE, 0, 1}, {0, TARGET, 1}, {UINT64_MAX, 0, 2}, {0, 2, UINT64_MAX}};
    for (unsigned i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        submit(outside[i][0], outside[i][1], outside[i][2]);
        cr_assert(completion() == -EINVAL);
        check(&moves[0], 2, SOURCE - TARGET, 0, TARGET);
    }

    engine_plan_pause(world.session, &world.plan, -ENETDOWN, stop_loop, NULL);
    cr_assert(loop_run(world.loop) == 0);
    submit(1, 2, 3);
    while (atomic_load(&world.segment->submit[0].head) != world.sequence)
        sched_yield(); /* until the engine has taken it */
    check(&moves[0], 2, SOURCE - TARGET, 0, TARGET);
    struct chain *of_other_rail = world.plan.chains[1];
    world.plan.chains[1] = world.plan.chains[0];
    world.plan.chains[0] = of_other_rail;
    in_engine(resume);
    cr_assert(completion() == 0);
    check(&moves[1], 1, 1, 2, 3);
    check(&moves[0], 2, SOURCE - TARGET, 0, TARGET);

    down();
}

/* A client that waits for a notification sleeps through the completion of its own start. */
Test(engine_parts, completions_wake_those_who_wait_for_them)
{
    up();
    make_plan();
    for (uint32_t wakes = 0; wakes < 2; wakes++) {
        notify_prepare_sleep_as(world.notify, wakes ? NOTIFY_SLEEPS : NOTIFY_SLEEPS_THROUGH);
        submit(0, 0, 1);
        cr_assert(completion() == 0);
        in_engine(nothing); /* it has done all that follows the completion */
        cr_assert(atomic_load(&world.notify->doorbell) == wakes);
        cr_assert(notify_will_sleep(world.notify) == !wakes);
    }
    down();
}
