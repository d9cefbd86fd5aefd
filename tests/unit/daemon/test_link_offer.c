/* Links whose driver needs both ends. */
#include "linked.h"

TestSuite(link_offer, .init = setup, .fini = teardown);

Test(link_offer, every_pair_of_states)
{
    static const bool legal[LINK_STATE_COUNT][LINK_STATE_COUNT] = {
        [LINK_IDLE] = {[LINK_CONNECTING] = true, [LINK_FAILED] = true},
        [LINK_CONNECTING] = {[LINK_OFFERED] = true,
                             [LINK_ANSWERING] = true,
                             [LINK_CONNECTED] = true,
                             [LINK_FAILED] = true},
        [LINK_OFFERED] = {[LINK_ANSWERING] = true, [LINK_FAILED] = true},
        [LINK_ANSWERING] = {[LINK_CONNECTED] = true, [LINK_FAILED] = true},
        [LINK_CONNECTED] = {[LINK_FAILED] = true},
    };
    for (int from = 0; from < LINK_STATE_COUNT; from++)
        for (int to = 0; to < LINK_STATE_COUNT; to++)
            cr_assert_eq(link_state_legal(from, to), legal[from][to], "%d to %d", from, to);
    cr_assert(!link_state_legal(LINK_STATE_COUNT, LINK_IDLE));
    cr_assert(!link_state_legal(LINK_IDLE, LINK_STATE_COUNT));
}

Test(link_offer, one_asks_and_both_are_connected)
{
    struct waiter waiter;
    begin(0, 1, &waiter);
    cr_assert(work());
    cr_assert_eq(link_at(0, 1)->state, LINK_OFFERED);
    cr_assert_eq(waiter.done, 0);
    settle();
    cr_assert_eq(waiter.done, 1);
    cr_assert_eq(waiter.status, 0);
    expect_pair();
    cr_assert_eq(link_connect((struct link *)link_at(0, 1), NULL), 0);
}

Test(link_offer, the_own_node_answers_itself)
{
    struct waiter waiter;
    begin(0, 0, &waiter);
    settle();
    cr_assert_eq(waiter.status, 0);
    const struct peer *peer = peer_at(0, 0);
    cr_assert_eq(peer->other, peer->number);
}

/* All orders of the steps of the worker and the two connections, when both nodes begin at once. */
static void in_order(unsigned order)
{
    struct waiter waiters[NODES];
    begin(0, 1, &waiters[0]);
    begin(1, 0, &waiters[1]);
    for (unsigned steps = 0; steps < 10; steps++, order /= 3) {
        if (order % 3 == 0)
            work();
        else
            deliver(order % 3 - 1);
    }
    settle();
    for (unsigned i = 0; i < NODES; i++) {
        cr_assert_eq(waiters[i].done, 1);
        cr_assert_eq(waiters[i].status, 0);
    }
    expect_pair();
    links_down(nodes[0].links, 1);
    links_down(nodes[1].links, 0);
    settle();
    cr_assert_eq(peers_alive, 0);
    question_count = 0;
    up(0, 1);
    up(1, 0);
}

Test(link_offer, both_begin_at_once, .timeout = 60)
{
    unsigned orders = 1;
    for (unsigned steps = 0; steps < 10; steps++)
        orders *= 3;
    for (unsigned order = 0; order < orders; order++)
        in_order(order);
    cr_assert_eq(nodes[0].lost + nodes[1].lost, 0);
}

Test(link_offer, a_rebuilt_end_replaces_the_other)
{
    struct waiter waiter;
    begin(0, 1, &waiter);
    settle();
    for (unsigned round = 1; round <= 3; round++) {
        lose(0);
        begin(0, 1, &waiter);
        settle();
        cr_assert_eq(waiter.status, 0);
        expect_pair();
        cr_assert_eq(nodes[1].lost, round, "the plans of the other end must move");
    }
    cr_assert_eq(nodes[0].lost, 0, "its driver has told");
}

Test(link_offer, both_ends_are_lost_at_once)
{
    struct waiter waiters[NODES];
    begin(0, 1, &waiters[0]);
    settle();
    lose(0);
    lose(1);
    begin(0, 1, &waiters[0]);
    begin(1, 0, &waiters[1]);
    settle();
    cr_assert_eq(waiters[0].status, 0);
    cr_assert_eq(waiters[1].status, 0);
    expect_pair();
}

Test(link_offer, an_old_reply_never_completes_a_new_peer)
{
    struct waiter first, second;
    begin(0, 1, &first);
    cr_assert(work()); /* 0 has made its peer, and offers it */
    cr_assert(deliver(0));
    cr_assert(work() && work()); /* 1 has made its own peer, completed it, and replies */
    time_out(0);
    cr_assert_eq(first.status, -ETIMEDOUT);
    cr_assert_eq(link_at(0, 1)->state, LINK_IDLE);
    begin(0, 1, &second);
    cr_assert(work());
    cr_assert(deliver(1)); /* the reply to the first offer */
    cr_assert_eq(link_at(0, 1)->state, LINK_OFFERED);
    settle();
    cr_assert_eq(second.status, 0);
    expect_pair();
    cr_assert_eq(nodes[1].lost, 1);
}

/* The other end lost the peer of its offer before the reply to this node's came. */
Test(link_offer, a_reply_about_another_peer)
{
    struct waiter waiters[NODES];
    begin(0, 1, &waiters[0]);
    begin(1, 0, &waiters[1]);
    cr_assert(work() && work());
    cr_assert(deliver(1) && work()); /* 0 is connected to 1's first peer */
    cr_assert_eq(link_at(0, 1)->state, LINK_CONNECTED);
    time_out(1);
    settle();
    cr_assert_eq(nodes[0].lost, 1);
    cr_assert_null(peer_at(0, 1));
    begin(0, 1, &waiters[0]);
    settle();
    expect_pair();
}

Test(link_offer, a_newer_offer_while_the_first_is_taken)
{
    for (unsigned jobs_done = 0; jobs_done < 2; jobs_done++) {
        struct waiter first, second;
        begin(0, 1, &first);
        cr_assert(work());
        cr_assert(deliver(0)); /* 1 is connecting */
        if (jobs_done)
            cr_assert(work()); /* 1 is answering */
        time_out(0);
        begin(0, 1, &second);
        while (link_at(0, 1)->state != LINK_OFFERED)
            cr_assert(work());
        settle();
        cr_assert_eq(second.status, 0);
        expect_pair();
        for (uint32_t i = 1; i <= question_count; i++)
            cr_assert_eq(questions[i].replies, 1, "offer %u got no reply", i);
        links_down(nodes[0].links, 1);
        links_down(nodes[1].links, 0);
        settle();
        up(0, 1);
        up(1, 0);
    }
}

/* Waiting plans get the error, and the next attempt starts anew. */
static void expect_failure(int error)
{
    struct waiter waiters[2];
    begin(0, 1, &waiters[0]);
    begin(0, 1, &waiters[1]);
    settle();
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(waiters[i].done, 1);
        cr_assert_eq(waiters[i].status, error, "%d", waiters[i].status);
    }
    cr_assert_eq(link_at(0, 1)->state, LINK_IDLE);
    connect_error = answer_error = 0;
    begin(0, 1, &waiters[0]);
    settle();
    cr_assert_eq(waiters[0].status, 0);
    expect_pair();
}

Test(link_offer, no_peer_can_be_made)
{
    connect_error = -ENOSPC;
    expect_failure(-ENOSPC);
}

Test(link_offer, the_offer_is_refused)
{
    answer_error = -EPROTO;
    expect_failure(-EPROTO);
}

/* At each step of the exchange. */
Test(link_offer, a_node_goes_down_meanwhile)
{
    for (unsigned steps = 0; steps < 6; steps++) {
        struct waiter waiter;
        begin(0, 1, &waiter);
        for (unsigned i = 0; i < steps; i++)
            if (!work() && !deliver(0))
                deliver(1);
        const bool in_time = waiter.done > 0;
        links_down(nodes[0].links, 1);
        cr_assert_eq(waiter.done, 1);
        cr_assert(in_time || waiter.status == -EHOSTDOWN);
        links_down(nodes[1].links, 0);
        time_out(0);
        settle();
        cr_assert_eq(peers_alive, 0);
        up(0, 1);
        up(1, 0);
    }
}

/* A link that has failed may still be used, by puts that then fail, but only if it was
 * connected. */
Test(link_offer, use_of_a_link_that_has_failed)
{
    for (unsigned jobs_done = 0; jobs_done < 4; jobs_done++) {
        struct waiter waiter;
        begin(0, 1, &waiter);
        struct link *link = link_get(nodes[0].links, 1, RAIL, nodes[0].tcad.engine);
        for (unsigned i = 0; i < jobs_done; i++)
            while (!work())
                cr_assert(deliver(0) || deliver(1));
        if (jobs_done == 3)
            settle();
        links_down(nodes[0].links, 1);
        cr_assert_eq(link->state, LINK_FAILED);
        cr_assert_eq(link->was_connected, jobs_done == 3);
        cr_assert_eq(link_connect(link, NULL), jobs_done == 3 ? 0 : -ENETDOWN);
        link_unref(link);
        links_down(nodes[1].links, 0);
        time_out(0);
        settle();
        up(0, 1);
        up(1, 0);
    }
}

Test(link_offer, the_tables_end_meanwhile)
{
    static struct waiter waiter; /* teardown() tells it */
    begin(0, 1, &waiter);
    cr_assert(work());
    cr_assert(deliver(0));
}
