/* Events of drivers, on the engine's thread: arrived data, and lost peers, which go to the loop. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/engine/engine_internal.h"
#include "proto/notify.h"

/* ---- memory for the loss of a peer, reserved while it is connected ---- */

int engine_loss_reserve(struct engine *engine)
{
    struct engine_loss *loss = calloc(1, sizeof(*loss));
    if (!loss)
        return -ENOMEM;
    loss->engine = engine;
    pthread_mutex_lock(&engine->mutex);
    loss->next = engine->losses_free;
    engine->losses_free = loss;
    pthread_mutex_unlock(&engine->mutex);
    return 0;
}

static struct engine_loss *take_loss(struct engine *engine)
{
    pthread_mutex_lock(&engine->mutex);
    struct engine_loss *loss = engine->losses_free;
    if (loss)
        engine->losses_free = loss->next;
    pthread_mutex_unlock(&engine->mutex);
    return loss;
}

void engine_loss_return(struct engine *engine)
{
    struct engine_loss *loss = take_loss(engine);
    if (loss) {
        free(loss);
        return;
    }
    pthread_mutex_lock(&engine->mutex);
    engine->losses_surplus++;
    pthread_mutex_unlock(&engine->mutex);
}

/* Back to the reserve. */
static void loss_handled(void *context)
{
    struct engine_loss *loss = context;
    struct engine *engine = loss->engine;
    pthread_mutex_lock(&engine->mutex);
    const bool surplus = engine->losses_surplus > 0;
    if (surplus) {
        engine->losses_surplus--;
    } else {
        *loss = (struct engine_loss){.next = engine->losses_free, .engine = engine};
        engine->losses_free = loss;
    }
    pthread_mutex_unlock(&engine->mutex);
    if (surplus)
        free(loss);
}

void engine_losses_free(struct engine *engine)
{
    for (struct engine_loss *loss; (loss = take_loss(engine));)
        free(loss);
}

/* Of the peer that is being lost; NULL: nothing is reserved for it. */
static struct engine_loss *loss_of(struct engine *engine, struct driver_peer *peer)
{
    if (engine->losing && engine->losing->peer == peer)
        return engine->losing;
    struct engine_loss *loss = take_loss(engine);
    if (loss)
        loss->peer = peer;
    engine->losing = loss;
    return loss;
}

/* ---- a peer is lost ---- */

static void loss_known(struct engine *engine, void *context)
{
    engine->losses--;
}

static void peer_down_on_loop(void *context)
{
    struct engine_loss *loss = context;
    struct engine *engine = loss->engine;
    engine->events.peer_down(engine->events.context, engine, loss->peer, loss->error);
    /* behind the orders about its plans */
    engine_call(engine, &loss->known_call, loss_known, loss_handled, loss);
}

static void driver_peer_down(void *context, struct driver_peer *peer, int error)
{
    struct engine *engine = context;
    struct engine_loss *loss = loss_of(engine, peer);
    engine->losing = NULL;
    if (!loss)
        return;
    loss->error = error;
    engine->losses++;
    loop_post_own(engine->loop, &loss->down_post, peer_down_on_loop, loss);
}

/* ---- puts are lost with it ---- */

struct puts_lost {
    struct loop_post post;
    struct engine *engine;
    struct driver_peer *peer;
    uint64_t flow;
    uint32_t count;
};

static void puts_lost_on_loop(void *context)
{
    struct puts_lost *lost = context;
    struct engine *engine = lost->engine;
    engine->events.puts_lost(engine->events.context, engine, lost->peer, lost->flow, lost->count);
    free(lost);
}

static void any_puts_lost_on_loop(void *context)
{
    const struct engine_loss *loss = context;
    struct engine *engine = loss->engine;
    engine->events.puts_lost(engine->events.context, engine, loss->peer, FLOW_ANY, 0);
}

static void driver_puts_lost(void *context, struct driver_peer *peer, uint64_t flow, uint32_t count)
{
    struct engine *engine = context;
    struct puts_lost *lost = malloc(sizeof(*lost));
    if (lost) {
        *lost = (struct puts_lost){.engine = engine, .peer = peer, .flow = flow, .count = count};
        loop_post_own(engine->loop, &lost->post, puts_lost_on_loop, lost);
        return;
    }
    struct engine_loss *loss = loss_of(engine, peer);
    if (!loss || loss->unknown)
        return;
    loss->unknown = true;
    loop_post_own(engine->loop, &loss->unknown_post, any_puts_lost_on_loop, loss);
}

/* The token of every landing in the daemon is what is raised there. */
static void driver_notified(void *context, uint64_t token)
{
    const struct notify_target *target = (const struct notify_target *)(uintptr_t)token;
    if (target->line)
        notify_raise_routed_at(target, clock_now_ns());
}

/* notify_tell() orders the line and the marks before the load. */
static void driver_notified_of_several(void *context, uint64_t token)
{
    const struct notify_target *target = (const struct notify_target *)(uintptr_t)token;
    driver_notified(context, token);
    if (target->line && atomic_load(&target->segment->engine_armed))
        engine_notified(context, target->segment);
}

struct paired {
    struct loop_post post;
    struct engine *engine;
    uint64_t pair;
    int fd;
    bool encrypts;
};

static void paired_on_loop(void *context)
{
    struct paired *paired = context;
    struct engine *engine = paired->engine;
    engine->events.paired(engine->events.context, paired->pair, paired->fd, paired->encrypts);
    free(paired);
}

/* Without memory for it, the other end finds it closed. */
static void driver_paired(void *context, uint64_t pair, int fd, bool encrypts)
{
    struct engine *engine = context;
    struct paired *paired = malloc(sizeof(*paired));
    if (!paired) {
        close(fd);
        return;
    }
    *paired = (struct paired){.engine = engine, .pair = pair, .fd = fd, .encrypts = encrypts};
    loop_post_own(engine->loop, &paired->post, paired_on_loop, paired);
}

struct driver_events engine_driver_events(struct engine *engine)
{
    return (struct driver_events){
        .notified = engine->config.several ? driver_notified_of_several : driver_notified,
        .puts_lost = driver_puts_lost,
        .peer_down = driver_peer_down,
        .paired = engine->events.paired ? driver_paired : NULL,
        .context = engine,
    };
}
