/* Events of drivers, on the engine's thread: arrived data, and lost peers, which go to the loop. */
#include <sched.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/engine/engine_internal.h"

struct peer_down_post {
    struct engine *engine;
    struct driver_peer *peer;
    int error;
};

static void loss_known(struct engine *engine, void *context)
{
    engine->losses--;
}

static void peer_down_on_loop(void *context)
{
    struct peer_down_post *post = context;
    struct engine *engine = post->engine;
    engine->events.peer_down(engine->events.context, post->peer, post->error);
    free(post);
    if (engine->running) /* behind the orders about its plans */
        engine_call(engine, loss_known, NULL, NULL);
}

static void driver_peer_down(void *context, struct driver_peer *peer, int error)
{
    struct engine *engine = context;
    struct peer_down_post *post = malloc(sizeof *post);
    if (!post)
        return; /* its plans fail one by one instead */
    *post = (struct peer_down_post){engine, peer, error};
    if (loop_post(engine->loop, peer_down_on_loop, post) < 0)
        free(post);
    else
        engine->losses++;
}

struct puts_lost_post {
    struct engine *engine;
    struct driver_peer *peer;
    uint64_t flow;
    uint32_t count;
};

static void puts_lost_on_loop(void *context)
{
    struct puts_lost_post *post = context;
    struct engine *engine = post->engine;
    engine->events.puts_lost(engine->events.context, post->peer, post->flow, post->count);
    free(post);
}

static void driver_puts_lost(void *context, struct driver_peer *peer, uint64_t flow, uint32_t count)
{
    struct engine *engine = context;
    struct puts_lost_post *post;
    while (!(post = malloc(sizeof *post)))
        sched_yield();
    *post = (struct puts_lost_post){engine, peer, flow, count};
    while (loop_post(engine->loop, puts_lost_on_loop, post) < 0)
        sched_yield();
}

/* The token of every landing in the daemon is the notification that it raises. */
static void driver_notified(void *context, uint64_t token)
{
    engine_landed((struct engine_landing *)(uintptr_t)token);
}

struct driver_events engine_driver_events(struct engine *engine)
{
    return (struct driver_events){
        .notified = driver_notified,
        .puts_lost = driver_puts_lost,
        .peer_down = driver_peer_down,
        .context = engine,
    };
}
