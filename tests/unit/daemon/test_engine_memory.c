/* The engine without memory: calls and the loss of a peer still reach the other thread. */
#include <criterion/criterion.h>
#include <errno.h>

#include "daemon/engine/engine.h"
#include "failing.h"
#include "idle_driver.h"

TestSuite(engine_memory, .timeout = 60);

/* ---- a driver that loses its peer on request ---- */

struct driver_peer {
    char nothing;
};
static struct driver_peer peer, other;

static int progress(struct driver *driver, unsigned budget)
{
    return 0;
}

/* ---- events on the loop ---- */

enum { HEARD_MAX = 16 };
static struct heard {
    char what; /* l: puts lost; d: peer down; c: a call is over */
    struct driver_peer *peer;
    uint64_t flow;
    uint32_t count;
    int error;
} heard[HEARD_MAX];
static unsigned heard_count;
static struct loop *loop;
static struct engine *engine;

static void puts_lost(void *context, struct engine *of_engine, struct driver_peer *of,
                      uint64_t flow, uint32_t count)
{
    heard[heard_count++] = (struct heard){'l', of, .flow = flow, .count = count};
}

static void peer_down(void *context, struct engine *of_engine, struct driver_peer *of, int error)
{
    heard[heard_count++] = (struct heard){'d', of, .error = error};
}

static void over(void *context)
{
    heard[heard_count++] = (struct heard){'c', .error = *(int *)context};
    loop_stop(loop);
}

/* ---- tests ---- */

static void set_up(void)
{
    const struct engine_config config = {.spin_ns = 1000, .yield_ns = 1000};
    const struct engine_events events = {.puts_lost = puts_lost, .peer_down = peer_down};
    the_driver.ops = &ops;
    cr_assert_eq(loop_new(&loop), 0);
    cr_assert_eq(engine_new(loop, &config, &events, &engine), 0);
    cr_assert_eq(engine_add_driver(engine, 1, &ops, &(struct driver_config){0}), 0);
    cr_assert_eq(engine_run(engine), 0);
}

static void tear_down(void)
{
    engine = engine_free(engine);
    loop = loop_free(loop);
}

static void nothing(struct engine *of, void *context)
{
}

static void lose(struct engine *of, void *context)
{
    atomic_store(&no_memory, true);
    driver_events.puts_lost(driver_events.context, &peer, 7, 2);
    driver_events.puts_lost(driver_events.context, &peer, 9, 1);
    driver_events.peer_down(driver_events.context, &peer, -ENETDOWN);
    driver_events.peer_down(driver_events.context, &other, -EHOSTDOWN);
    atomic_store(&no_memory, false);
}

/* With memory for all events. */
static void lose_in_comfort(struct engine *of, void *context)
{
    driver_events.puts_lost(driver_events.context, &peer, 7, 2);
    driver_events.puts_lost(driver_events.context, &peer, 9, 1);
    driver_events.peer_down(driver_events.context, &peer, -ENETDOWN);
}

/* Until the loop has the event. */
static void call(void (*work)(struct engine *of, void *context))
{
    static struct engine_call node;
    static int number;
    number++;
    engine_call(engine, &node, work, over, &number);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_eq(heard[heard_count - 1].what, 'c');
    cr_assert_eq(heard[heard_count - 1].error, number);
}

Test(engine_memory, calls_without, .init = set_up, .fini = tear_down)
{
    for (int i = 0; i < 100; i++) {
        heard_count = 0;
        atomic_store(&no_memory, true);
        call(nothing);
        atomic_store(&no_memory, false);
        cr_assert_eq(heard_count, 1);
    }
}

Test(engine_memory, loses_a_peer_without, .init = set_up, .fini = tear_down)
{
    if (!CAN_FAIL)
        cr_skip_test("a sanitizer's malloc() does not fail");
    cr_assert_eq(engine_loss_reserve(engine), 0);
    cr_assert_eq(engine_loss_reserve(engine), 0);
    for (int round = 0; round < 3; round++) {
        heard_count = 0;
        call(lose);
        cr_assert_eq(heard_count, 4);
        cr_assert(heard[0].what == 'l' && heard[0].peer == &peer && heard[0].flow == FLOW_ANY);
        cr_assert(heard[1].what == 'd' && heard[1].peer == &peer && heard[1].error == -ENETDOWN);
        cr_assert(heard[2].what == 'd' && heard[2].peer == &other && heard[2].error == -EHOSTDOWN);
        call(nothing); /* the used reserve is filled again once the engine has the reply */
        call(nothing);
    }
    cr_assert_eq(refused, 6);
    engine_loss_return(engine);
    engine_loss_return(engine);
}

Test(engine_memory, tells_each_flow_with, .init = set_up, .fini = tear_down)
{
    cr_assert_eq(engine_loss_reserve(engine), 0);
    call(lose_in_comfort);
    cr_assert_eq(heard_count, 4);
    cr_assert(heard[0].what == 'l' && heard[0].flow == 7 && heard[0].count == 2);
    cr_assert(heard[1].what == 'l' && heard[1].flow == 9 && heard[1].count == 1);
    cr_assert(heard[2].what == 'd' && heard[2].peer == &peer && heard[2].error == -ENETDOWN);
    engine_loss_return(engine); /* while it is in use, too */
}
