/* The hca driver in processes: an end of a connection that goes without a word while the other one
 * waits for its count. Needs a device: tests/vm/run. */
#include <poll.h>

#include "tests/unit/drivers/hca_breaks.h"

enum { SHORT = 0, MESSAGES = 3 }; /* kinds */

TestSuite(hca_alive, .init = setup_breaks, .fini = teardown, .timeout = 240);

static struct hca_driver *hca(void)
{
    return (struct hca_driver *)sender.driver;
}

/* The other end goes, and the sender sleeps until it has noticed. */
static void sleep_until_broken(const struct pair *pair)
{
    const struct driver_ops *ops = sender.driver->ops;
    struct pollfd event = {.fd = ops->event_fd(sender.driver), .events = POLLIN};
    broken = 0;
    stop(pair->back);
    while (broken + sender.downs == 0) {
        if (ops->arm(sender.driver) == 0)
            cr_assert(poll(&event, 1, 60000) == 1, "it sleeps for ever");
        pump_rounds(&sender, NULL, 1);
    }
    broken = 0;
}

/* So many short puts, which complete at once, that no piece fits into the window. Returns when the
 * device has sent them: they are acknowledged, and the receiver does not look. */
static void fill_window(struct pair *pair)
{
    const struct hca_peer *peer = peer_of(pair->peer);
    pump_rounds(&sender, &receiver, 100);
    while (!window_is_full(&peer->window))
        start_kind(pair, SHORT);
    while (peer->reported + HCA_QUIET < peer->posted)
        pump_rounds(&sender, NULL, 1);
    pump_rounds(&sender, NULL, 1000);
}

/* ---- who waits ---- */

static void put_of_messages(struct pair *pair)
{
    start_kind(pair, MESSAGES);
    pump_rounds(&sender, NULL, 1000);
}

/* It cannot ask for the count. */
static void flush_behind_a_full_window(struct pair *pair)
{
    fill_window(pair);
    op_init(&pair->ops[MESSAGES]);
    cr_assert(sender.driver->ops->peer_flush(sender.driver, pair->peer, &pair->ops[MESSAGES].op) ==
              0);
    cr_assert(peer_of(pair->peer)->window.asked <= peer_of(pair->peer)->window.counted);
}

static void put_behind_a_full_window(struct pair *pair)
{
    fill_window(pair);
    start_kind(pair, SHORT);
    cr_assert(peer_of(pair->peer)->window.asked <= peer_of(pair->peer)->window.counted);
}

/* The end that waits notices, though others of its connections wait for nothing. */
Test(hca_alive, noticed)
{
    void (*const waits[])(struct pair *) = {put_of_messages, flush_behind_a_full_window,
                                            put_behind_a_full_window};
    struct pair idle;
    pair_open(&idle, &sender, 2, 1);
    join(&idle);
    land(&idle, 1);
    run(&idle, 1);
    for (uint32_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        struct pair pair;
        pair_open(&pair, &sender, 3 + i, 1 + (i + 1) * KINDS);
        join(&pair);
        land(&pair, 1 + (i + 1) * KINDS);
        run(&pair, 1);
        waits[i](&pair);
        sleep_until_broken(&pair);
        cr_assert(peer_of(pair.peer)->paused && !peer_of(idle.peer)->paused, "case %u", i);
        sender.driver->ops->peer_fail(sender.driver, pair.peer, -EOWNERDEAD);
        pump_rounds(&sender, &receiver, 10); /* what waits ends */
        pair_close(&pair);
        receiver.notified_count = 0;
    }
    pair_close(&idle);
}

/* The same over another queue pair. */
Test(hca_alive, noticed_again)
{
    struct pair pair;
    pair_ready(&pair);
    start_kind(&pair, MESSAGES);
    stop(pair.peer);
    wait_until_broken(&pair);
    while (hca()->look_ns > 0) /* until it does not look any more */
        pump_rounds(&sender, &receiver, 100);
    join(&pair);
    pump_rounds(&sender, NULL, 1000);
    sleep_until_broken(&pair);
    pair_close(&pair);
}

/* ---- how often it looks ---- */

static void wait_for_a_look(void)
{
    const uint64_t before_ns = hca()->look_ns;
    while (hca()->look_ns == before_ns)
        pump_rounds(&sender, NULL, 100);
}

/* While counts come, or nobody waits, nothing is sent to find out. */
Test(hca_alive, only_if_in_doubt)
{
    struct pair pair;
    pair_ready(&pair);
    while (hca()->look_ns > 0) /* a timer that goes on would wake up idle processes */
        pump_rounds(&sender, &receiver, 100);
    struct hca_peer *peer = peer_of(pair.peer);
    put_of_messages(&pair);
    const uint64_t posted = peer->posted;
    wait_for_a_look();
    cr_assert(peer->posted == posted, "it has only begun to wait");
    window_count(&peer->window, peer->window.counted + 1);
    wait_for_a_look();
    cr_assert(peer->posted == posted, "a count has come");
    wait_for_a_look();
    cr_assert(peer->posted == posted + 1, "no count has come");
    cr_assert(pump_until(&sender, &receiver, &pair.ops[MESSAGES].done, 1));
    cr_assert(pair.ops[MESSAGES].status == 0 && broken == 0);
    pair_close(&pair);
}
