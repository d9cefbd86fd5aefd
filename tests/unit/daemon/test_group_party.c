/* Ranks of a node that ask together to join. */
#define GROUP_RANKS 48
#include "groups.h"

#include "daemon/groups/pace.h"

TestSuite(group_party, .init = setup, .fini = teardown, .timeout = 100);

enum {
    MANY = 40,
    FEW = 12, /* three, unless this takes longer than a few milliseconds */
};

/* Rank 0 on node 0, the others on node 1. */
static void join_many(const char *name, uint32_t local_size)
{
    for (uint32_t rank = 1; rank < MANY; rank++)
        join_of(open_session(rank, 1, MANY), name, rank, MANY, LONG, local_size);
    join(open_session(0, 0, MANY), name, 0, MANY, LONG);
    await(MANY);
    for (uint32_t rank = 0; rank < MANY; rank++) {
        cr_assert_eq(fakes[rank].status, 0, "%s", fakes[rank].text);
        cr_assert_eq(fakes[rank].session.rank, rank);
        cr_assert_eq(fakes[rank].session.group_requests, 0);
    }
}

static void all_die(void)
{
    for (uint32_t rank = 0; rank < GROUP_RANKS; rank++)
        if (fakes[rank].session.tcad)
            die(&fakes[rank]);
    run_until(no_group);
    test.nodes[0].heard_of_joins = 0;
}

static bool no_parties(void)
{
    for (unsigned id = 0; id < 3; id++)
        if (test.nodes[id].tcad.groups->parties)
            return false;
    return true;
}

Test(group_party, a_node_asks_for_many_at_once)
{
    join_many("g@0", 0);
    cr_assert_leq(test.nodes[0].heard_of_joins, FEW, "the first at once, then many together");
    all_die();
    join_many("g@0", MANY - 1);
    cr_assert_eq(test.nodes[0].heard_of_joins, 2, "one for each node");
    all_die();
    join_many("g@0", MANY); /* too many, then too few */
    cr_assert_eq(test.nodes[0].heard_of_joins, 2);
    all_die();
    join_many("g@0", 3);
    cr_assert_leq(test.nodes[0].heard_of_joins, FEW);
    run_until(no_parties);
}

static uint64_t at(const struct pace *pace)
{
    const uint64_t due_ns = pace_due(pace);
    return due_ns > pace->last_ns ? due_ns : pace->last_ns;
}

/* Sends what comes at these times; returns how often. */
static unsigned play(struct pace *pace, unsigned count, uint64_t gap_ns)
{
    unsigned sent = 0;
    for (uint64_t now_ns = SECOND; count-- > 0; now_ns += gap_ns) {
        if (pace->waiting > 0 && at(pace) < now_ns) {
            pace_sent(pace, at(pace));
            sent++;
        }
        pace_come(pace, now_ns);
        if (at(pace) <= now_ns) {
            pace_sent(pace, now_ns);
            sent++;
        }
    }
    return sent + (pace->waiting > 0);
}

Test(group_party, messages_grow_with_the_logarithm_of_the_time)
{
    struct pace pace = {.size = 100000};
    cr_assert_leq(play(&pace, 128, 1000000), 10, "128 ms");
    pace = (struct pace){.size = 100000};
    cr_assert_leq(play(&pace, 10000, 0), 2);
    pace = (struct pace){.size = 100000};
    cr_assert_eq(play(&pace, 20, SECOND), 20, "each at once, when they are rare");
    pace = (struct pace){.size = 100000, .known = 128};
    cr_assert_eq(play(&pace, 128, 5000000), 1);
    pace = (struct pace){.size = 100000, .known = 128};
    cr_assert_eq(play(&pace, 128, 50000000), 7, "no longer than a second for those that are late");
}

Test(group_party, one_gives_up_and_the_others_do_not)
{
    join_of(open_session(1, 1, 4), "g@0", 1, 4, SHORT, 2);
    join_of(open_session(2, 1, 4), "g@0", 2, 4, LONG, 2);
    await(1);
    expect_fail(&fakes[1], -ETIMEDOUT, "ranks 0,3 of 4 did not join within ");
    cr_assert_eq(fakes[1].session.group_requests, 0);
    run_until(one_joins);
    join(&fakes[1], "g@0", 1, 4, LONG);
    join(open_session(0, 0, 4), "g@0", 0, 4, LONG);
    join(open_session(3, 2, 4), "g@0", 3, 4, LONG);
    await(4);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(fakes[i].status, 0, "%s", fakes[i].text);
    run_until(no_parties);
}

Test(group_party, all_give_up)
{
    for (unsigned i = 1; i < 4; i++)
        join_of(open_session(i, 1, 4), "g@0", i, 4, SHORT, 3);
    await(3);
    for (unsigned i = 1; i < 4; i++)
        expect_fail(&fakes[i], -ETIMEDOUT, "rank 0 of 4 did not join within ");
    run_until(no_group);
    run_until(no_parties);
}

Test(group_party, twins_are_refused_and_the_others_are_not)
{
    join_of(open_session(1, 1, 3), "g@0", 1, 3, LONG, 4);
    join_of(open_session(3, 1, 3), "g@0", 1, 3, LONG, 4);
    join_of(open_session(4, 1, 3), "g@0", 1, 3, LONG, 4);
    join_of(open_session(2, 1, 3), "g@0", 2, 3, LONG, 4);
    await(2);
    for (unsigned i = 3; i < 5; i++)
        expect_fail(&fakes[i], -EEXIST, "rank 1 (session 1 of node n1) has joined already");
    contains(fakes[3].text, "session 2 of node n1 must use another rank");
    join(open_session(0, 0, 3), "g@0", 0, 3, LONG);
    await(3);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(fakes[i].status, 0, "%s", fakes[i].text);
    run_until(no_parties);
}

Test(group_party, two_sizes_of_a_node_do_not_mix)
{
    join_of(open_session(1, 1, 4), "g@0", 1, 3, LONG, 1);
    join_of(open_session(2, 1, 4), "g@0", 2, 4, LONG, 1);
    await(1);
    expect_fail(&fakes[2], -EINVAL, "rank 1 (session 1 of node n1) gives size 3, rank 2");
    join(open_session(0, 0, 3), "g@0", 0, 3, LONG);
    join(&fakes[2], "g@0", 2, 3, LONG);
    await(3);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(fakes[i].status, 0, "%s", fakes[i].text);
}

static bool nobody_waits(void)
{
    return no_group() && no_parties();
}

/* Its node has not sent the join when it ends; nor when it does not know yet whether the root is
 * there. */
Test(group_party, an_end_before_the_join_was_sent_is_told)
{
    char name[NAME_MAX_BYTES], full[NAME_MAX_BYTES], text[GROUP_TEXT_MAX];
    uint32_t root = 1;
    bool chosen;

    for (unsigned i = 0; root != 0; i++) {
        snprintf(full, sizeof(full), "job-%u", i);
        cr_assert_eq(
            group_place(&test.nodes[1].tcad, 1000, full, name, &root, &chosen, text, sizeof(text)),
            0);
    }
    for (unsigned i = 0; i < 4; i++) {
        join(open_session(0, 0, 3), i < 2 ? "g@0" : name, 0, 3, LONG);
        run_until(one_joins);
        join_of(open_session(1, 1, 3), i < 2 ? "g@0" : name, 1, 3, LONG, 2 - i % 2);
        if (i == 1)
            run_until(two_join);
        die(&fakes[1]);
        await(1);
        expect_fail(&fakes[0], -EOWNERDEAD, "of node n1) has ended before the group was complete");
        contains(fakes[0].text, "rank 1 ");
        run_until(nobody_waits);
        forget(&fakes[0]);
    }
}

static bool one_has_asked(void)
{
    return test.nodes[0].asked == 1;
}

/* One that waits no longer is failed, and what the others have asked counts when the root goes
 * on. */
Test(group_party, a_root_that_is_silent)
{
    test.nodes[0].hold = true;
    join_of(open_session(1, 1, 3), "g@0", 1, 3, SHORT, 2);
    join_of(open_session(2, 1, 3), "g@0", 2, 3, LONG, 2);
    run_until(one_has_asked); /* which is lost */
    test.nodes[0].hold = false;
    await(1);
    expect_fail(&fakes[1], -ETIMEDOUT, "coordinated by node n0, which has not answered in time");
    join(open_session(0, 0, 3), "g@0", 0, 3, LONG);
    join(&fakes[1], "g@0", 1, 3, LONG);
    await(3);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(fakes[i].status, 0, "%s", fakes[i].text);
}

Test(group_party, joins_that_come_too_early_keep_their_ranks)
{
    join(open_session(0, 0, 1), "g@0", 0, 1, LONG);
    await(1);
    join_of(open_session(1, 1, 3), "g@0", 0, 3, LONG, 2);
    join_of(open_session(2, 1, 3), "g@0", 1, 3, LONG, 2);
    run_for_ms(50);
    die(&fakes[2]);
    run_for_ms(50);
    die(&fakes[0]);
    run_until(one_joins);
    join(open_session(2, 1, 3), "g@0", 1, 3, LONG);
    join(open_session(3, 2, 3), "g@0", 2, 3, LONG);
    await(3);
    for (unsigned i = 1; i < 4; i++)
        cr_assert_eq(fakes[i].status, 0, "%s", fakes[i].text);
}

/* ---- nodes that ask for what they have, or for what is not theirs ---- */

struct refused {
    unsigned count;
    int status;
    uint64_t session;
    size_t sessions;
    bool done;
};

static struct refused refused;

static void take_refused(void *context, int status, const Tca__Message *reply, const char *text)
{
    const bool is = status == 0 && reply->body_case == TCA__MESSAGE__BODY_PEER_GROUP_REFUSED;
    refused = (struct refused){.count = 1, .status = status};
    refused.done = status == 0 && reply->body_case == TCA__MESSAGE__BODY_DONE;
    refused.sessions = is ? reply->peer_group_refused->n_sessions : 0;
    refused.session = refused.sessions ? reply->peer_group_refused->sessions[0] : 0;
}

static bool has_replied(void)
{
    return refused.count == 1;
}

static void ask_for(unsigned from, uint32_t size, uint32_t *ranks, uint64_t *sessions, size_t count)
{
    uint64_t timeouts[8] = {0};
    for (size_t i = 0; i < count; i++)
        timeouts[i] = SHORT;
    Tca__PeerGroupJoin body =
        BODY_OF(peer_group_join, .name = (char *)"g", .user = 1000, .size = size, .n_ranks = count,
                .ranks = ranks, .n_sessions = count, .sessions = sessions, .n_timeouts_ns = count,
                .timeouts_ns = timeouts);
    const Tca__Message message = MESSAGE_OF(PEER_GROUP_JOIN, peer_group_join, &body);
    refused = (struct refused){0};
    peers_request(test.nodes[from].tcad.peers, 0, &message, LONG, take_refused, NULL);
    run_until(has_replied);
}

Test(group_party, members_of_a_complete_group_may_ask_again)
{
    make_group(6); /* ranks 1 and 4 on node 1 */
    uint32_t ranks[] = {1, 4, 2};
    uint64_t sessions[] = {fakes[1].session.id, fakes[4].session.id, fakes[2].session.id};
    ask_for(1, 6, ranks, sessions, 2);
    cr_assert(refused.done);
    ask_for(1, 6, ranks, sessions, 3); /* rank 2 is node 2's */
    cr_assert_eq(refused.sessions, 1);
    cr_assert_eq(refused.session, sessions[2]);
    ask_for(1, 6, ranks + 2, sessions + 2, 1);
    cr_assert_eq(refused.status, -EEXIST);
    ask_for(1, UINT32_MAX, ranks, sessions, 1);
    cr_assert_eq(refused.status, -EINVAL);
    gather(&fakes[0], 0, "", 0, SHORT);
    await(1);
    expect_fail(&fakes[0], -ETIMEDOUT, "");
    cr_assert_eq(groups_count(test.nodes[0].tcad.groups), 1);
}

/* A rank twice, and again and again: it is one member, with one request. */
Test(group_party, ranks_that_are_asked_for_again)
{
    uint32_t ranks[] = {1, 1, 2, 1, 2, 2};
    uint64_t sessions[] = {11, 11, 12, 11, 12, 13};
    join(open_session(0, 0, 4), "g@0", 0, 4, LONG);
    run_until(one_joins);
    for (unsigned i = 0; i < 3; i++) {
        ask_for(2, 4, ranks, sessions, 6);
        cr_assert_eq(refused.sessions, 1);
        cr_assert_eq(refused.session, 13);
        cr_assert_eq(root_group()->joining, 3);
    }
    ask_for(2, 4, ranks, sessions, 5);
    cr_assert_eq(refused.status, -ETIMEDOUT);
    run_until(one_joins);
}
