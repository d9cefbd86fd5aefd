/* Meeting. */
#include "groups.h"

TestSuite(group_join, .init = setup, .fini = teardown, .timeout = 100);

Test(group_join, members_find_each_other)
{
    make_group(5);
    for (uint32_t rank = 0; rank < 5; rank++) {
        const struct session *session = &fakes[rank].session;
        cr_assert_eq(fakes[rank].tag, 77);
        cr_assert(session->joined);
        cr_assert_str_eq(session->group, "g");
        cr_assert_eq(session->rank, rank);
        cr_assert_eq(session->size, 5);
        cr_assert_eq(session->root, 0);
        const Tca__GroupMembers *list = fakes[rank].answer->group_members;
        cr_assert_eq(list->members.len, 5 * sizeof(struct group_member));
        cr_assert_eq(memcmp(list->members.data, session->members->list, list->members.len), 0);
        cr_assert_eq(session->members, fakes[rank % 3].session.members, "one list a node");
        expect_costs(&fakes[rank], 900, 12);
        for (uint32_t i = 0; i < 5; i++) {
            cr_assert_eq(session->members->list[i].node, i % 3);
            cr_assert_eq(session->members->list[i].session, fakes[i].session.id);
        }
    }
    cr_assert_eq(groups_count(test.nodes[0].tcad.groups), 1);
    cr_assert_eq(groups_count(test.nodes[1].tcad.groups), 0);

    join(&fakes[0], "other", 0, 1, LONG);
    await(1);
    expect_fail(&fakes[0], -EALREADY, "in a group already");
    for (uint32_t rank = 0; rank < 5; rank++)
        die(&fakes[rank]);
    run_until(no_group); /* it ends with its last member */
}

Test(group_join, a_name_meets_at_the_same_node_for_all)
{
    char name[NAME_MAX_BYTES], text[GROUP_TEXT_MAX], full[NAME_MAX_BYTES];
    unsigned met[4] = {0};
    for (unsigned i = 0; i < 400; i++) {
        uint32_t root[2];
        bool chosen = false;
        snprintf(full, sizeof(full), "job-%u", i);
        for (unsigned node = 0; node < 2; node++)
            cr_assert_eq(group_place(&test.nodes[node].tcad, 1000, full, name, &root[node], &chosen,
                                     text, sizeof(text)),
                         0);
        cr_assert(chosen);
        cr_assert_eq(root[0], root[1]);
        met[root[0]]++;
    }
    for (unsigned node = 0; node < 4; node++)
        cr_assert_gt(met[node], 50, "the groups are spread over the nodes");
}

Test(group_join, wrong_names_and_numbers_are_said)
{
    struct fake *fake = open_session(0, 1, 4);
    struct {
        const char *name;
        uint32_t rank, size;
        const char *text;
    } wrong[] = {
        {"", 0, 4, "1 to 63 bytes"},
        {"a\nb", 0, 4, "plain text"},
        {"0123456789012345678901234567890123456789012345678901234567890123", 0, 4,
         "1 to 63 bytes, "},
        {"g@nowhere", 0, 4, "\"nowhere\": the cluster file has no such node"},
        {"g@9", 0, 4, "no such node"},
        {"g", 4, 4, "rank 4 of 4 is invalid"},
        {"g", 0, 0, "rank 0 of 0 is invalid"},
        {"g", 0, 5, "opened for a group of at most 4"},
    };
    wrong[2].text = "1 to 63 bytes";
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        join(fake, wrong[i].name, wrong[i].rank, wrong[i].size, LONG);
        await(1);
        expect_fail(fake, -EINVAL, wrong[i].text);
    }
    gather(fake, 1, "", 0, LONG);
    await(1);
    expect_fail(fake, -EINVAL, "has not joined a group");
}

Test(group_join, who_did_not_come_is_named)
{
    join(open_session(1, 1, 8), "late@0", 3, 8, LONG);
    join(open_session(2, 2, 8), "late@0", 4, 8, LONG);
    run_until(two_join);
    join(open_session(0, 0, 8), "late@0", 0, 8, SHORT);
    await(1);
    expect_fail(&fakes[0], -ETIMEDOUT, "ranks 1-2,5-7 of 8 did not join within ");
    cr_assert(!fakes[0].session.joined);
    cr_assert_eq(fakes[0].session.size, 1);
    cr_assert(two_join(), "the others go on waiting");
    die(&fakes[1]); /* which ends it for all */
    await(1);
    run_until(no_group);
    join(&fakes[0], "late@0", 0, 1, LONG);
    await(1);
    cr_assert_eq(fakes[0].status, 0, "one may try again: %s", fakes[0].text);
}

Test(group_join, twice_the_same_rank_is_refused)
{
    join(open_session(0, 1, 2), "g@0", 1, 2, LONG);
    run_until(one_joins);
    join(open_session(1, 2, 2), "g@0", 1, 2, LONG);
    await(1);
    expect_fail(&fakes[1], -EEXIST,
                "rank 1 (session 1 of node n1) has joined already; session 1 of node n2");
    join(&fakes[1], "g@0", 0, 2, LONG);
    await(2);
    cr_assert_eq(fakes[0].status, 0);
    cr_assert_eq(fakes[1].status, 0, "%s", fakes[1].text);

    join(open_session(2, 0, 2), "g@0", 0, 2, LONG);
    await(1);
    expect_fail(&fakes[2], -EEXIST, "ranks 0-1 of 2 have not ended");
}

/* What it said when it came counts later. */
Test(group_join, a_join_waits_until_the_older_group_has_ended)
{
    join(open_session(0, 1, 1), "g@0", 0, 1, LONG);
    await(1);
    expect_costs(&fakes[0], 900, 11);
    join(open_session(1, 2, 1), "g@0", 0, 1, LONG);
    run_for_ms(50);
    cr_assert_eq(fakes[1].answers, 0);
    die(&fakes[0]);
    await(1);
    cr_assert_eq(fakes[1].status, 0, "%s", fakes[1].text);
    expect_costs(&fakes[1], 100, 12);
}

Test(group_join, members_agree_on_the_size)
{
    join(open_session(0, 1, 4), "g@0", 0, 2, LONG);
    run_until(one_joins);
    join(open_session(1, 2, 4), "g@0", 1, 3, LONG);
    await(1);
    expect_fail(&fakes[1], -EINVAL, "rank 0 (session 1 of node n1) gives size 2");
    contains(fakes[1].text, "rank 1 (session 1 of node n2) gives size 3");
}

Test(group_join, a_complete_group_waits_for_nobody)
{
    join(open_session(0, 1, 2), "g@0", 0, 2, SHORT);
    join(open_session(1, 2, 2), "g@0", 1, 2, SHORT);
    await(2);
    look_up(&fakes[0], "nothing", 2 * SHORT); /* beyond the time for joins */
    await(1);
    expect_fail(&fakes[0], -ETIMEDOUT, "no session has published \"nothing\" within ");
    cr_assert_eq(fakes[1].status, 0);
}

Test(group_join, users_do_not_meet)
{
    join(open_session(0, 1, 2), "g@0", 0, 2, SHORT);
    open_session(1, 2, 2)->session.uid = 1001;
    join(&fakes[1], "g@0", 1, 2, SHORT);
    await(2);
    expect_fail(&fakes[0], -ETIMEDOUT, "rank 1 of 2");
    expect_fail(&fakes[1], -ETIMEDOUT, "rank 0 of 2");
}

Test(group_join, a_user_has_so_many_groups)
{
    char name[32];
    test.nodes[0].conf.limits.groups_per_user = 2;
    for (unsigned i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "g%u@0", i);
        join(open_session(i, 1, 1), name, 0, 1, LONG);
        await(1);
    }
    cr_assert_eq(fakes[1].status, 0);
    expect_fail(
        &fakes[2], -EDQUOT,
        "user 1000 has 2 groups that node n0 coordinates, the limit (limits.groups_per_user)");
}

Test(group_join, a_root_that_is_down_is_named)
{
    join(open_session(0, 1, 2), "g@n3", 0, 2, LONG);
    await(1);
    expect_fail(
        &fakes[0], -EHOSTDOWN,
        "group g is coordinated by node n3, which is down: start it, or choose another node "
        "(g@NODE)");
    cr_assert(!fakes[0].session.joined);
}

/* ---- alone ---- */

Test(group_join, a_session_alone_needs_nobody)
{
    struct fake *fake = open_session(0, 1, 1);
    join(fake, "", 0, 1, LONG);
    await(1);
    cr_assert_eq(fake->answer->group_members->members.len, sizeof(struct group_member));
    expect_costs(fake, 900, 11);
    gather(fake, 1, "blob", 4, LONG);
    await(1);
    cr_assert_eq(fake->answer->gathered->blobs.len, 4);
    cr_assert_eq(memcmp(fake->answer->gathered->blobs.data, "blob", 4), 0);
    look_up(fake, "x", LONG);
    await(1);
    expect_fail(fake, -ENOENT, "\"x\"");
    publish(fake, "x", 7);
    await(1);
    cr_assert_eq(fake->answer->body_case, TCA__MESSAGE__BODY_DONE);
    publish(fake, "x", 8);
    await(1);
    cr_assert_eq(fake->answer->body_case, TCA__MESSAGE__BODY_DONE);
    look_up(fake, "x", 0);
    await(1);
    cr_assert_eq(fake->answer->found->handle.data[63], 8);
    publish(fake, "x", 0);
    await(1);
    cr_assert_eq(fake->status, 0);
    publish(fake, "x", 0);
    await(1);
    expect_fail(fake, -ENOENT, "\"x\"");
    cr_assert_eq(test.nodes[1].ups, 0);
    die(fake);
}

Test(group_join, who_has_not_joined_yet_may_not_call)
{
    join(open_session(0, 1, 2), "g@0", 0, 2, LONG);
    publish(&fakes[0], "early", 9);
    gather(&fakes[0], 0, "", 0, LONG);
    await(2);
    expect_fail(&fakes[0], -EINVAL, "has not joined a group");
    join(open_session(1, 0, 2), "g@0", 1, 2, LONG);
    await(2);
    cr_assert_eq(fakes[0].status, 0, "%s", fakes[0].text);
}
