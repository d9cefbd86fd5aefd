/* Order between rails: when a start waits for the data of earlier ones on another rail, when the
 * engine asks for that, and what ends such a start. The driver here does what the test says. */
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

TestSuite(engine_flow, .timeout = 60);

enum { A, B, RAILS, PLANS = 3 };

/* Of each rail, as the driver sees it: put_post() and peer_flush() that are not done. */
static struct {
    struct driver_op *posted[PLANS], *asked;
    _Atomic unsigned posts, questions;
    unsigned done;
} rails[RAILS];
static int refusal; /* of the next question */

static struct driver the_driver;

/* A put is its rail; a peer, too. */
static int put_post(struct driver *driver, struct driver_put *put, struct driver_op *op)
{
    const uintptr_t rail = (uintptr_t)put - 1;
    rails[rail].posted[rails[rail].posts % PLANS] = op;
    rails[rail].posts++;
    return 0;
}

static int peer_flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op)
{
    const uintptr_t rail = (uintptr_t)peer - 1;
    int r = refusal;
    refusal = 0;
    rails[rail].asked = r == 0 ? op : NULL;
    rails[rail].questions++;
    return r;
}

static int probe(const struct driver_config *config, struct driver_caps *ret_caps)
{
    *ret_caps = (struct driver_caps){.same_node = true, .other_nodes = true};
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

static int nothing_to_do(struct driver *driver)
{
    return 0;
}

static int progress(struct driver *driver, unsigned budget)
{
    return 0;
}

static int event_fd(struct driver *driver)
{
    return -1;
}

static const struct driver_ops ops = {.probe = probe,
                                      .open = open_driver,
                                      .close = close_driver,
                                      .put_post = put_post,
                                      .peer_flush = peer_flush,
                                      .progress = progress,
                                      .event_fd = event_fd,
                                      .arm = nothing_to_do};

/* ---- the client and its daemon */

static struct {
    struct loop *loop;
    struct engine *engine;
    struct engine_session *session;
    struct session_segment *segment;
    struct notify_segment *notify;
    struct ring submit[CHANNELS], complete;
    struct engine_plan plans[PLANS];
    unsigned rail[PLANS];
    bool there[PLANS];
    struct engine_call call;
    int wake_fd;
    uint32_t sequence;
} world;

static void stop_loop(void *context)
{
    loop_stop(world.loop);
}

static void in_engine(void (*work)(struct engine *engine, void *context), void *context)
{
    engine_call(world.engine, &world.call, work, stop_loop, context);
    cr_assert(loop_run(world.loop) == 0);
}

static void nothing(struct engine *engine, void *context)
{
}

/* The engine has done all that it can do. */
static void settle(void)
{
    for (int i = 0; i < 3; i++)
        in_engine(nothing, NULL);
}

static void submit(uint32_t plan)
{
    const struct submit_entry entry = {.plan = plan, .sequence = ++world.sequence};
    cr_assert(ring_push(&world.submit[world.plans[plan].channel], &entry) == 0);
    cr_assert(write(world.wake_fd, &(uint64_t){1}, sizeof(uint64_t)) == sizeof(uint64_t));
    settle();
}

/* The engine takes it. */
static void start(uint32_t plan)
{
    const struct ring_indexes *ring = &world.segment->submit[world.plans[plan].channel];
    submit(plan);
    while (atomic_load(&ring->head) != atomic_load(&ring->tail))
        sched_yield();
    settle();
}

static void expect(unsigned on_a, unsigned on_b, unsigned asked_of_a, unsigned asked_of_b)
{
    settle();
    cr_assert_eq(rails[A].posts, on_a);
    cr_assert_eq(rails[B].posts, on_b);
    cr_assert_eq(rails[A].questions, asked_of_a);
    cr_assert_eq(rails[B].questions, asked_of_b);
}

static void complete(struct engine *engine, void *context)
{
    const uintptr_t rail = (uintptr_t)context;
    struct driver_op *op = rails[rail].posted[rails[rail].done++ % PLANS];
    op->done(op, 0);
}

static void answer(struct engine *engine, void *context)
{
    struct driver_op *op = rails[(uintptr_t)context].asked;
    rails[(uintptr_t)context].asked = NULL;
    op->done(op, 0);
}

static void complete_on(uintptr_t rail)
{
    in_engine(complete, (void *)rail);
}

static void answer_of(uintptr_t rail)
{
    in_engine(answer, (void *)rail);
}

/* The status of the plan's start that has ended. */
static int ended(uint32_t plan)
{
    struct complete_entry entry;
    while (ring_pop(&world.complete, &entry) == 0)
        sched_yield();
    cr_assert_eq(entry.plan, plan);
    return status_from_wire(entry.status);
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
    for (int i = 0; i < CHANNELS; i++)
        ring_init(&world.submit[i], &world.segment->submit[i], world.segment->submit_entries[i],
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

static void enter(struct engine *engine, void *context)
{
    struct engine_plan *plan = context;
    cr_assert_eq(engine_plan_enter(world.session, plan), 0);
    if (!plan->session)
        engine_plan_attach(world.session, plan);
}

static void put_on(uint32_t plan, uintptr_t rail)
{
    struct engine_plan *run = &world.plans[plan];
    world.rail[plan] = (unsigned)rail;
    run->routes = calloc(1, sizeof(*run->routes));
    run->routes[0] = (struct engine_route){
        .node = 7, .driver = &the_driver, .peer = (struct driver_peer *)(rail + 1)};
    run->route_count = 1;
    chain_free(run->chains[0]);
    cr_assert(chain_new(&(struct chain_step){.kind = CHAIN_PUT,
                                             .put = {&the_driver, (struct driver_put *)(rail + 1)}},
                        1, &run->chains[0]) == 0);
    in_engine(enter, run);
}

static void commit(uint32_t plan, uintptr_t rail, uint32_t channel)
{
    world.plans[plan] = (struct engine_plan){.id = plan, .chain_count = 1, .channel = channel};
    cr_assert(engine_plan_make_room(&world.plans[plan], 1) == 0);
    world.there[plan] = true;
    put_on(plan, rail);
}

static void leave(struct engine *engine, void *context)
{
    cr_assert(engine_plan_leave(context));
}

static void release(uint32_t plan)
{
    struct engine_plan *run = &world.plans[plan];
    engine_plan_detach(world.session, run, -ECANCELED, stop_loop, NULL);
    cr_assert(loop_run(world.loop) == 0);
    in_engine(leave, run);
    chain_free(run->chains[0]);
    free(run->chains);
    world.there[plan] = false;
}

static void down(void)
{
    for (uint32_t i = 0; i < PLANS; i++)
        if (world.there[i])
            release(i);
    engine_session_detach(world.session, stop_loop, NULL);
    cr_assert(loop_run(world.loop) == 0);
    engine_free(world.engine);
    loop_free(world.loop);
    close(world.wake_fd);
    free(world.segment);
    free(world.notify);
}

Test(engine_flow, on_one_rail_nothing_waits)
{
    up();
    commit(0, A, 0);
    commit(1, A, 0);
    start(0);
    start(1);
    expect(2, 0, 0, 0);
    complete_on(A);
    complete_on(A);
    cr_assert_eq(ended(0), 0);
    cr_assert_eq(ended(1), 0);
    down();
}

Test(engine_flow, the_data_of_earlier_starts_arrives_first)
{
    up();
    commit(0, A, 0);
    commit(1, B, 0);
    start(0);
    start(1);
    expect(1, 0, 0, 0); /* not asked before it is complete */
    complete_on(A);
    cr_assert_eq(ended(0), 0);
    expect(1, 0, 1, 0);
    submit(0); /* behind the one that waits */
    expect(1, 0, 1, 0);
    answer_of(A);
    expect(1, 1, 1, 0);
    complete_on(B);
    cr_assert_eq(ended(1), 0);
    expect(1, 1, 1, 1);
    answer_of(B);
    expect(2, 1, 1, 1);
    complete_on(A);
    cr_assert_eq(ended(0), 0);
    start(0); /* the same rail again */
    expect(3, 1, 1, 1);
    complete_on(A);
    down();
}

Test(engine_flow, data_of_before_there_were_two_rails)
{
    up();
    commit(0, A, 0);
    start(0);
    complete_on(A);
    cr_assert_eq(ended(0), 0);
    commit(1, B, 0);
    start(1);
    expect(1, 0, 1, 0);
    answer_of(A);
    expect(1, 1, 1, 0);
    complete_on(B);
    down();
}

Test(engine_flow, another_channel_has_its_own_order)
{
    up();
    commit(0, A, 0);
    commit(1, B, 1);
    start(0);
    start(1);
    expect(1, 1, 0, 0);
    complete_on(A);
    complete_on(B);
    down();
}

static void resume(struct engine *engine, void *context)
{
    engine_plan_resume(context);
}

static void pause_plan(uint32_t plan)
{
    engine_plan_rest(world.session, &world.plans[plan], stop_loop, NULL);
    cr_assert(loop_run(world.loop) == 0);
}

/* As found by tests/model/rails.pml: the answer says nothing of starts that began after the
 * question. */
Test(engine_flow, an_answer_is_about_earlier_starts)
{
    up();
    commit(0, A, 0);
    commit(1, B, 0);
    commit(2, B, 0);
    start(0);
    complete_on(A);
    cr_assert_eq(ended(0), 0);
    start(1);
    expect(1, 0, 1, 0);
    pause_plan(1); /* it moves to A, where its start need not wait */
    in_engine(leave, &world.plans[1]);
    put_on(1, A);
    in_engine(resume, &world.plans[1]);
    expect(2, 0, 1, 0);
    start(2);
    answer_of(A);
    expect(2, 0, 1, 0); /* the start on A is not complete */
    complete_on(A);
    cr_assert_eq(ended(1), 0);
    expect(2, 0, 2, 0);
    answer_of(A);
    expect(2, 1, 2, 0);
    complete_on(B);
    down();
}

Test(engine_flow, a_start_that_waits_can_be_ended)
{
    up();
    commit(0, A, 0);
    commit(1, B, 0);
    start(0);
    start(1);
    release(1);
    cr_assert_eq(ended(1), -ECANCELED);
    complete_on(A);
    cr_assert_eq(ended(0), 0);
    start(0); /* nothing holds up its channel */
    expect(2, 0, 0, 0);
    complete_on(A);
    down();
}

static void stay(struct engine *engine, void *context)
{
    cr_assert_not(engine_plan_leave(context));
}

/* Its links cannot be disconnected before. */
Test(engine_flow, a_plan_leaves_when_its_peer_has_answered)
{
    up();
    commit(0, A, 0);
    commit(1, B, 0);
    start(0);
    complete_on(A);
    start(1);
    expect(1, 0, 1, 0);
    in_engine(stay, &world.plans[0]);
    answer_of(A);
    expect(1, 1, 1, 0);
    complete_on(B);
    down();
}

Test(engine_flow, a_question_is_put_again)
{
    up();
    commit(0, A, 0);
    commit(1, B, 0);
    start(0);
    complete_on(A);
    refusal = -EAGAIN;
    start(1);
    settle();
    cr_assert_eq(rails[A].questions, 2);
    cr_assert_eq(rails[B].posts, 0);
    answer_of(A);
    settle();
    cr_assert_eq(rails[B].posts, 1);
    complete_on(B);
    down();
}

/* What has not arrived over it is lost. */
Test(engine_flow, a_lost_peer_holds_up_nothing)
{
    up();
    commit(0, A, 0);
    commit(1, B, 0);
    start(0);
    complete_on(A);
    refusal = -ENETDOWN;
    start(1);
    expect(1, 1, 1, 0);
    complete_on(B);
    down();
}
