/*
 * A process that puts to another in every copy mode, which changes between starts, and a receiver
 * that follows the protocol: it drains the lane or sleeps, and sometimes is strict, as if its
 * daemon took the notifications: then it never reads the lane. The data must be there each time.
 */
#include <sched.h>

#include "drivers/shm/share.h"
#include "proto/notify.h"
#include "tests/unit/proto/random.h"
#include "tests/unit/proto/stress.h"

enum { PUTS = 6, PLACE = 128 * 1024 };

static const struct {
    enum copy_method method;
    uint64_t block, count; /* distance of the blocks in the target */
} kinds[PUTS] = {
    {COPY_PULL, 100, 50}, {COPY_HALF, 40000, 1}, {COPY_RING, 8, 300},
    {COPY_PUSH, 8, 1},    {COPY_RING, 70000, 1}, {COPY_NONE, 200, 150},
};

struct shared {
    struct lane_segment lane;
    _Alignas(LINE_BYTES) _Atomic uint64_t
        taken; /* set by the receiver: it has checked the data, which may be put again */
    _Alignas(4096) uint8_t source[PUTS][PLACE];
    uint8_t target[PUTS][PLACE];
    struct notify_segment notify; /* last: it is longer */
    struct notify_line lines[1];
};

static struct layout *make_layout(unsigned kind, uint64_t stride)
{
    struct layout *block, *all;
    if (layout_contiguous(kinds[kind].block, &block) < 0 ||
        layout_repeat(block, kinds[kind].count, (int64_t)stride, &all) < 0)
        stress_fail("no layout");
    free(block);
    return all;
}

static struct layout *source_layout(unsigned kind)
{
    return make_layout(kind, kinds[kind].block);
}

static struct layout *target_layout(unsigned kind)
{
    return make_layout(kind, kinds[kind].block + 24);
}

static uint8_t byte_of(uint64_t start, uint64_t place)
{
    return (uint8_t)(start * 31 + place * 7 + (place >> 8));
}

static struct notify_line *line_of(struct shared *shared)
{
    return &shared->notify.lines[0];
}

/* ---- sender ---- */

struct sender {
    struct stress *stress;
    struct shared *shared;
    struct driver *driver;
    struct driver_region *region;
    struct driver_peer *peer;
    struct lane lane;
    struct driver_put *puts[PUTS];
    struct copy_mode modes[PUTS], tries[PUTS][COPY_MODES_MAX];
    unsigned mode_count[PUTS];
    struct driver_op op;
    bool done;
    uint64_t raised;
};

static void notified(void *context, uint64_t token)
{
    struct sender *sender = context;
    notify_raise_direct(line_of(sender->shared), ++sender->raised, 0);
    notify_wake(&sender->shared->notify);
}

static void done(struct driver_op *op, int status)
{
    struct sender *sender = (struct sender *)((char *)op - offsetof(struct sender, op));
    if (status < 0)
        stress_fail("a put ended with %s", strerror(-status));
    sender->done = true;
}

static void make_put(struct sender *sender, unsigned kind)
{
    const struct driver_ops *ops = sender->driver->ops;
    struct layout *source = source_layout(kind), *target = target_layout(kind);
    struct driver_landing *landing;
    struct driver_put_info info;
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    struct driver_landing_args landing_args = {
        .region = sender->region,
        .offset_bytes = (uint64_t)(sender->shared->target[kind] - (uint8_t *)sender->shared),
        .layout = target,
        .notify = true};
    struct driver_put_args args = {
        .peer = sender->peer,
        .region = sender->region,
        .offset_bytes = (uint64_t)(sender->shared->source[kind] - (uint8_t *)sender->shared),
        .layout = source,
        .landing = blob,
        .target_layout = target};
    int r = ops->landing_new(sender->driver, &landing_args, &landing, blob, &blob_bytes);
    args.landing_bytes = blob_bytes;
    if (r < 0 || ops->put_prepare(sender->driver, &args, &sender->puts[kind], &info) < 0 ||
        shm_put_share(sender->puts[kind], kind + 1, target, source) < 0)
        stress_fail("cannot prepare put %u", kind);
    sender->modes[kind] = copy_mode_of(kinds[kind].method, target, source);
    sender->mode_count[kind] = copy_mode_candidates(target, source, true, sender->tries[kind]);
    free(source);
    free(target);
}

static void open_sender(struct sender *sender, struct stress *stress)
{
    const struct driver_ops *ops = driver_find("shm");
    const struct driver_config config = {.segment_bytes = 0};
    const struct driver_events events = {.notified = notified, .context = sender};
    uint8_t offer[OFFER_MAX_BYTES];
    size_t offer_bytes;
    *sender = (struct sender){.stress = stress, .shared = stress->shared, .op.done = done};
    struct driver_memory memory = {
        .base = stress->shared, .length_bytes = sizeof(struct shared), .fd = -1};
    if (ops->open(&config, &events, &sender->driver) < 0 ||
        ops->region_add(sender->driver, &memory, &sender->region) < 0 ||
        ops->peer_connect(sender->driver, NULL, 0, &sender->peer, offer, &offer_bytes) < 0)
        stress_fail("no driver");
    lane_init(&sender->lane, &sender->shared->lane, LANE_SENDER);
    sender->lane.receiver = &sender->shared->notify;
    shm_peer_lane(sender->peer, &sender->lane);
    for (unsigned kind = 0; kind < PUTS; kind++)
        make_put(sender, kind);
}

static void close_sender(struct sender *sender)
{
    const struct driver_ops *ops = sender->driver->ops;
    while (!shm_peer_copied(sender->peer))
        sched_yield();
    for (unsigned kind = 0; kind < PUTS; kind++)
        ops->put_release(sender->driver, sender->puts[kind]);
    ops->peer_disconnect(sender->driver, sender->peer);
    ops->region_remove(sender->driver, sender->region);
    ops->close(sender->driver);
    lane_deinit(&sender->lane);
}

/* One of those that a plan tries. */
static const struct copy_mode *any_mode(const struct sender *sender, unsigned kind,
                                        struct random *random)
{
    return &sender->tries[kind][random_below(random, sender->mode_count[kind])];
}

static void send(struct stress *stress)
{
    struct sender sender;
    struct random random = {3};
    open_sender(&sender, stress);
    for (uint64_t i = 0; i < stress->iterations; i++) {
        unsigned kind = i % PUTS;
        uint8_t *source = sender.shared->source[kind];
        const uint64_t ahead = i == 1 ? 1 : PUTS; /* it joins a lane that is in use, and empty */
        /* acquire: it has read the target, and drained what came from the source */
        while (i - atomic_load_explicit(&sender.shared->taken, memory_order_acquire) >= ahead)
            sched_yield();
        for (uint64_t place = 0; place < kinds[kind].block * kinds[kind].count; place++)
            source[place] = byte_of(i, place);
        shm_put_mode(sender.puts[kind], random_below(&random, 2)
                                            ? &sender.modes[kind]
                                            : any_mode(&sender, kind, &random));
        sender.done = false;
        if (sender.driver->ops->put_post(sender.driver, sender.puts[kind], &sender.op) < 0)
            stress_fail("cannot post");
        while (!sender.done)
            sender.driver->ops->progress(sender.driver, 1);
        if (random_below(&random, 8) == 0)
            shm_peer_copied(sender.peer); /* as before a plan is released */
    }
    close_sender(&sender);
}

/* ---- receiver ---- */

struct taker {
    struct shared *shared;
    struct lane lane;
    struct lane_put offers[PUTS];
    struct copy_program *programs[PUTS];
    bool strict;
};

static void open_taker(struct taker *taker, struct shared *shared)
{
    *taker = (struct taker){.shared = shared};
    lane_init(&taker->lane, &shared->lane, LANE_RECEIVER);
    for (unsigned kind = 0; kind < PUTS; kind++) {
        struct layout *source = source_layout(kind), *target = target_layout(kind);
        if (copy_program_new(target, source, &taker->programs[kind]) < 0)
            stress_fail("no program");
        taker->offers[kind] = (struct lane_put){.id = kind + 1,
                                                .size_bytes = source->size_bytes,
                                                .program = taker->programs[kind],
                                                .target = shared->target[kind],
                                                .source = shared->source[kind]};
        if (lane_add(&taker->lane, &taker->offers[kind]) < 0)
            stress_fail("no place for an offer");
        free(source);
        free(target);
    }
}

/* Whether notification `number` is there, with its data. */
static bool look(struct taker *taker, uint64_t number)
{
    if (notify_arrived(line_of(taker->shared)) <= number)
        return false;
    return taker->strict || !lane_pending(&taker->lane) || lane_drain(&taker->lane) == 0;
}

static void check(struct taker *taker, uint64_t number)
{
    unsigned kind = number % PUTS;
    const uint8_t *target = taker->shared->target[kind];
    uint64_t place = 0;
    for (uint64_t block = 0; block < kinds[kind].count; block++, target += kinds[kind].block + 24)
        for (uint64_t i = 0; i < kinds[kind].block; i++, place++)
            if (target[i] != byte_of(number, place))
                stress_fail("start %lu, byte %lu is wrong%s", (unsigned long)number,
                            (unsigned long)place, taker->strict ? ", and strict" : "");
}

static void be_strict(struct taker *taker, bool on)
{
    taker->strict = on;
    atomic_store_explicit(&taker->shared->notify.strict, on, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    while (on && lane_pending(&taker->lane) && lane_drain(&taker->lane) < 0)
        sched_yield();
}

static void rest(struct taker *taker, uint64_t number)
{
    struct notify_segment *notify = &taker->shared->notify;
    uint32_t doorbell = notify_prepare_sleep(notify);
    if (look(taker, number))
        notify_cancel_sleep(notify);
    else if (notify_sleep(notify, doorbell, STRESS_LOST_NS) == -ETIMEDOUT && look(taker, number))
        stress_fail("the receiver lost a wake-up at %lu", (unsigned long)number);
}

static void take(struct stress *stress)
{
    struct taker taker;
    struct random random = {4};
    struct shared *shared = stress->shared;
    /* relaxed: lane_init() must see what the sender has drained alone */
    while (atomic_load_explicit(&shared->lane.head, memory_order_relaxed) == 0)
        sched_yield();
    open_taker(&taker, shared);
    uint64_t patience = 0;
    for (uint64_t next = 0; next < stress->iterations;) {
        if (!look(&taker, next)) {
            if (patience-- == 0) {
                rest(&taker, next);
                patience = random_below(&random, 1000);
            }
            continue;
        }
        check(&taker, next++);
        /* release: pairs with the sender's acquire */
        atomic_store_explicit(&taker.shared->taken, next, memory_order_release);
        if (random_below(&random, 16) == 0)
            be_strict(&taker, !taker.strict);
    }
    lane_deinit(&taker.lane);
    for (unsigned kind = 0; kind < PUTS; kind++)
        copy_program_free(taker.programs[kind]);
}

int main(int argc, char **argv)
{
    return stress_main(argc, argv, sizeof(struct shared), send, take, -1);
}
