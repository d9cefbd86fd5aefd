/*
 * Two engines of one loop: the first has instances of shm and tcp, the second their branches. Each
 * has a session, whose client starts puts into the other session's memory over both rails, while
 * the loop makes and ends the plans, their landings and their puts as daemon/plans does, some of
 * them with starts in flight. Every start that succeeds has notified and moved its data, and each
 * engine has run its own session's starts, and no others.
 */
#include <sched.h>
#include <sys/eventfd.h>

#include "daemon/engine/engine.h"
#include "drivers/table.h"
#include "drivers/tcp/config.h"
#include "proto/notify.h"
#include "proto/ring.h"
#include "proto/wait.h"
#include "tests/unit/proto/stress.h"

enum {
    SHM = 1, /* rails, from 1; plan and channel of a rail: one less */
    TCP,
    RAILS = TCP,
    SIDES = 2,       /* engines, sessions, clients */
    STARTS = 20,     /* of each plan in a round */
    BREAK_EVERY = 4, /* rounds: the plans end with starts in flight */
    BYTES = 12288,
};

struct planned {
    struct engine_plan plan;
    struct chain *chain;
    struct notify_target landing;
    struct driver_landing *made;
    struct driver_put *put;
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    struct driver_op flush;
    uint64_t good; /* starts of the round; the client's until it is over */
};

struct side {
    struct engine *engine;
    struct engine_session *session;
    struct session_segment *segment;
    struct notify_segment *notify;
    struct side *other;
    int wake_fd;
    uint8_t *source, *target[RAILS + 1]; /* [BYTES] */
    struct driver_region *source_on[RAILS + 1], *target_on[RAILS + 1];
    struct driver_peer *peers[RAILS + 1];
    struct planned planned[RAILS + 1]; /* by rail */
    struct engine_call call;
    unsigned pending;                /* of both plans */
    uint64_t round, told[RAILS + 1]; /* told: notifications of the other side's puts until now */
    pthread_t client;
    _Atomic uint64_t goes; /* the round that its client may begin */
    struct loop_post over, cut;
    struct ring submit[RAILS + 1], complete;
};

static struct {
    struct loop *loop;
    struct loop_timer *timer;
    struct side sides[SIDES];
    struct layout *layout;
    uint64_t rounds;
    unsigned left; /* sides that are not over */
} world;

static void begin_round(struct side *side);

static void late(void *context)
{
    stress_fail("nothing has moved for long, in rounds %llu and %llu",
                (unsigned long long)world.sides[0].round, (unsigned long long)world.sides[1].round);
}

static struct driver *driver_of(const struct side *side, unsigned rail)
{
    return engine_driver(side->engine, rail);
}

static struct driver *instance(unsigned rail)
{
    return driver_of(&world.sides[0], rail);
}

static bool breaks(const struct side *side)
{
    return side->round % BREAK_EVERY == BREAK_EVERY - 1;
}

static uint8_t pattern(const struct side *side)
{
    return (uint8_t)(2 * side->round + (side == &world.sides[1]));
}

/* ---- the end of a round: the loop and the engines ---- */

static void one_less(struct side *side, void (*then)(struct side *side))
{
    if (--side->pending == 0)
        then(side);
}

static void released(void *context)
{
    struct side *side = context;
    if (loop_timer_set(world.timer, 20ull * STRESS_LOST_NS, 0) < 0)
        stress_fail("no timer");
    if (++side->round < world.rounds)
        begin_round(side);
    else if (--world.left == 0)
        loop_stop(world.loop);
}

/* The first engine. */
static void unland_work(struct engine *engine, void *context)
{
    struct side *side = context;
    for (unsigned rail = SHM; rail <= RAILS; rail++)
        instance(rail)->ops->landing_free(instance(rail), side->planned[rail].made);
}

static void check(struct side *side)
{
    for (unsigned rail = SHM; rail <= RAILS; rail++) {
        const struct planned *planned = &side->planned[rail];
        const uint64_t told = notify_arrived(planned->landing.line) - side->told[rail];
        side->told[rail] += told;
        if (told != planned->good)
            stress_fail(
                "side %d, round %llu, rail %u: %llu starts have succeeded, %llu have notified",
                (int)(side - world.sides), (unsigned long long)side->round, rail,
                (unsigned long long)planned->good, (unsigned long long)told);
        for (unsigned i = 0; planned->good > 0 && i < BYTES; i++)
            if (side->other->target[rail][i] != pattern(side))
                stress_fail("round %llu, rail %u: wrong data", (unsigned long long)side->round,
                            rail);
    }
}

static void stripped(void *context)
{
    struct side *side = context;
    check(side);
    engine_call(world.sides[0].engine, &side->call, unland_work, released, side);
}

static void strip_work(struct engine *engine, void *context)
{
    struct side *side = context;
    for (unsigned rail = SHM; rail <= RAILS; rail++) {
        struct driver *driver = engine_driver(engine, rail);
        chain_free(side->planned[rail].chain);
        free(side->planned[rail].plan.chains);
        driver->ops->put_release(driver, side->planned[rail].put);
    }
}

static void flushed(void *context)
{
    struct side *side = context;
    engine_call(side->engine, &side->call, strip_work, stripped, side);
}

static void flush_done(struct driver_op *op, int status)
{
    struct side *side = op->owner;
    if (status < 0)
        stress_fail("flush: %s", strerror(-status));
    loop_post_own(world.loop, &side->over, flushed, side);
}

static void flush_work(struct engine *engine, void *context)
{
    struct side *side = context;
    struct driver *driver = engine_driver(engine, TCP);
    side->planned[TCP].flush = (struct driver_op){.done = flush_done, .owner = side};
    if (driver->ops->peer_flush(driver, side->peers[TCP], &side->planned[TCP].flush) < 0)
        stress_fail("no flush");
}

static void flush(struct side *side)
{
    engine_call(side->engine, &side->call, flush_work, NULL, side);
}

static void detached(void *context)
{
    one_less(context, flush);
}

static void detach(struct side *side)
{
    side->pending = RAILS + breaks(side); /* and the client, which drains its completions */
    for (unsigned rail = SHM; rail <= RAILS; rail++)
        engine_plan_detach(side->session, &side->planned[rail].plan, -ECANCELED, detached, side);
}

/* ---- the client ---- */

static void push(struct side *side, unsigned rail, uint32_t sequence)
{
    const struct submit_entry entry = {.plan = rail - 1, .sequence = sequence};
    if (ring_push(&side->submit[rail], &entry) < 0)
        stress_fail("the submission ring is full");
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_exchange(&side->segment->engine_armed, 0))
        eventfd_write(side->wake_fd, 1);
}

/* Waits for `count` completions. */
static void take(struct side *side, unsigned count, bool ended)
{
    struct complete_entry got;
    const uint64_t begin_ns = clock_now_ns();
    while (count > 0) {
        if (ring_pop(&side->complete, &got) <= 0) {
            sched_yield();
            if (clock_now_ns() - begin_ns > 20ull * STRESS_LOST_NS)
                stress_fail("nobody woke the engine");
            continue;
        }
        if (got.status != 0 && !ended)
            stress_fail("a start failed");
        side->planned[got.plan + 1].good += got.status == 0;
        count--;
    }
}

static void client_over(void *context)
{
    struct side *side = context;
    if (breaks(side))
        one_less(side, flush);
    else
        detach(side);
}

static void detach_under_way(void *context)
{
    detach(context);
}

static void client_round(struct side *side)
{
    for (uint32_t i = 0; i < STARTS; i++) {
        for (unsigned rail = SHM; rail <= RAILS; rail++)
            push(side, rail, i);
        if (!breaks(side))
            take(side, RAILS, false);
        else if (i == STARTS / 2)
            loop_post_own(world.loop, &side->cut, detach_under_way, side);
    }
    if (breaks(side))
        take(side, RAILS * STARTS, true);
    loop_post_own(world.loop, &side->over, client_over, side);
}

static void *client(void *context)
{
    struct side *side = context;
    for (uint64_t round = 1; round <= world.rounds; round++) {
        while (atomic_load(&side->goes) < round)
            sched_yield();
        client_round(side);
    }
    return NULL;
}

/* ---- the begin of a round ---- */

static void attached(void *context)
{
    struct side *side = context;
    atomic_fetch_add(&side->goes, 1);
}

static void prepare_one(struct engine *engine, struct side *side, unsigned rail)
{
    struct planned *planned = &side->planned[rail];
    struct driver *driver = engine_driver(engine, rail);
    const struct driver_put_args args = {.peer = side->peers[rail],
                                         .flow = (uint64_t)(side - world.sides),
                                         .region = side->source_on[rail],
                                         .layout = world.layout,
                                         .landing = planned->blob,
                                         .landing_bytes = planned->blob_bytes,
                                         .target_layout = world.layout};
    struct driver_put_info info;
    if (driver->ops->put_prepare(driver, &args, &planned->put, &info) < 0)
        stress_fail("rail %u: no put", rail);
    const struct chain_step step = {.kind = CHAIN_PUT, .put = {driver, planned->put}};
    if (chain_new(&step, 1, &planned->chain) < 0)
        stress_fail("no memory");
    planned->plan = (struct engine_plan){.id = rail - 1, .channel = rail - 1, .chain_count = 1};
    if (engine_plan_make_room(&planned->plan, 1) < 0)
        stress_fail("no memory");
    planned->plan.chains[0] = planned->chain;
    engine_plan_attach(side->session, &planned->plan);
}

static bool prepare_step(struct engine *engine, void *context)
{
    for (unsigned rail = SHM; rail <= RAILS; rail++)
        prepare_one(engine, context, rail);
    return false;
}

static void landed(void *context)
{
    struct side *side = context;
    engine_job_quiet(side->engine, &side->call, prepare_step, attached, side);
}

/* The first engine. */
static bool land_step(struct engine *engine, void *context)
{
    struct side *side = context;
    for (unsigned rail = SHM; rail <= RAILS; rail++) {
        struct planned *planned = &side->planned[rail];
        const struct driver_landing_args args = {.region = side->other->target_on[rail],
                                                 .layout = world.layout,
                                                 .notify = true,
                                                 .token = (uint64_t)(uintptr_t)&planned->landing};
        if (instance(rail)->ops->landing_new(instance(rail), &args, &planned->made, planned->blob,
                                             &planned->blob_bytes) < 0)
            stress_fail("rail %u: no landing", rail);
    }
    return false;
}

static void begin_round(struct side *side)
{
    memset(side->source, pattern(side), BYTES);
    for (unsigned rail = SHM; rail <= RAILS; rail++) {
        struct planned *planned = &side->planned[rail];
        *planned = (struct planned){.landing = {.segment = side->other->notify,
                                                .line = notify_line_at(side->other->notify, rail)}};
        memset(side->other->target[rail], 0xff, BYTES);
    }
    engine_job_quiet(world.sides[0].engine, &side->call, land_step, landed, side);
}

/* ---- life ---- */

static void *pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        stress_fail("no memory");
    return memory;
}

static struct driver_region *add_region(unsigned rail, void *base)
{
    struct driver_region *region;
    const struct driver_memory memory = {.base = base, .length_bytes = BYTES, .fd = -1};
    if (instance(rail)->ops->region_add(instance(rail), &memory, &region) < 0)
        stress_fail("no region");
    return region;
}

static void engines_new(void)
{
    const struct engine_config config = {.spin_ns = 2000, .yield_ns = 20000, .several = true};
    const struct engine_events events = {0};
    const struct driver_config shm = {.segment_bytes = BYTES / 3};
    const struct driver_config tcp = {.own = &(struct tcp_config){.address = "127.0.0.1"}};
    static struct engine *engines[SIDES];
    unsigned rail;
    for (unsigned i = 0; i < SIDES; i++) {
        if (engine_new(world.loop, &config, &events, &engines[i]) < 0)
            stress_fail("no engine");
        world.sides[i].engine = engines[i];
    }
    engines_introduce(engines, SIDES);
    if (engine_add_driver(world.sides[0].engine, SHM, &shm_driver_ops, &shm) < 0 ||
        engine_add_driver(world.sides[0].engine, TCP, &tcp_driver_ops, &tcp) < 0 ||
        engine_add_branches(world.sides[1].engine, world.sides[0].engine, &rail) < 0)
        stress_fail("no drivers");
}

static void side_up(struct side *side)
{
    uint8_t address[ADDRESS_MAX_BYTES], offer[OFFER_MAX_BYTES];
    size_t offer_bytes;
    side->segment = pages(sizeof(*side->segment));
    side->notify = pages(NOTIFY_SEGMENT_BYTES);
    side->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    side->source = pages(BYTES);
    for (unsigned rail = SHM; rail <= RAILS; rail++) {
        const int bytes = instance(rail)->ops->address(instance(rail), address);
        struct driver *driver = driver_of(side, rail);
        side->target[rail] = pages(BYTES);
        side->source_on[rail] = add_region(rail, side->source);
        side->target_on[rail] = add_region(rail, side->target[rail]);
        if (bytes < 0 || driver->ops->peer_connect(driver, address, (size_t)bytes,
                                                   &side->peers[rail], offer, &offer_bytes) < 0)
            stress_fail("no peer");
        ring_init(&side->submit[rail], &side->segment->submit[rail - 1],
                  side->segment->submit_entries[rail - 1], sizeof(struct submit_entry),
                  SUBMIT_ENTRIES);
    }
    ring_init(&side->complete, &side->segment->complete, side->segment->complete_entries,
              sizeof(struct complete_entry), COMPLETE_ENTRIES);
    const struct engine_session_args args = {.id = 1 + (uint64_t)(side - world.sides),
                                             .segment = side->segment,
                                             .notify = side->notify,
                                             .wake_fd = side->wake_fd};
    if (engine_session_new(side->engine, &args, &side->session) < 0 ||
        engine_run(side->engine) < 0 || pthread_create(&side->client, NULL, client, side) != 0)
        stress_fail("no session");
}

static void disconnect_work(struct engine *engine, void *context)
{
    struct side *side = context;
    for (unsigned rail = SHM; rail <= RAILS; rail++) {
        struct driver *driver = engine_driver(engine, rail);
        driver->ops->peer_disconnect(driver, side->peers[rail]);
    }
}

static void side_over(void *context)
{
    if (--world.left == 0)
        loop_stop(world.loop);
}

static void session_over(void *context)
{
    struct side *side = context;
    engine_call(side->engine, &side->call, disconnect_work, side_over, side);
}

static void down(void)
{
    const uint64_t starts = world.rounds * STARTS * RAILS;
    struct engine_stats stats[SIDES];
    world.left = SIDES;
    for (unsigned i = 0; i < SIDES; i++) {
        pthread_join(world.sides[i].client, NULL);
        engine_stats(world.sides[i].engine, &stats[i]);
        engine_session_detach(world.sides[i].session, session_over, &world.sides[i]);
    }
    if (loop_run(world.loop) < 0)
        stress_fail("the loop failed");
    if (stats[0].starts != starts || stats[1].starts != starts)
        stress_fail("the engines have run %llu and %llu starts instead of %llu each",
                    (unsigned long long)stats[0].starts, (unsigned long long)stats[1].starts,
                    (unsigned long long)starts);
    for (unsigned i = 0; i < SIDES; i++)
        engine_stop(world.sides[i].engine);
    for (unsigned i = 0; i < SIDES; i++) {
        struct side *side = &world.sides[i];
        for (unsigned rail = SHM; rail <= RAILS; rail++) {
            instance(rail)->ops->region_remove(instance(rail), side->source_on[rail]);
            instance(rail)->ops->region_remove(instance(rail), side->target_on[rail]);
        }
    }
    engine_free(world.sides[1].engine);
    engine_free(world.sides[0].engine);
}

int main(int argc, char **argv)
{
    world.rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 500;
    world.left = SIDES;
    if (loop_new(&world.loop) < 0 || loop_timer_new(world.loop, late, NULL, &world.timer) < 0 ||
        loop_timer_set(world.timer, 20ull * STRESS_LOST_NS, 0) < 0 ||
        layout_contiguous(BYTES, &world.layout) < 0)
        stress_fail("no memory");
    engines_new();
    for (unsigned i = 0; i < SIDES; i++) {
        world.sides[i].other = &world.sides[1 - i];
        side_up(&world.sides[i]);
    }
    for (unsigned i = 0; i < SIDES; i++)
        begin_round(&world.sides[i]);
    if (loop_run(world.loop) < 0)
        stress_fail("the loop failed");
    down();
    loop_timer_free(world.timer);
    loop_free(world.loop);
    free(world.layout);
    return 0;
}
