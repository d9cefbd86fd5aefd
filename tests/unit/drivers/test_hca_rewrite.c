/* The hca driver in processes: what is sent again over another queue pair, and what is not. Needs a
 * device: tests/vm/run. */
#include <unistd.h>

#include "tests/unit/drivers/hca_breaks.h"

enum {
    SHORT = 0, /* kinds */
    WRITE = 1,
    BLOCKS = 2,
    MESSAGES = 3,
    BLOCK = 2048,    /* each is a write of its own */
    OWN = KINDS + 1, /* number of a landing */
};

TestSuite(hca_rewrite, .init = setup_breaks, .fini = teardown, .timeout = 240);

/* ---- a put of many writes ---- */

struct comb {
    struct shape shape;
    struct layout *layout;
    struct driver_put *put;
    struct driver_landing *landing;
    struct op op;
};

static void comb_start(struct comb *comb, uint32_t seed)
{
    fill(sender.memory, REGION, seed);
    memset(receiver.memory, STALE, REGION);
    op_init(&comb->op);
    cr_assert(sender.driver->ops->put_post(sender.driver, comb->put, &comb->op.op) == 0);
}

static void comb_end(struct comb *comb, unsigned notified)
{
    cr_assert(pump_until(&sender, &receiver, &comb->op.done, 1));
    cr_assert(comb->op.status == 0, "%d", comb->op.status);
    cr_assert(pump_until(&sender, &receiver, &receiver.notified_count, notified));
    pump_rounds(&sender, &receiver, 100);
    cr_assert(receiver.notified_count == notified);
    receiver.notified_count = 0;
    for (uint64_t n = 0; n < shape_bytes(&comb->shape); n++) {
        const uint64_t at = (uint64_t)shape_place(&comb->shape, n);
        cr_assert(receiver.memory[at] == sender.memory[at], "byte %lu", n);
    }
}

/* Of so many writes, over the pair's connection. */
static void comb_open(struct comb *comb, const struct pair *pair, uint64_t writes, uint32_t number)
{
    uint8_t blob[LANDING_MAX_BYTES];
    struct driver_put_info info;
    *comb =
        (struct comb){.shape = {.block = BLOCK, .count = writes, .stride = 2 * BLOCK, .outer = 1}};
    comb->layout = shape_layout(&comb->shape);
    const struct driver_put_args put = {
        .peer = pair->peer,
        .region = sender.region,
        .layout = comb->layout,
        .landing = blob,
        .landing_bytes = tca_hca_seat.blob(number, number, shape_bytes(&comb->shape), blob),
        .target_layout = comb->layout,
    };
    cr_assert(sender.driver->ops->put_prepare(sender.driver, &put, &comb->put, &info) == 0);
    const struct driver_landing_args landing = {
        .region = receiver.region, .layout = comb->layout, .notify = true, .grant = pair->grant};
    cr_assert(tca_hca_seat.landing_new(receiver.driver, &landing, number, number, &comb->landing) ==
              0);
    comb_start(comb, 1);
    comb_end(comb, 1);
}

static void comb_close(struct comb *comb)
{
    sender.driver->ops->put_release(sender.driver, comb->put);
    receiver.driver->ops->landing_free(receiver.driver, comb->landing);
    free(comb->layout);
}

/* The send queue is full, of a put that is wholly in it, or of which more is to come. */
Test(hca_rewrite, full_queue)
{
    const uint64_t counts[] = {HCA_REQUESTS - HCA_CHAIN, HCA_REQUESTS + 2 * HCA_CHAIN};
    struct pair pair;
    pair_ready(&pair);
    const struct hca_peer *peer = peer_of(pair.peer);
    for (uint32_t i = 0; i < 2; i++) {
        struct comb comb;
        comb_open(&comb, &pair, counts[i], OWN + i);
        stop(pair.back);
        comb_start(&comb, 2);
        cr_assert(((struct hca_put *)comb.put)->base.made == (i == 0));
        cr_assert(peer->posted - peer->reported > HCA_REQUESTS - 2 * HCA_CHAIN);
        stop(pair.peer);
        wait_until_broken(&pair);
        join(&pair);
        comb_end(&comb, 1);
        comb_close(&comb);
    }
    pair_close(&pair);
}

/* The queue pair fails once more when some of the writes of a put have been sent again: that begins
 * at the first one, whether or not the other end has received it. */
Test(hca_rewrite, twice)
{
    enum { SHORTS = HCA_WINDOW / 4, WRITES = 5 * HCA_CHAIN, OTHERS = 40 };
    struct ibv_send_wr nothing = {.opcode = IBV_WR_RDMA_WRITE};
    struct pair pair;
    struct comb comb;
    pair_ready(&pair);
    comb_open(&comb, &pair, WRITES, OWN);
    struct hca_peer *peer = peer_of(pair.peer);
    const struct hca_peer *back = peer_of(pair.back);
    pump_rounds(&sender, &receiver, 100);
    stop(pair.back);
    for (unsigned i = 0; i < SHORTS; i++)
        start_kind(&pair, SHORT);
    comb_start(&comb, 2);
    cr_assert(((struct hca_put *)comb.put)->base.made);
    stop(pair.peer);
    wait_until_broken(&pair);
    join(&pair);
    /* As hca_alive.c does, but so many that not all of the put's writes find room behind them. */
    for (unsigned i = 0; i < OTHERS; i++)
        cr_assert(hca_send_chain(peer, &nothing, 1, NULL) == 0);
    cr_assert(hca_again_run(peer) == -EAGAIN && peer->rewriting);
    while (back->credits.reported < peer->window.counted + SHORTS)
        pump_rounds(&receiver, NULL, 1);
    usleep(100000); /* the device delivers the count */
    stop(pair.peer);
    stop(pair.back);
    usleep(100000); /* and reports that it has stopped */
    cr_assert(peer->rewriting);
    wait_until_broken(&pair);
    broken = 0;
    memset(receiver.memory, STALE, REGION);
    fill(sender.memory, REGION, 3);
    join(&pair);
    comb_end(&comb, SHORTS + 1);
    cr_assert(comb.op.op.retries == 2, "%u", comb.op.op.retries);
    comb_close(&comb);
    pair_close(&pair);
}

/* ---- what is not sent again ---- */

static void recall(const struct pair *pair)
{
    uint64_t number = ((const struct hca_put *)pair->puts[WRITE])->region;
    cr_assert(number > 0 && number == ((const struct hca_put *)pair->puts[BLOCKS])->region);
    const struct hca_head head = {.kind = HCA_RECALL, .length_bytes = sizeof(number)};
    cr_assert(hca_recalled(peer_of(pair->peer), &head, &number) == 0);
}

static int say_dropped(struct hca_peer *peer, const struct hca_put *put)
{
    struct hca_found found = {
        .landing = put->landing, .generation = put->generation, .state = HCA_DROPPED};
    const struct hca_head head = {.kind = HCA_FOUND, .length_bytes = sizeof(found)};
    return hca_found(peer, &head, &found);
}

static void drop(const struct pair *pair)
{
    for (unsigned kind = WRITE; kind <= BLOCKS; kind++) {
        const struct hca_put *put = (const struct hca_put *)pair->puts[kind];
        cr_assert(say_dropped(peer_of(pair->peer), put) == 0);
    }
}

/* The peer's message that memory is freed, or that a landing is gone, comes before the queue pair
 * fails, or over the next one: writes that were lost are not repeated, and all else arrives. */
Test(hca_rewrite, gone_meanwhile)
{
    for (unsigned which = 0; which < 4; which++) {
        void (*const tell)(const struct pair *) = which / 2 ? drop : recall;
        struct pair pair;
        pair_ready(&pair);
        stop(pair.back);
        memset(receiver.memory, STALE, REGION);
        start(&pair);
        if (which % 2 == 0)
            tell(&pair);
        stop(pair.peer);
        wait_until_broken(&pair);
        join(&pair);
        if (which % 2 == 1)
            tell(&pair);
        for (unsigned kind = 0; kind < KINDS; kind++) {
            const bool gone = kind == WRITE || kind == BLOCKS;
            cr_assert(pump_until(&sender, &receiver, &pair.ops[kind].done, 1), "case %u, kind %u",
                      which, kind);
            cr_assert(pair.ops[kind].status == (gone ? -ESTALE : 0), "case %u, kind %u: %d", which,
                      kind, pair.ops[kind].status);
        }
        cr_assert(pump_until(&sender, &receiver, &receiver.notified_count, 2));
        start_kind(&pair, SHORT); /* the messages are still counted as the other end counts them */
        start_kind(&pair, MESSAGES);
        cr_assert(pump_until(&sender, &receiver, &pair.ops[MESSAGES].done, 1));
        cr_assert(pump_until(&sender, &receiver, &receiver.notified_count, 4));
        pump_rounds(&sender, &receiver, 100);
        cr_assert(receiver.notified_count == 4 && sender.downs == 0 && receiver.downs == 0);
        receiver.notified_count = 0;
        for (size_t at = WRITE * PART; at < MESSAGES * PART; at++)
            cr_assert(receiver.memory[at] == STALE, "case %u, byte %zu", which, at);
        pair_close(&pair);
    }
}

/* The message that a landing is gone comes when only a part of the put's writes has been posted: it
 * does not complete while the device may read its source. */
Test(hca_rewrite, gone_half_way)
{
    struct pair pair;
    struct comb comb;
    pair_ready(&pair);
    comb_open(&comb, &pair, HCA_REQUESTS + 2 * HCA_CHAIN, OWN);
    struct hca_peer *peer = peer_of(pair.peer);
    stop(pair.back); /* the device gets no acknowledgement */
    comb_start(&comb, 2);
    const struct hca_put *put = (struct hca_put *)comb.put;
    cr_assert(!put->base.made && peer->posted > peer->reported);
    cr_assert(say_dropped(peer, put) == 0);
    hca_puts_pump(peer, HCA_WINDOW);
    cr_assert(comb.op.done == 0, "it has completed while its source is read");
    stop(pair.peer);
    wait_until_broken(&pair);
    join(&pair);
    cr_assert(pump_until(&sender, &receiver, &comb.op.done, 1));
    cr_assert(comb.op.status == -ESTALE, "%d", comb.op.status);
    comb_close(&comb);
    pair_close(&pair);
}

/* The other end has counted a write whose acknowledgement was lost: it is complete. */
Test(hca_rewrite, counted_only)
{
    struct pair pair;
    pair_ready(&pair);
    struct hca_peer *peer = peer_of(pair.peer), *back = peer_of(pair.back);
    pump_rounds(&sender, &receiver, 100);
    stop(pair.back);
    start_kind(&pair, WRITE);
    back->credits.counted++; /* as if it had been received */
    window_count(&peer->window, peer->window.made);
    cr_assert(pair.ops[WRITE].done == 0);
    stop(pair.peer);
    wait_until_broken(&pair);
    join(&pair);
    cr_assert(pump_until(&sender, &receiver, &pair.ops[WRITE].done, 1));
    cr_assert(pair.ops[WRITE].status == 0 && pair.ops[WRITE].op.retries == 0);
    run(&pair, 2);
    pair_close(&pair);
}
