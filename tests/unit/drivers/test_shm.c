/* Properties of shm only: a word is copied immediately, and a long copy does not delay other
 * peers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "drivers/shm/shm.h"
#include "tests/unit/drivers/kit.h"

enum { REGION = 1 << 20, LONG = 40960, SEGMENT = 4096 };

static struct side side;

static struct driver_peer *connect_peer(void)
{
    struct driver_peer *peer;
    cr_assert(connect_to(side.driver, NULL, 0, &peer) == 0);
    return peer;
}

static struct driver_put *prepare_flow(struct driver_peer *peer, uint64_t flow,
                                       struct layout *layout, uint64_t target, uint64_t token)
{
    struct driver_landing *landing;
    struct driver_put *put;
    struct driver_put_info info;
    uint8_t blob[LANDING_MAX_BYTES];
    size_t bytes;
    struct driver_landing_args landing_args = {.region = side.region,
                                               .offset_bytes = target,
                                               .layout = layout,
                                               .notify = true,
                                               .token = token};
    cr_assert(side.driver->ops->landing_new(side.driver, &landing_args, &landing, blob, &bytes) ==
              0);
    struct driver_put_args args = {
        .peer = peer,
        .flow = flow,
        .region = side.region,
        .layout = layout,
        .landing = blob,
        .landing_bytes = bytes,
        .target_layout = layout,
    };
    cr_assert(side.driver->ops->put_prepare(side.driver, &args, &put, &info) == 0);
    return put;
}

static struct driver_put *prepare_put(struct driver_peer *peer, struct layout *layout,
                                      uint64_t target, uint64_t token)
{
    return prepare_flow(peer, 0, layout, target, token);
}

Test(shm, long_copies_go_in_pieces_and_peers_take_turns)
{
    struct layout *large, *word;
    struct op ops[4];
    cr_assert(side_open(&side, "shm", SEGMENT, REGION) == 0);
    cr_assert(layout_contiguous(LONG, &large) == 0 && layout_contiguous(8, &word) == 0);
    struct driver_peer *a = connect_peer(), *b = connect_peer(), *c = connect_peer();
    struct driver_put *puts[] = {
        prepare_put(a, large, 100000, 0),
        prepare_put(b, large, 200000, 1),
        prepare_put(a, word, 300000, 2),
        prepare_put(c, word, 400000, 3),
    };
    for (unsigned i = 0; i < 4; i++) {
        op_init(&ops[i]);
        cr_assert(post(&side, NULL, puts[i], &ops[i]) == 0);
    }
    cr_assert(ops[3].done == 1, "a peer with nothing in its queue is served at once");
    cr_assert(ops[0].done == 0 && ops[1].done == 0 && ops[2].done == 0);
    cr_assert(side.driver->ops->arm(side.driver) == -EAGAIN);

    for (unsigned i = 0; i < 2 * (LONG / SEGMENT) - 2; i++) /* alternating: both have one piece
                                                               left */
        cr_assert(side.driver->ops->progress(side.driver, 1) == 1);
    cr_assert(ops[0].done == 0 && ops[1].done == 0);
    cr_assert(side.driver->ops->progress(side.driver, 2) == 1, "a long piece is all of a round");
    cr_assert(side.driver->ops->progress(side.driver, 2) == 1);
    cr_assert(ops[0].done == 1 && ops[1].done == 1 && ops[2].done == 0);
    cr_assert(side.driver->ops->progress(side.driver, 100) == 1);
    cr_assert(ops[2].done == 1);
    cr_assert(side.driver->ops->progress(side.driver, 100) == 0);
    cr_assert(side.driver->ops->arm(side.driver) == 0);

    const uint64_t order[] = {3, 0, 1, 2};
    for (unsigned i = 0; i < 4; i++) {
        cr_assert(side.notified[i] == order[i]);
        side.driver->ops->put_release(side.driver, puts[i]);
    }
    side.driver->ops->peer_disconnect(side.driver, a);
    side.driver->ops->peer_disconnect(side.driver, b);
    side.driver->ops->peer_disconnect(side.driver, c);
    side_close(&side);
    free(large);
    free(word);
}

/* Of two flows to one peer, the short puts of one do not wait for the long one of the other, and
 * keep their order. */
Test(shm, flows_take_turns)
{
    enum { PUTS = 6 };
    struct layout *large, *middle, *word;
    struct op ops[PUTS];
    cr_assert(side_open(&side, "shm", SEGMENT, REGION) == 0);
    cr_assert(layout_contiguous(LONG, &large) == 0 &&
              layout_contiguous(2 * SEGMENT, &middle) == 0 && layout_contiguous(8, &word) == 0);
    struct driver_peer *peer = connect_peer();
    struct driver_put *puts[PUTS] = {
        prepare_flow(peer, 1, large, 100000, 0), prepare_flow(peer, 1, word, 200000, 1),
        prepare_flow(peer, 2, word, 210000, 2),  prepare_flow(peer, 2, middle, 300000, 3),
        prepare_flow(peer, 2, word, 400000, 4),  prepare_flow(peer, 3, middle, 500000, 5),
    };
    for (unsigned i = 0; i < PUTS; i++) {
        op_init(&ops[i]);
        cr_assert(post(&side, NULL, puts[i], &ops[i]) == 0);
    }
    cr_assert(ops[2].done == 1, "its flow is not queued");
    cr_assert(ops[0].done + ops[1].done + ops[3].done + ops[4].done + ops[5].done == 0);
    while (side.driver->ops->progress(side.driver, 1) > 0)
        ;
    const uint64_t order[PUTS] = {2, 3, 5, 4, 0, 1};
    for (unsigned i = 0; i < PUTS; i++) {
        cr_assert(ops[i].done == 1);
        cr_assert(side.notified[i] == order[i], "%u: %llu", i,
                  (unsigned long long)side.notified[i]);
        side.driver->ops->put_release(side.driver, puts[i]);
    }
    side.driver->ops->peer_disconnect(side.driver, peer);
    side_close(&side);
    free(large);
    free(middle);
    free(word);
}

/* While flows share the instance, no more is copied between two calls of progress(), which is when
 * the daemon looks at all sessions, than a short turn, be it of one long put or of many short ones,
 * whatever the size of segments. */
Test(shm, shared_turns_are_short)
{
    enum { TURNS = 8, MANY = 16, EACH = 2 * SHM_SHARED_BYTES / MANY };
    struct layout *large, *some;
    struct op ops[MANY + 1];
    struct driver_put *puts[MANY + 1];
    cr_assert(side_open(&side, "shm", TURNS * SHM_SHARED_BYTES, REGION) == 0);
    cr_assert(layout_contiguous(2 * TURNS * SHM_SHARED_BYTES, &large) == 0 &&
              layout_contiguous(EACH, &some) == 0);
    struct driver_peer *peer = connect_peer();
    puts[MANY] = prepare_flow(peer, 0, large, REGION / 2, 0);
    op_init(&ops[MANY]);
    cr_assert(post(&side, NULL, puts[MANY], &ops[MANY]) == 0);
    for (unsigned i = 0; i < MANY; i++) {
        puts[i] = prepare_flow(peer, 1 + i % 2, some, REGION / 4 + i * EACH, i);
        op_init(&ops[i]);
    }
    cr_assert(side.driver->ops->progress(side.driver, 100) == 1); /* alone: half of it */
    cr_assert(post(&side, NULL, puts[0], &ops[0]) == 0 && ops[0].done == 1);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        cr_assert(ops[MANY].done == 0, "all after %u turns", turn);
        cr_assert(side.driver->ops->progress(side.driver, 100) == 1);
    }
    cr_assert(ops[MANY].done == 1);

    unsigned at_once = 0;
    for (unsigned i = 1; i < MANY; i++) {
        cr_assert(post(&side, NULL, puts[i], &ops[i]) == 0);
        at_once += ops[i].done;
    }
    cr_assert(at_once > 0 && at_once <= MANY / 2, "%u of %u at once", at_once, MANY);
    while (side.driver->ops->progress(side.driver, 100) > 0)
        ;
    for (unsigned i = 0; i < MANY; i++)
        cr_assert(ops[i].done == 1);
    for (unsigned i = 0; i <= MANY; i++)
        side.driver->ops->put_release(side.driver, puts[i]);
    side.driver->ops->peer_disconnect(side.driver, peer);
    side_close(&side);
    free(large);
    free(some);
}

Test(shm, landings_of_another_instance_are_stale)
{
    struct side other;
    struct layout *word;
    struct driver_landing *landing;
    struct driver_put *put;
    struct driver_put_info info;
    uint8_t blob[LANDING_MAX_BYTES];
    size_t bytes;
    cr_assert(side_open(&side, "shm", 0, REGION) == 0 && side_open(&other, "shm", 0, REGION) == 0);
    cr_assert(layout_contiguous(8, &word) == 0);
    struct driver_landing_args landing_args = {
        .region = other.region, .layout = word, .notify = true};
    cr_assert(other.driver->ops->landing_new(other.driver, &landing_args, &landing, blob, &bytes) ==
              0);
    struct driver_peer *peer = connect_peer();
    struct driver_put_args args = {
        .peer = peer,
        .region = side.region,
        .layout = word,
        .landing = blob,
        .landing_bytes = bytes,
        .target_layout = word,
    };
    cr_assert(side.driver->ops->put_prepare(side.driver, &args, &put, &info) == -ESTALE);
    side.driver->ops->peer_disconnect(side.driver, peer);
    side_close(&side);
    side_close(&other);
    free(word);
}
