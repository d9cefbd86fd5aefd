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
        cr_assert_eq(fakes[rank].gone_ranks, 1, "once, and only rank 1");
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
            cr_assert_eq(fakes[rank].gone_ranks, 3);
            cr_assert_eq(fakes[rank].gone[4], SOURCE_NODE_DOWN);
        }
}

static bool two_knows_one(void)
{
    return fakes[2].gone[1];
}

static bool no_teams(void)
{
    unsigned count = 0;
    for (unsigned id = 0; id < 3; id++)
        count += test.nodes[id].tcad.groups ? test.nodes[id].tcad.groups->teams.count : 0;
    return count == 0;
}

/* Node 0 is between nodes 1 and 2. */
Test(group_deaths, a_node_whose_ranks_have_ended_passes_others_ends_on)
{
    make_group(3);
    die(&fakes[0]);
    run_for_ms(50);
    cr_assert_eq(fakes[2].gone[0], SOURCE_DEAD);
    die(&fakes[1]);
    run_until(two_knows_one);
    cr_assert_eq(fakes[2].gone[1], SOURCE_DEAD);
    cr_assert_eq(fakes[2].gone_ranks, 2);
    cr_assert_not(no_teams());
    die(&fakes[2]);
    run_until(no_teams);
    cr_assert_eq(heard_there, 6, "two each");
}

Test(group_deaths, nodes_whose_common_neighbour_is_down_tell_each_other)
{
    make_group(3);
    cr_assert(!peers_is_up(test.nodes[1].tcad.peers, 2));
    forget(&fakes[0]);
    stop(0);
    die(&fakes[1]);
    run_until(two_knows_one);
    cr_assert_eq(fakes[2].gone[1], SOURCE_DEAD);
    cr_assert_eq(fakes[2].gone[0], SOURCE_NODE_DOWN);
    die(&fakes[2]);
    run_until(no_teams);
}

static bool list_has_come(void)
{
    return test.nodes[1].tcad.groups->teams.count > 0;
}

/* Whether or not others have come into it. */
Test(group_deaths, an_end_while_ranks_meet_leaves_nothing)
{
    join(open_session(0, 0, 2), "g@0", 0, 2, LONG);
    join(open_session(1, 1, 2), "g@0", 1, 2, LONG);
    run_until(list_has_come);
    die(&fakes[1]);
    await(1);
    die(&fakes[0]);
    run_until(no_teams);
    run_until(no_group);
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

static bool node_1_has_left(void)
{
    return root_group()->in == RANKS_MAX - 3;
}

/* The coordinator hears of a node once, when its last rank has ended, and keeps the name until it
 * has heard of all. */
Test(group_deaths, the_last_rank_of_a_node_tells_the_coordinator_for_all)
{
    make_group(RANKS_MAX); /* 1, 4 and 7 on node 1 */
    die(&fakes[1]);
    die(&fakes[4]);
    run_until(others_know);
    run_for_ms(100);
    cr_assert_eq(root_group()->in, RANKS_MAX);
    die(&fakes[7]);
    run_until(node_1_has_left);
    forget(&fakes[2]);
    forget(&fakes[5]);
    stop(2);
    for (unsigned rank = 0; rank < RANKS_MAX; rank += 3) {
        cr_assert_not_null(root_group());
        die(&fakes[rank]);
    }
    run_until(no_group);
    cr_assert_eq(groups_count(test.nodes[0].tcad.groups), 0);
}
