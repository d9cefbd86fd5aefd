/* Members, nodes and roots that end. */
#include "groups.h"

TestSuite(group_deaths, .init = setup, .fini = teardown, .timeout = 100);

static bool others_know(void)
{
    return fakes[0].gone[1] && fakes[2].gone[1] && fakes[3].gone[1];
}

Test(group_deaths, a_death_is_told_to_all)
{
    make_group(4); /* rank 1 on node 1; node 2 has no connection to node 1, only the root has */
    cr_assert(!peers_is_up(test.nodes[1].tcad.peers, 2));
    gather(&fakes[0], 0, "", 0, LONG);
    gather(&fakes[2], 0, "", 0, LONG);
    run_until(two_gather);
    die(&fakes[1]);
    await(2);
    expect_fail(&fakes[0], -EOWNERDEAD, "rank 1 (session 1 of node n1) has ended");
    expect_fail(&fakes[2], -EOWNERDEAD, "rank 1 (session 1 of node n1) has ended");
    run_until(others_know);
    run_for_ms(100);
    for (unsigned rank = 0; rank < 4; rank++) {
        if (rank == 1)
            continue;
        cr_assert_eq(fakes[rank].gone[1], SOURCE_DEAD);
        cr_assert_eq(fakes[rank].gone_calls, 1, "once, and only rank 1");
    }
    gather(&fakes[3], 1, "", 0, LONG);
    await(1);
    expect_fail(&fakes[3], -EOWNERDEAD, "rank 1 (session 1 of node n1) has ended");
}

Test(group_deaths, a_death_while_joining_ends_the_join)
{
    for (unsigned rank = 0; rank < 2; rank++)
        join(open_session(rank, rank, 3), "g@0", rank, 3, LONG);
    run_until(two_join);
    die(&fakes[1]);
    await(1);
    expect_fail(&fakes[0], -EOWNERDEAD,
                "rank 1 (session 1 of node n1) has ended before the group was complete");
    cr_assert_eq(groups_count(test.nodes[0].tcad.groups), 0);
}

static bool asked_twice(void)
{
    return test.nodes[0].asked == 2;
}

/* The report of the death must not overtake the request, neither in the loop of the root's own node
 * nor in the queue of a connection. */
Test(group_deaths, a_death_with_the_question_on_its_way_is_no_ghost)
{
    for (unsigned node = 0; node < 2; node++) {
        test.nodes[0].asked = 0;
        join(open_session(0, node, 2), "g@0", 0, 2, LONG);
        die(&fakes[0]);
        run_until(asked_twice);
        cr_assert_eq(groups_count(test.nodes[0].tcad.groups), 0, "node %u", node);
    }
    make_group(2);
}

Test(group_deaths, a_node_down_is_told_to_all)
{
    make_group(4);
    publish(&fakes[1], "halo", 9);
    await(1);
    gather(&fakes[0], 0, "", 0, LONG);
    gather(&fakes[2], 0, "", 0, LONG);
    run_until(two_gather);
    forget(&fakes[1]);
    stop(1);
    await(2);
    expect_fail(&fakes[0], -EHOSTDOWN, "rank 1 (session 1 of node n1) has ended");
    expect_fail(&fakes[2], -EHOSTDOWN, "rank 1 (session 1 of node n1) has ended");
    run_until(others_know);
    cr_assert_eq(fakes[0].gone[1], SOURCE_NODE_DOWN);
    cr_assert_eq(fakes[2].gone[1], SOURCE_NODE_DOWN);
    look_up(&fakes[2], "halo", 0);
    await(1);
    expect_fail(&fakes[2], -ENOENT, "\"halo\"");
}

static bool all_of_node_1_known(void)
{
    for (unsigned rank = 0; rank < RANKS_MAX; rank++)
        if (rank % 3 != 1 && !(fakes[rank].gone[1] && fakes[rank].gone[4] && fakes[rank].gone[7]))
            return false;
    return true;
}

Test(group_deaths, a_node_down_is_told_once_of_all_its_ranks)
{
    make_group(RANKS_MAX); /* 1, 4 and 7 on node 1 */
    for (unsigned rank = 1; rank < RANKS_MAX; rank += 3)
        forget(&fakes[rank]);
    stop(1);
    run_until(all_of_node_1_known);
    run_for_ms(100);
    cr_assert_eq(test.nodes[2].heard_of_gone, 1);
    for (unsigned rank = 0; rank < RANKS_MAX; rank++)
        if (rank % 3 != 1) {
            cr_assert_eq(fakes[rank].gone_calls, 3);
            cr_assert_eq(fakes[rank].gone[4], SOURCE_NODE_DOWN);
        }
}

static struct reply *last_reply;

static bool last_replied(void)
{
    return last_reply->count == 1;
}

static bool two_messages(void)
{
    return test.nodes[2].heard_of_gone == 2;
}

/* As many as one message can name, and more. */
Test(group_deaths, a_large_node_down_is_told_in_parts)
{
    enum { THERE = SESSIONS_GONE_MAX + 5 };
    Tca__PeerGroupJoin join = TCA__PEER_GROUP_JOIN__INIT;
    struct reply replies[THERE + 1] = {0};
    const Tca__Message message = MESSAGE_OF(PEER_GROUP_JOIN, peer_group_join, &join);
    join.name = (char *)"large";
    join.user = 1000;
    join.size = THERE + 1;
    join.timeout_ns = LONG;
    for (join.rank = 0; join.rank <= THERE; join.rank++) {
        const unsigned node = join.rank < THERE ? 1 : 2;
        join.session = 1000 + join.rank;
        peers_request(test.nodes[node].tcad.peers, 0, &message, LONG, reply_take,
                      &replies[join.rank]);
    }
    last_reply = &replies[THERE];
    run_until(last_replied);
    cr_assert_eq(last_reply->status, 0, "%s", last_reply->text);
    stop(1);
    run_until(two_messages);
    run_for_ms(100);
    cr_assert_eq(test.nodes[2].heard_of_gone, 2);
}

static bool root_lost(void)
{
    return fakes[1].gone[0] && fakes[2].gone[0];
}

Test(group_deaths, without_its_root_a_group_fails_with_a_text)
{
    make_group(3);
    gather(&fakes[1], 0, "", 0, LONG);
    run_until(one_gathers);
    forget(&fakes[0]);
    stop(0);
    await(1);
    expect_fail(&fakes[1], -EHOSTDOWN, "of node n0) has ended: its node is down");
    run_until(root_lost);
    cr_assert_eq(fakes[1].gone[0], SOURCE_NODE_DOWN);

    start(0);
    run_for_ms(1050);
    gather(&fakes[1], 0, "", 0, LONG);
    await(1);
    expect_fail(&fakes[1], -EHOSTDOWN, "of node n0) has ended: its node is down");
    look_up(&fakes[1], "x", 0);
    await(1);
    expect_fail(&fakes[1], -ENOENT, "was its tcad restarted?");
    die(&fakes[1]);
    die(&fakes[2]);
}
