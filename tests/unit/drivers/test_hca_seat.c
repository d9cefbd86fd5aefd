/* The hca driver in processes: landings that others number, peers that are not trusted, forks. Needs a
 * device: tests/vm/run. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/hca/hca.h"
#include "tests/unit/drivers/kit.h"

enum { REGION = 1 << 20, PART = REGION / 4, STALE = 0x5a, PAIR = 1 };

/* One for each path: short, writes, writes of blocks, messages. */
static const struct shape shapes[] = {
    {.block = 64, .count = 1, .outer = 1},
    {.block = 100000, .count = 1, .outer = 1},
    {.block = 4096, .count = 20, .stride = 8192, .outer = 1},
    {.block = 8, .count = 5000, .stride = 16, .outer = 1},
};
enum { KINDS = sizeof shapes / sizeof shapes[0] };

static struct side sender, receiver, stranger;

struct pair {
    struct side *from;
    struct driver_peer *peer, *back;
    uint64_t grant;
    struct layout *layouts[KINDS];
    struct driver_put *puts[KINDS];
    struct driver_landing *landings[KINDS];
    struct op ops[KINDS];
};

/* The puts, for landings with the numbers from `first` on, which are to come. */
static void pair_open(struct pair *pair, struct side *from, uint64_t grant, uint32_t first)
{
    *pair = (struct pair){.from = from, .grant = grant};
    cr_assert(tca_hca_seat.peer_new(from->driver, PAIR, &pair->peer) == 0);
    cr_assert(tca_hca_seat.peer_new(receiver.driver, grant, &pair->back) == 0);
    for (uint32_t i = 0; i < KINDS; i++) {
        uint8_t blob[LANDING_MAX_BYTES];
        struct driver_put_info info;
        pair->layouts[i] = shape_layout(&shapes[i]);
        const struct driver_put_args args = {
            .peer = pair->peer,
            .region = from->region,
            .offset_bytes = i * PART,
            .layout = pair->layouts[i],
            .landing = blob,
            .landing_bytes = tca_hca_seat.blob(first + i, first + i, shape_bytes(&shapes[i]), blob),
            .target_layout = pair->layouts[i],
        };
        op_init(&pair->ops[i]);
        cr_assert(from->driver->ops->put_prepare(from->driver, &args, &pair->puts[i], &info) == 0);
    }
}

static void land(struct pair *pair, uint32_t first)
{
    for (uint32_t i = 0; i < KINDS; i++) {
        const struct driver_landing_args args = {.region = receiver.region,
                                                 .offset_bytes = i * PART,
                                                 .layout = pair->layouts[i],
                                                 .notify = true,
                                                 .token = i,
                                                 .grant = pair->grant};
        cr_assert(tca_hca_seat.landing_new(receiver.driver, &args, first + i, first + i,
                                           &pair->landings[i]) == 0);
    }
}

static void join(struct pair *pair)
{
    side_exchange_offers(pair->from, pair->peer, &receiver, pair->back);
}

static void start(struct pair *pair)
{
    for (unsigned i = 0; i < KINDS; i++) {
        op_init(&pair->ops[i]);
        cr_assert(pair->from->driver->ops->put_post(pair->from->driver, pair->puts[i],
                                                    &pair->ops[i].op) == 0);
    }
}

static void end(struct pair *pair, int status)
{
    for (unsigned i = 0; i < KINDS; i++) {
        cr_assert(pump_until(pair->from, &receiver, &pair->ops[i].done, 1), "kind %u", i);
        cr_assert(pair->ops[i].status == status, "kind %u: %d", i, pair->ops[i].status);
    }
}

static void check_arrived(const struct pair *pair)
{
    cr_assert(pump_until(pair->from, &receiver, &receiver.notified_count, KINDS));
    pump_rounds(pair->from, &receiver, 100);
    cr_assert(receiver.notified_count == KINDS);
    receiver.notified_count = 0;
    for (unsigned i = 0; i < KINDS; i++)
        for (uint64_t n = 0; n < shape_bytes(&shapes[i]); n++) {
            const uint64_t at = i * PART + (uint64_t)shape_place(&shapes[i], n);
            cr_assert(receiver.memory[at] == pair->from->memory[at], "kind %u, byte %lu", i, n);
        }
}

static void run(struct pair *pair, uint32_t seed)
{
    fill(pair->from->memory, REGION, seed);
    start(pair);
    end(pair, 0);
    check_arrived(pair);
}

static void pair_release(struct pair *pair)
{
    for (unsigned i = 0; i < KINDS; i++) {
        pair->from->driver->ops->put_release(pair->from->driver, pair->puts[i]);
        if (pair->landings[i])
            receiver.driver->ops->landing_free(receiver.driver, pair->landings[i]);
        free(pair->layouts[i]);
    }
    pair->from->driver->ops->peer_disconnect(pair->from->driver, pair->peer);
    receiver.driver->ops->peer_disconnect(receiver.driver, pair->back);
}

static void pair_close(struct pair *pair)
{
    pair_release(pair);
    pump_rounds(pair->from, &receiver, 10);
}

static void setup(void)
{
    cr_assert(side_open(&sender, HCA_SEAT, 0, REGION) == 0);
    cr_assert(side_open(&receiver, HCA_SEAT, 0, REGION) == 0);
    cr_assert(side_open(&stranger, HCA_SEAT, 0, REGION) == 0);
    memset(receiver.memory, STALE, REGION);
}

static void teardown(void)
{
    side_close(&sender);
    side_close(&receiver);
    side_close(&stranger);
}

TestSuite(hca_seat, .init = setup, .fini = teardown, .timeout = 120);

/* What is started before there is a connection, and before the landing, waits for both. */
Test(hca_seat, starts_wait)
{
    for (unsigned order = 0; order < 2; order++) {
        struct pair pair;
        pair_open(&pair, &sender, PAIR, 1 + order * KINDS);
        fill(sender.memory, REGION, order);
        start(&pair);
        pump_rounds(&sender, &receiver, 100);
        if (order == 0)
            join(&pair);
        else
            land(&pair, 1 + order * KINDS);
        pump_rounds(&sender, &receiver, 1000);
        for (unsigned i = 0; i < KINDS; i++)
            cr_assert(pair.ops[i].done == 0);
        if (order == 0)
            land(&pair, 1);
        else
            join(&pair);
        end(&pair, 0);
        check_arrived(&pair);
        run(&pair, 7);
        pair_close(&pair);
    }
}

/* Starts as fast as the driver takes them, while the receiver does not look: queues must not overflow. */
Test(hca_seat, many_starts)
{
    enum { ROUNDS = 20, STARTS = 200 };
    unsigned waited = 0;
    struct pair pair;
    pair_open(&pair, &sender, PAIR, 1);
    join(&pair);
    land(&pair, 1);
    run(&pair, 1);
    for (unsigned n = 0; n < ROUNDS * STARTS; n++) {
        const unsigned kind = n % STARTS < KINDS ? n % STARTS : 0;
        op_init(&pair.ops[kind]);
        cr_assert(
            sender.driver->ops->put_post(sender.driver, pair.puts[kind], &pair.ops[kind].op) == 0);
        waited += pair.ops[kind].done == 0;
        cr_assert(pump_until(&sender, &receiver, &pair.ops[kind].done, 1));
    }
    cr_assert(waited > ROUNDS);
    cr_assert(pump_until(&sender, &receiver, &receiver.notified_count, ROUNDS * STARTS));
    cr_assert(sender.downs == 0 && receiver.downs == 0);
    pair_close(&pair);
}

/* Landings that have gone before the question, after the answer, and with their region. */
Test(hca_seat, gone)
{
    struct pair early, late;
    pair_open(&late, &sender, PAIR, 5);
    join(&late);
    land(&late, 5);
    run(&late, 1);
    pair_open(&early, &stranger, 2, 1); /* lower than the newest */
    join(&early);
    start(&early);
    end(&early, -ESTALE);
    pair_close(&early);
    for (unsigned i = 0; i < KINDS; i++) {
        receiver.driver->ops->landing_free(receiver.driver, late.landings[i]);
        late.landings[i] = NULL;
    }
    receiver.driver->ops->region_remove(receiver.driver, receiver.region);
    receiver.region = NULL;
    pump_rounds(&sender, &receiver, 2000);
    memset(receiver.memory, STALE, REGION);
    for (unsigned i = 1; i < KINDS; i++) { /* not the one that completes when it is sent */
        op_init(&late.ops[i]);
        int r = sender.driver->ops->put_post(sender.driver, late.puts[i], &late.ops[i].op);
        cr_assert(r == 0 || r == -ESTALE);
        if (r == 0) {
            cr_assert(pump_until(&sender, &receiver, &late.ops[i].done, 1));
            cr_assert(late.ops[i].status == -ESTALE, "kind %u: %d", i, late.ops[i].status);
        }
    }
    pump_rounds(&sender, &receiver, 100);
    for (size_t i = 0; i < REGION; i++)
        cr_assert(receiver.memory[i] == STALE);
    cr_assert(receiver.notified_count == 0 || receiver.notified_count == KINDS);
    pair_close(&late);
    const struct driver_memory memory = {.base = receiver.memory, .length_bytes = REGION, .fd = -1};
    cr_assert(receiver.driver->ops->region_add(receiver.driver, &memory, &receiver.region) == 0);
}

/* Of another process's landing, a stranger gets no description, and what it knows is of no use. */
Test(hca_seat, strangers)
{
    struct pair honest;
    pair_open(&honest, &sender, PAIR, 1);
    join(&honest);
    land(&honest, 1);
    run(&honest, 1);
    for (unsigned what = 0; what < 1 + KINDS; what++) {
        struct pair other;
        pair_open(&other, &stranger, 2 + what, 1);
        join(&other);
        memset(receiver.memory, STALE, REGION);
        if (what == 0) {
            start(&other);
            end(&other, -ESTALE);
        } else { /* it knows the numbers and the key all the same */
            const struct hca_put *known = (struct hca_put *)honest.puts[what - 1];
            struct hca_put *put = (struct hca_put *)other.puts[what - 1];
            pump_rounds(&stranger, &receiver, 1000);
            put->gone = false;
            put->writable = known->writable;
            put->target_address = known->target_address;
            put->rkey = known->rkey;
            hca_put_choose(put);
            const unsigned downs = stranger.downs + receiver.downs;
            int r = stranger.driver->ops->put_post(stranger.driver, other.puts[what - 1],
                                                   &other.ops[what - 1].op);
            cr_assert(r == 0);
            for (unsigned i = 0; i < 100000 && stranger.downs + receiver.downs == downs; i++)
                pump_rounds(&stranger, &receiver, 10);
            cr_assert(stranger.downs + receiver.downs > downs, "case %u", what);
            cr_assert(pump_until(&stranger, &receiver, &other.ops[what - 1].done, 1));
        }
        cr_assert(receiver.notified_count == 0);
        for (size_t i = 0; i < REGION; i++)
            cr_assert(receiver.memory[i] == STALE, "case %u", what);
        pair_close(&other);
        run(&honest, 2 + what);
    }
    pair_close(&honest);
}

/* A child that closes what it has inherited does no harm. */
Test(hca_seat, forks)
{
    struct pair pair;
    int status;
    pair_open(&pair, &sender, PAIR, 1);
    join(&pair);
    land(&pair, 1);
    run(&pair, 1);
    start(&pair);
    const pid_t child = fork();
    if (child == 0) {
        tca_hca_seat.abandon(sender.driver, pair.peer, -ECANCELED);
        tca_hca_seat.abandon(receiver.driver, pair.back, -ECANCELED);
        pair_release(&pair);
        side_close(&sender);
        side_close(&receiver);
        _exit(0);
    }
    cr_assert(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    end(&pair, 0);
    check_arrived(&pair);
    run(&pair, 2);
    pair_close(&pair);
}
