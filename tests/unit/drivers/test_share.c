/* Puts whose copying the receiver shares, at the driver: with a receiver that helps, does not help,
 * stops while it processes an entry, or is hostile. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "drivers/shm/share.h"
#include "drivers/shm/shm.h"
#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/random_layout.h"

enum { REGION = 1 << 20, SOURCE = 0, TARGET = REGION / 2, PUTS = 4 };
enum { SMALL_PIECES = (20000 + LANE_SLOT_BYTES - 1) / LANE_SLOT_BYTES };

static struct side side;
static struct lane_segment *segment;
static struct notify_segment *receivers;
static struct lane sender, receiver;
static struct driver_peer *peer;
static struct driver_put *moves[PUTS];
static struct lane_put offers[PUTS];
static struct copy_program *programs[PUTS];
static struct op op;

static void *zeroes(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(memory != MAP_FAILED);
    return memory;
}

static void set_up(void)
{
    cr_assert(side_open(&side, "shm", 0, REGION) == 0);
    cr_assert(connect_to(side.driver, NULL, 0, &peer) == 0);
    segment = zeroes(sizeof(*segment));
    receivers = zeroes(sizeof(*receivers));
    lane_init(&sender, segment, LANE_SENDER);
    lane_init(&receiver, segment, LANE_RECEIVER);
    sender.receiver = receivers;
    shm_peer_lane(peer, &sender);
    fill(side.memory + SOURCE, TARGET, 3);
    op_init(&op);
}

static void tear_down(void)
{
    for (unsigned i = 0; i < PUTS; i++) {
        if (moves[i])
            side.driver->ops->put_release(side.driver, moves[i]);
        copy_program_free(programs[i]);
    }
    shm_peer_lane(peer, NULL);
    side.driver->ops->peer_disconnect(side.driver, peer);
    lane_deinit(&sender);
    lane_deinit(&receiver);
    munmap(segment, sizeof(*segment));
    munmap(receivers, sizeof(*receivers));
    side_close(&side);
}

/* Put `number` copies so many bytes from its offset to the same offset of the target; its id is
 * number + 1. */
static void make_put(unsigned number, enum copy_method method, uint64_t offset, uint64_t bytes,
                     bool notify)
{
    struct driver_landing *landing;
    struct driver_put_info info;
    struct layout *layout;
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    cr_assert(layout_contiguous(bytes, &layout) == 0);
    struct driver_landing_args landing_args = {.region = side.region,
                                               .offset_bytes = TARGET + offset,
                                               .layout = layout,
                                               .notify = notify,
                                               .token = number};
    cr_assert(side.driver->ops->landing_new(side.driver, &landing_args, &landing, blob,
                                            &blob_bytes) == 0);
    struct driver_put_args args = {.peer = peer,
                                   .region = side.region,
                                   .offset_bytes = SOURCE + offset,
                                   .layout = layout,
                                   .landing = blob,
                                   .flow = number, /* as puts of different plans */
                                   .landing_bytes = blob_bytes,
                                   .target_layout = layout};
    cr_assert(side.driver->ops->put_prepare(side.driver, &args, &moves[number], &info) == 0);
    if (method != COPY_PUSH) {
        const struct copy_mode mode = copy_mode_of(method, layout, layout);
        cr_assert(shm_put_share(moves[number], number + 1, layout, layout) == 0);
        shm_put_mode(moves[number], &mode);
        cr_assert(copy_program_new(layout, layout, &programs[number]) == 0);
        offers[number] = (struct lane_put){.id = number + 1,
                                           .size_bytes = bytes,
                                           .program = programs[number],
                                           .target = side.memory + TARGET + offset,
                                           .source = side.memory + SOURCE + offset};
        cr_assert(lane_add(&receiver, &offers[number]) == 0);
    }
    free(layout);
}

static bool landed(uint64_t offset, uint64_t bytes)
{
    return memcmp(side.memory + SOURCE + offset, side.memory + TARGET + offset, bytes) == 0;
}

static void start(unsigned number)
{
    op_init(&op);
    cr_assert(side.driver->ops->put_post(side.driver, moves[number], &op.op) == 0);
}

static void progress(void)
{
    side.driver->ops->progress(side.driver, 4);
}

TestSuite(share, .init = set_up, .fini = tear_down);

static const enum copy_method shared[] = {COPY_PULL, COPY_HALF, COPY_RING};

Test(share, nobody_helps)
{
    for (unsigned i = 0; i < 3; i++) {
        make_put(i, shared[i], i * 150000, 150000, true);
        for (unsigned round = 1; round <= 3; round++) {
            memset(side.memory + TARGET, 0, REGION - TARGET);
            start(i);
            cr_assert(op.done == 1 && op.status == 0 && side.notified_count == 3 * i + round);
            cr_assert(shm_put_copy_method(moves[i]) == shared[i]);
            cr_assert(shm_peer_copied(peer) && landed(i * 150000, 150000));
            cr_assert(lane_drain(&receiver) == 0, "all is done");
        }
    }
}

static void drain_receiver(void *context)
{
    lane_drain_one(context);
}

/* The receiver waits for this process, as in an exchange: both copy what the other one has left to
 * them. */
Test(share, two_wait_for_each_other)
{
    sender.meanwhile = drain_receiver;
    sender.context = &receiver;
    for (unsigned i = 0; i < 3; i++) {
        make_put(i, shared[i], i * 150000, 150000, true);
        start(i);
        cr_assert(op.done == 1 && op.status == 0);
        if (shared[i] == COPY_RING)
            cr_expect_geq(receiver.next, sender.next - LANE_ENTRIES, "the sender has unpacked");
        else
            cr_expect_eq(receiver.next, sender.next, "the sender has copied its part");
        cr_assert(lane_drain(&receiver) == 0 && landed(i * 150000, 150000));
        cr_expect_eq(receiver.next, sender.next);
    }
}

Test(share, small_ones_wait_in_the_lane)
{
    make_put(0, COPY_RING, 0, 20000, true);
    start(0);
    cr_assert(op.done == 1 && side.notified_count == 1 && lane_backlog(&sender) == SMALL_PIECES);
    cr_assert(!landed(0, 20000));
    cr_assert(lane_drain(&receiver) == 0 && landed(0, 20000));
}

/* Only one end writes: both at once would be a data race. */
Test(share, a_word_is_copied_by_the_receiver_alone)
{
    for (unsigned i = 0; i < 2; i++) {
        make_put(i, i == 0 ? COPY_PULL : COPY_HALF, i * 64, sizeof(uint64_t), true);
        atomic_store(&segment->drainer, LANE_RECEIVER);
        start(i);
        cr_assert(op.done == 0 && !landed(i * 64, sizeof(uint64_t)), "the sender has written, too");
        atomic_store(&segment->drainer, LANE_NOBODY);
        cr_assert(lane_drain(&receiver) == 0 && landed(i * 64, sizeof(uint64_t)));
        progress();
        cr_assert(op.done == 1);
    }
}

Test(share, strict_receivers_are_told_after_the_data)
{
    atomic_store(&receivers->strict, 1);
    side.expected = NULL;
    for (unsigned i = 0; i < 3; i++) {
        make_put(i, shared[i], i * 100000, 100000, true);
        start(i);
        cr_assert(op.done == 1 && landed(i * 100000, 100000) && lane_backlog(&sender) == 0);
    }
}

/* The receiver has been interrupted while it processed an entry: what is apart is complete at
 * once. */
Test(share, what_is_apart_waits_for_nobody)
{
    make_put(0, COPY_RING, 0, 20000, true);
    make_put(1, COPY_PUSH, 100000, 200, true);
    make_put(2, COPY_PUSH, 200000, 200, true);
    shm_put_apart(moves[1]);
    start(0);
    cr_assert(op.done == 1 && lane_backlog(&sender) > 0);
    atomic_store(&segment->drainer, LANE_RECEIVER);
    struct op waits;
    op_init(&waits);
    for (unsigned i = 0; i < 2; i++) { /* also behind one that waits */
        memset(side.memory + TARGET + 100000, 0, 200);
        start(1);
        cr_assert(op.done == 1 && landed(100000, 200) && side.notified_count == 2 + i);
        if (i == 0)
            cr_assert(side.driver->ops->put_post(side.driver, moves[2], &waits.op) == 0);
        cr_assert(waits.done == 0 && !landed(200000, 200) && !landed(0, 20000));
    }
    atomic_store(&segment->drainer, LANE_NOBODY);
    progress();
    cr_assert(waits.done == 1 && landed(0, 20000) && landed(200000, 200));
}

Test(share, what_follows_lands_after_it)
{
    make_put(0, COPY_RING, 0, 20000, true);
    make_put(1, COPY_PUSH, 0, 20000, true);
    start(0);
    cr_assert(lane_backlog(&sender) == SMALL_PIECES);
    fill(side.memory + SOURCE, 20000, 8);
    start(1);
    cr_assert(op.done == 1 && lane_backlog(&sender) == 0 && landed(0, 20000));
    cr_assert(lane_drain(&receiver) == 0 && landed(0, 20000), "old data does not return");
}

/* A receiver that stops while it processes an entry: nothing hangs, and queued puts stay in order
 * or are cancelled. */
Test(share, the_receiver_stays_in_the_middle)
{
    make_put(0, COPY_PULL, 0, 100000, true);
    make_put(1, COPY_RING, 100000, 200000, true);
    make_put(2, COPY_PUSH, 300000, 8, true);
    atomic_store(&segment->drainer, LANE_RECEIVER);
    struct op ops[3];
    for (unsigned i = 0; i < 3; i++) {
        op_init(&ops[i]);
        cr_assert(side.driver->ops->put_post(side.driver, moves[i], &ops[i].op) == 0);
    }
    for (unsigned i = 0; i < 10; i++)
        progress();
    cr_assert(ops[0].done + ops[1].done + ops[2].done == 0 && !shm_peer_copied(peer));
    cr_assert(side.driver->ops->arm(side.driver) == -EAGAIN);

    shm_put_cancel(side.driver, moves[1], -ECANCELED);
    cr_assert(ops[1].done == 1 && ops[1].status == -ECANCELED);
    shm_put_cancel(side.driver, moves[1], -ECANCELED); /* is not queued any more */
    cr_assert(ops[1].done == 1);

    atomic_store(&segment->drainer, LANE_NOBODY); /* it goes on */
    for (unsigned i = 0; i < 10; i++)
        progress();
    cr_assert(ops[0].done == 1 && ops[2].done == 1 && landed(0, 100000) && landed(300000, 8));
    cr_assert(side.driver->ops->arm(side.driver) == 0);
    start(1); /* it can be started again */
    cr_assert(op.done == 1 && shm_peer_copied(peer) && landed(100000, 200000));
}

Test(share, all_that_waits_is_given_up)
{
    make_put(0, COPY_HALF, 0, 100000, true);
    make_put(1, COPY_PUSH, 100000, 8, true);
    atomic_store(&segment->drainer, LANE_RECEIVER);
    struct op ops[2];
    for (unsigned i = 0; i < 2; i++) {
        op_init(&ops[i]);
        cr_assert(side.driver->ops->put_post(side.driver, moves[i], &ops[i].op) == 0);
    }
    shm_put_cancel(side.driver, moves[0], -ETIMEDOUT);
    shm_put_cancel(side.driver, moves[1], -ETIMEDOUT);
    cr_assert(ops[0].status == -ETIMEDOUT && ops[1].status == -ETIMEDOUT);
    cr_assert(side.driver->ops->arm(side.driver) == 0, "nothing is queued");
    progress();
    side.driver->ops->peer_fail(side.driver, peer, -EOWNERDEAD);
    cr_assert(shm_peer_copied(peer), "nothing to wait for");
    op_init(&op);
    cr_assert(side.driver->ops->put_post(side.driver, moves[0], &op.op) == -EOWNERDEAD);
}

/* In every state in which a start can wait for the receiver. */
Test(share, the_receiver_dies_while_a_start_waits)
{
    make_put(0, COPY_RING, 0, 20000, false);
    make_put(1, COPY_HALF, 100000, 100000, true); /* ORDERING: behind what is staged */
    make_put(2, COPY_RING, 200000, 200000, true); /* COPYING: the lane is full */
    start(0);
    atomic_store(&segment->drainer, LANE_RECEIVER);
    struct op ops[2];
    for (unsigned i = 0; i < 2; i++) {
        op_init(&ops[i]);
        cr_assert(side.driver->ops->put_post(side.driver, moves[1 + i], &ops[i].op) == 0);
    }
    progress();
    cr_assert_eq(((struct shm_put *)moves[1])->share->state, SHARE_ORDERING);
    side.driver->ops->peer_fail(side.driver, peer, -EOWNERDEAD);
    progress();
    for (unsigned i = 0; i < 2; i++) {
        cr_assert(ops[i].done == 1 && ops[i].status == -EOWNERDEAD);
        cr_assert_eq(((struct shm_put *)moves[1 + i])->share->state, SHARE_IDLE);
    }
}

/* The receiver writes random content between any two calls: each call returns. */
Test(share, hostile_receiver)
{
    uint32_t dice = 17;
    make_put(0, COPY_PULL, 0, 100000, true);
    make_put(1, COPY_HALF, 100000, 100000, true);
    make_put(2, COPY_RING, 200000, 200000, true);
    make_put(3, COPY_PUSH, 400000, 1000, true);
    for (unsigned round = 0; round < 300; round++) {
        unsigned number = next_random(&dice) % PUTS;
        op_init(&op);
        cr_assert(side.driver->ops->put_post(side.driver, moves[number], &op.op) == 0);
        for (unsigned i = 0; i < 3; i++) {
            switch (next_random(&dice) % 4) {
            case 0:
                atomic_store(&segment->head, sender.next - next_random(&dice) % 12);
                break;
            case 1:
                atomic_store(&segment->drainer, next_random(&dice) % 3);
                break;
            case 2:
                segment->entries[next_random(&dice) % LANE_ENTRIES].put = next_random(&dice);
                break;
            default:
                segment->entries[next_random(&dice) % LANE_ENTRIES].sequence = next_random(&dice);
            }
            progress();
        }
        shm_put_cancel(side.driver, moves[number], -ECANCELED);
        cr_assert(op.done == 1);
    }
}

/* ---- the copy mode changes from start to start ---- */

enum { PAIRS = 60, STARTS = 40, BYTES_MAX = 60000 };

struct pair {
    struct random_layout target, source;
    uint8_t *expected;
    struct copy_mode modes[COPY_MODES_MAX];
    unsigned mode_count;
};

static void make_pair(struct pair *pair, struct random *random, unsigned notified)
{
    struct driver_landing *landing;
    struct driver_put_info info;
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    uint32_t bytes;
    do {
        random_layout_free(&pair->target);
        random_layout_free(&pair->source);
        bytes = 1 + (uint32_t)random_below(random, random_below(random, 2) ? BYTES_MAX : 3000);
        pair->target = random_layout_new(random, bytes, false);
        pair->source = random_layout_new(random, bytes, false);
    } while (pair->target.layout->upper_bytes > REGION / 2 ||
             pair->source.layout->upper_bytes > REGION / 2);
    const struct layout *target = pair->target.layout, *source = pair->source.layout;
    struct driver_landing_args landing_args = {.region = side.region,
                                               .offset_bytes = TARGET,
                                               .layout = target,
                                               .notify = true,
                                               .token = notified};
    cr_assert(side.driver->ops->landing_new(side.driver, &landing_args, &landing, blob,
                                            &blob_bytes) == 0);
    struct driver_put_args args = {.peer = peer,
                                   .region = side.region,
                                   .offset_bytes = SOURCE,
                                   .layout = source,
                                   .landing = blob,
                                   .landing_bytes = blob_bytes,
                                   .target_layout = target};
    cr_assert(side.driver->ops->put_prepare(side.driver, &args, &moves[0], &info) == 0);
    cr_assert(shm_put_share(moves[0], notified + 1, target, source) == 0);
    cr_assert(copy_program_new(target, source, &programs[0]) == 0);
    offers[0] = (struct lane_put){.id = notified + 1,
                                  .size_bytes = bytes,
                                  .program = programs[0],
                                  .target = side.memory + TARGET,
                                  .source = side.memory + SOURCE};
    cr_assert(lane_add(&receiver, &offers[0]) == 0);
    pair->mode_count = copy_mode_candidates(target, source, true, pair->modes);
}

static void free_pair(struct pair *pair)
{
    lane_remove(&receiver, &offers[0]);
    side.driver->ops->put_release(side.driver, moves[0]);
    moves[0] = NULL;
    programs[0] = copy_program_free(programs[0]);
    random_layout_free(&pair->target);
    random_layout_free(&pair->source);
}

/* A start in any mode, while entries of the last ones are still in the lane; the receiver helps, or
 * does not. */
static void start_pair(struct pair *pair, struct random *random)
{
    if (random_below(random, 4) > 0)
        shm_put_mode(moves[0], &pair->modes[random_below(random, pair->mode_count)]);
    fill(side.memory + SOURCE, (size_t)pair->source.layout->upper_bytes,
         (uint32_t)random_next(random));
    for (uint64_t i = 0; i < pair->target.layout->size_bytes; i++)
        pair->expected[pair->target.places[i]] = side.memory[SOURCE + pair->source.places[i]];
    start(0);
    cr_assert(op.done == 1 && op.status == 0);
}

Test(share, modes_change_between_starts, .timeout = 60)
{
    const uint64_t seed =
        getenv("TCA_TEST_SEED") ? strtoull(getenv("TCA_TEST_SEED"), NULL, 0) : random_seed();
    struct random random = {seed};
    struct pair pair = {.expected = malloc(REGION / 2)};
    side.expected = NULL;
    for (unsigned i = 0; i < PAIRS; i++) {
        make_pair(&pair, &random, i);
        memset(side.memory + TARGET, 0xa5, REGION / 2);
        memset(pair.expected, 0xa5, REGION / 2);
        for (unsigned j = 0; j < STARTS; j++) {
            start_pair(&pair, &random);
            if (random_below(&random, 2) == 0)
                continue;
            cr_assert(lane_drain(&receiver) == 0);
            cr_assert(memcmp(side.memory + TARGET, pair.expected, REGION / 2) == 0,
                      "pair %u, start %u: seed %lu", i, j, seed);
        }
        cr_assert(shm_peer_copied(peer));
        free_pair(&pair);
    }
    free(pair.expected);
}
