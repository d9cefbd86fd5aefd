/* The hca driver in processes: landings that others number, peers that are not trusted, forks.
 * Needs a device: tests/vm/run. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/drivers/hca_pair.h"

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

/* Starts as fast as the driver takes them, while the receiver does not look: queues must not
 * overflow. */
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

/* What a process may not do is not in its table. */
Test(hca_seat, has_no_other_operations)
{
    const struct driver_ops *ops = sender.driver->ops, *all = driver_find("hca");
    cr_assert(all->open && all->address && all->peer_connect && all->landing_new);
    cr_assert(!ops->probe && !ops->open && !ops->address && !ops->peer_connect);
    cr_assert(!ops->landing_new && !ops->region_part && !ops->pairs);
}
