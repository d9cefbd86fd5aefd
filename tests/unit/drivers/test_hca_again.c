/* The hca driver in processes: queue pairs that fail and are replaced. Needs a device:
 * tests/vm/run. */
#include "tests/unit/drivers/hca_breaks.h"

TestSuite(hca_again, .init = setup_breaks, .fini = teardown, .timeout = 240);

static void stop_ends(const struct pair *pair, unsigned turn)
{
    if (turn % 3 != 1)
        stop(pair->peer);
    if (turn % 3 != 0)
        stop(pair->back);
}

/* Again and again, before and in the middle of transfers, at either end or both: each arrives
 * once. */
Test(hca_again, once)
{
    enum { TURNS = 40 };
    uint32_t random = 1;
    struct pair pair;
    pair_ready(&pair);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        fill(sender.memory, REGION, turn);
        memset(receiver.memory, STALE, REGION);
        if (turn % 2)
            stop_ends(&pair, turn);
        start(&pair);
        pump_rounds(&sender, &receiver, next_random(&random) % 8);
        if (turn % 2 == 0)
            stop_ends(&pair, turn);
        wait_until_broken(&pair);
        join(&pair);
        broken = 0; /* the other end may have noticed meanwhile */
        end(&pair, 0);
        check_arrived(&pair);
        if (turn % 4 == 0)
            run(&pair, turn + 1000);
    }
    cr_assert(sender.downs == 0 && receiver.downs == 0);
    pair_close(&pair);
}

/* What was in flight is counted in the receipt of its start. */
Test(hca_again, counts_retries)
{
    uint32_t retries = 0;
    struct pair pair;
    pair_ready(&pair);
    for (unsigned i = 0; i < KINDS; i++)
        retries += pair.ops[i].op.retries;
    cr_assert(retries == 0);
    stop(pair.back);
    start(&pair);
    wait_until_broken(&pair);
    join(&pair);
    end(&pair, 0);
    check_arrived(&pair);
    for (unsigned i = 0; i < KINDS; i++)
        retries += pair.ops[i].op.retries;
    cr_assert(retries >= KINDS - 1); /* the short one was complete */
    pair_close(&pair);
}

/* What fails as before is given up, with all that waits for it. */
Test(hca_again, given_up)
{
    struct pair pair;
    pair_ready(&pair);
    stop(pair.back); /* so that nothing arrives */
    start(&pair);
    stop(pair.peer);
    wait_until_broken(&pair);
    join(&pair);
    stop(pair.peer);
    stop(pair.back);
    cr_assert(pump_until(&sender, &receiver, &sender.downs, 1));
    cr_assert(sender.down_error == -ENETDOWN);
    for (unsigned i = 1; i < KINDS; i++) {
        cr_assert(pump_until(&sender, &receiver, &pair.ops[i].done, 1), "kind %u", i);
        cr_assert(pair.ops[i].status == -ENETDOWN, "kind %u: %d", i, pair.ops[i].status);
    }
    pair_close(&pair);
}

/* Nobody gives it another queue pair: its puts end with the peer. */
Test(hca_again, ends_while_paused)
{
    struct pair pair;
    pair_ready(&pair);
    stop(pair.back);
    start(&pair);
    stop(pair.peer);
    wait_until_broken(&pair);
    while (((struct hca_driver *)sender.driver)->look_ns > 0) /* has nothing to look for */
        pump_rounds(&sender, &receiver, 100);
    for (unsigned i = 1; i < KINDS; i++)
        cr_assert(pair.ops[i].done == 0, "kind %u", i);
    sender.driver->ops->peer_fail(sender.driver, pair.peer, -EOWNERDEAD);
    for (unsigned i = 1; i < KINDS; i++) {
        cr_assert(pump_until(&sender, &receiver, &pair.ops[i].done, 1), "kind %u", i);
        cr_assert(pair.ops[i].status == -EOWNERDEAD);
    }
    pair_close(&pair);
}

/* The keys of memory that was freed meanwhile are not used, or still valid: no queue pair fails
 * again. */
Test(hca_again, freed_while_paused)
{
    struct pair pair;
    pair_ready(&pair);
    stop(pair.back);
    start(&pair);
    stop(pair.peer);
    wait_until_broken(&pair);
    for (unsigned i = 0; i < KINDS; i++) {
        receiver.driver->ops->landing_free(receiver.driver, pair.landings[i]);
        pair.landings[i] = NULL;
    }
    receiver.driver->ops->region_remove(receiver.driver, receiver.region);
    pump_rounds(&sender, &receiver, 1000);
    const unsigned before = broken;
    join(&pair);
    for (unsigned i = 1; i < KINDS; i++) {
        cr_assert(pump_until(&sender, &receiver, &pair.ops[i].done, 1), "kind %u", i);
        cr_assert(pair.ops[i].status == 0 || pair.ops[i].status == -ESTALE);
    }
    pump_rounds(&sender, &receiver, 2000);
    cr_assert(broken == before && sender.downs == 0 && receiver.downs == 0);
    cr_assert(!((struct hca_driver *)receiver.driver)->recall.keys);
    pair_close(&pair);
    const struct driver_memory memory = {.base = receiver.memory, .length_bytes = REGION, .fd = -1};
    cr_assert(receiver.driver->ops->region_add(receiver.driver, &memory, &receiver.region) == 0);
}

static int join_with_count(struct pair *pair, int64_t more)
{
    uint8_t offer[OFFER_MAX_BYTES], back[OFFER_MAX_BYTES];
    struct hca_seat_offer made;
    const int bytes = tca_hca_seat.offer(sender.driver, pair->peer, true, offer),
              back_bytes = tca_hca_seat.offer(receiver.driver, pair->back, false, back);
    cr_assert(bytes == sizeof(made) && back_bytes == bytes);
    memcpy(&made, back, sizeof(made));
    made.counted += (uint64_t)more;
    memcpy(back, &made, sizeof(made));
    cr_assert(
        receiver.driver->ops->peer_answer(receiver.driver, pair->back, offer, (size_t)bytes) == 0);
    return sender.driver->ops->peer_answer(sender.driver, pair->peer, back, sizeof(made));
}

/* The other end has counted more than was sent, or less than its device has acknowledged. */
Test(hca_again, wrong_counts)
{
    for (int which = 0; which < 2; which++) {
        struct pair pair;
        pair_open(&pair, &sender, PAIR + (uint64_t)which, 1 + (uint32_t)which * KINDS);
        join(&pair);
        land(&pair, 1 + (uint32_t)which * KINDS);
        run(&pair, 1);
        stop(pair.peer);
        wait_until_broken(&pair);
        cr_assert(join_with_count(&pair, which == 0 ? 1 : -5) == -EPROTO);
        pair_close(&pair);
    }
}

/* The other end's device has acknowledged a write that the other end then denies. */
Test(hca_again, denied)
{
    struct pair pair;
    pair_ready(&pair);
    start_kind(&pair, 1);
    while (!pair.ops[1].done)
        pump_rounds(&sender, NULL, 1);
    stop(pair.peer);
    cr_assert(pump_until(&sender, NULL, &broken, 1));
    cr_assert(join_with_count(&pair, -1) == -EPROTO);
    pair_close(&pair);
}

/* The end that waits for the first message is replaced before one has come. */
Test(hca_again, before_a_message)
{
    for (uint32_t end = 0; end < 2; end++) {
        struct pair pair;
        pair_open(&pair, &sender, PAIR + end, 1 + end * KINDS);
        join(&pair);
        stop(end == 0 ? pair.peer : pair.back);
        wait_until_broken(&pair);
        join(&pair);
        land(&pair, 1 + end * KINDS);
        run(&pair, end);
        pair_close(&pair);
    }
}

/* A process that does not keep to the rules gets no other queue pair. */
Test(hca_again, garbage)
{
    struct pair pair;
    uint8_t offer[OFFER_MAX_BYTES];
    pair_ready(&pair);
    cr_assert(hca_send_notice(peer_of(pair.peer), (enum hca_kind)99, NULL, 0, NULL) == 0);
    cr_assert(pump_until(&sender, &receiver, &receiver.downs, 1));
    cr_assert(receiver.down_error == -ENETDOWN);
    cr_assert(tca_hca_seat.offer(receiver.driver, pair.back, false, offer) < 0);
    pair_close(&pair);
}

/* Memory of one peer is released while another one is stopped. */
Test(hca_again, one_is_stopped)
{
    struct hca_driver *hca = (struct hca_driver *)receiver.driver;
    struct pair stopped, other;
    pair_open(&stopped, &stranger, 2, 1);
    join(&stopped);
    land(&stopped, 1);
    run(&stopped, 1);
    pair_open(&other, &sender, PAIR, 1 + KINDS);
    join(&other);
    land(&other, 1 + KINDS);
    run(&other, 1);
    struct hca_domain *free_domain = ((struct hca_peer *)other.back)->domain;
    for (unsigned i = 0; i < KINDS; i++) {
        receiver.driver->ops->landing_free(receiver.driver, stopped.landings[i]);
        receiver.driver->ops->landing_free(receiver.driver, other.landings[i]);
        stopped.landings[i] = other.landings[i] = NULL;
    }
    receiver.driver->ops->region_remove(receiver.driver, receiver.region);
    pump_rounds(&sender, &receiver, 2000); /* and not the stranger */
    unsigned left = 0;
    for (const struct recall_key *key = hca->recall.keys; key; key = key->next, left++)
        cr_assert(((const struct hca_region *)key)->domain != free_domain);
    cr_assert(left > 0);
    cr_assert(sender.downs == 0 && receiver.downs == 0);
    pump_rounds(&stranger, &receiver, 2000);
    cr_assert(!hca->recall.keys);
    pair_close(&stopped);
    pair_close(&other);
    const struct driver_memory memory = {.base = receiver.memory, .length_bytes = REGION, .fd = -1};
    cr_assert(receiver.driver->ops->region_add(receiver.driver, &memory, &receiver.region) == 0);
}
