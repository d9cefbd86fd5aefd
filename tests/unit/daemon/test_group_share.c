/* Gathering and publishing. */
#define GROUP_RANKS 264 /* whose list of members is long */
#include "groups.h"

enum { FEW = 8 };

TestSuite(group_share, .init = setup, .fini = teardown, .timeout = 100);

/* ---- gathering ---- */

Test(group_share, everybody_gets_every_blob)
{
    make_group(4);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t rank = 0; rank < 4; rank++) {
            uint32_t value = 100 * round + rank;
            gather(&fakes[rank], round, &value, sizeof(value), LONG);
        }
        await(4);
        for (uint32_t rank = 0; rank < 4; rank++) {
            const Tca__Gathered *gathered = fakes[rank].answer->gathered;
            cr_assert_eq(gathered->blobs.len, 4 * sizeof(uint32_t));
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t value = 100 * round + i;
                cr_assert_eq(
                    memcmp(gathered->blobs.data + i * sizeof(value), &value, sizeof(value)), 0);
            }
        }
    }
}

/* A long result is written once per node, and all of its ranks read it there. */
Test(group_share, ranks_of_a_node_share_what_is_long)
{
    static uint8_t blob[BLOB_MAX_BYTES];
    make_group(FEW);
    for (unsigned rank = 0; rank < FEW; rank++) {
        memset(blob, (int)rank + 1, sizeof(blob));
        gather(&fakes[rank], 0, blob, sizeof(blob), LONG);
    }
    await(FEW);
    for (unsigned rank = 0; rank < FEW; rank++) {
        const ProtobufCBinaryData *blobs = &fakes[rank].answer->gathered->blobs;
        cr_assert_eq(blobs->len, FEW * sizeof(blob));
        for (unsigned i = 0; i < blobs->len; i++)
            cr_assert_eq(blobs->data[i], i / sizeof(blob) + 1);
        cr_assert_neq(fakes[rank].memfd, 0);
        for (unsigned other = 0; other < rank; other++)
            cr_assert_eq(fakes[rank].memfd == fakes[other].memfd, rank % 3 == other % 3);
    }
}

static void gather_head(uint32_t rank, uint64_t sequence, uint32_t head)
{
    uint32_t blob[2] = {head, rank};
    Tca__Gather body =
        BODY_OF(gather, .sequence = sequence, .same_bytes = sizeof(head),
                .blob = (ProtobufCBinaryData){sizeof(blob), (uint8_t *)blob}, .timeout_ns = LONG);
    group_gather(&fakes[rank].session, 78, &body);
}

/* Only what is to be the same is compared, and the lowest rank with something else is named. */
Test(group_share, what_is_to_be_the_same_is_compared)
{
    make_group(FEW);
    for (unsigned first = 0; first <= FEW; first++) {
        for (unsigned rank = 0; rank < FEW; rank++)
            gather_head(rank, first, rank == first || rank + 1 == FEW ? first : FEW);
        await(FEW);
        const uint32_t other = first == 0         ? 1
                               : first < FEW - 1  ? first
                               : first == FEW - 1 ? FEW - 1
                                                  : 0;
        for (unsigned rank = 0; rank < FEW; rank++)
            cr_assert_eq(fakes[rank].answer->gathered->other, other);
    }
    Tca__Gather body = BODY_OF(gather, .sequence = FEW + 1, .same_bytes = 1);
    group_gather(&fakes[0].session, 78, &body);
    await(1);
    expect_fail(&fakes[0], -EINVAL, "cannot compare 1");
}

/* A long list of members is written once per node, too. */
Test(group_share, ranks_of_a_node_share_the_list_of_members)
{
    make_group(RANKS_MAX);
    for (unsigned rank = 0; rank < RANKS_MAX; rank++) {
        const struct members *members = fakes[rank].session.members;
        const ProtobufCBinaryData *list = &fakes[rank].answer->group_members->members;
        cr_assert_eq(list->len, RANKS_MAX * sizeof(struct group_member));
        cr_assert_eq(memcmp(list->data, members->list, list->len), 0);
        cr_assert_neq(fakes[rank].memfd, 0);
        for (unsigned other = 0; other < rank && other < 9; other++) {
            cr_assert_eq(members == fakes[other].session.members, rank % 3 == other % 3);
            cr_assert_eq(fakes[rank].memfd == fakes[other].memfd, rank % 3 == other % 3);
        }
    }
}

Test(group_share, a_gather_has_limits)
{
    static char blob[BLOB_MAX_BYTES + 1];
    make_group(2);
    gather(&fakes[0], 0, blob, sizeof(blob), LONG);
    await(1);
    expect_fail(&fakes[0], -EMSGSIZE, "at most 4096 bytes");
    gather(&fakes[0], 0, blob, BLOB_MAX_BYTES, LONG);
    gather(&fakes[0], 0, blob, BLOB_MAX_BYTES, LONG);
    await(1);
    expect_fail(&fakes[0], -EBUSY, "rank 0 is in a collective call already");
    gather(&fakes[1], 0, blob, BLOB_MAX_BYTES, LONG);
    await(2);
    cr_assert_eq(fakes[0].status, 0);
}

Test(group_share, different_calls_fail_for_all)
{
    make_group(3);
    gather(&fakes[1], 5, "", 0, LONG);
    run_until(one_gathers);
    gather(&fakes[2], 6, "", 0, LONG);
    await(2);
    expect_fail(&fakes[1], -EPROTO,
                "rank 1 makes collective call 5 with 0 bytes, rank 2 call 6 with 0 bytes");
    expect_fail(&fakes[2], -EPROTO, "rank 1 makes collective call 5");
    gather(&fakes[0], 7, "ab", 2, LONG);
    run_until(one_gathers);
    gather(&fakes[1], 7, "abc", 3, LONG);
    await(2);
    expect_fail(&fakes[0], -EPROTO,
                "rank 0 makes collective call 7 with 2 bytes, rank 1 call 7 with 3 bytes");
}

Test(group_share, who_is_late_for_a_gather_is_named)
{
    make_group(4);
    gather(&fakes[2], 0, "", 0, SHORT);
    await(1);
    expect_fail(
        &fakes[2], -ETIMEDOUT,
        "collective call 0: ranks 0-1,3 of 4 did not take part in time: rank 2 has waited ");
    for (uint32_t rank = 0; rank < 4; rank++)
        gather(&fakes[rank], 0, "", 0, LONG);
    await(4);
    cr_assert_eq(fakes[2].status, 0, "%s", fakes[2].text);
}

/* ---- publishing ---- */

static void count_published(void *context, uid_t uid, const char *group, const char *name,
                            const uint8_t handle[64])
{
    cr_assert_str_eq(group, "g");
    ++*(unsigned *)context;
}

static unsigned published_at(unsigned node)
{
    unsigned count = 0;
    groups_published(test.nodes[node].tcad.groups, count_published, &count);
    return count;
}

Test(group_share, what_is_published_is_found)
{
    make_group(3);
    look_up(&fakes[2], "halo", LONG);
    look_up(&fakes[0], "halo", 0);
    await(1);
    expect_fail(&fakes[0], -ENOENT, "\"halo\"");
    publish(&fakes[1], "halo", 9);
    await(2);
    cr_assert_eq(fakes[1].answer->body_case, TCA__MESSAGE__BODY_DONE);
    cr_assert_eq(fakes[2].answer->found->handle.data[0], 9);
    cr_assert_eq(published_at(1), 1);

    publish(&fakes[1], "halo", 10);
    await(1);
    cr_assert_eq(fakes[1].answer->body_case, TCA__MESSAGE__BODY_DONE);
    look_up(&fakes[2], "halo", 0);
    await(1);
    cr_assert_eq(fakes[2].answer->found->handle.data[0], 10);
    cr_assert_eq(published_at(1), 1);
    publish(&fakes[2], "halo", 8);
    await(1);
    expect_fail(&fakes[2], -EEXIST, "published by rank 1 (session ");
    publish(&fakes[2], "halo", 0);
    await(1);
    expect_fail(&fakes[2], -ENOENT, "this session has nothing published");
    look_up(&fakes[0], "nothing", SHORT);
    await(1);
    expect_fail(&fakes[0], -ETIMEDOUT, "no session has published \"nothing\" within ");

    publish(&fakes[1], "halo", 0);
    await(1);
    cr_assert_eq(fakes[1].status, 0);
    cr_assert_eq(published_at(1), 0);
    look_up(&fakes[0], "halo", 0);
    await(1);
    expect_fail(&fakes[0], -ENOENT, "\"halo\"");
}

/* Names are at the root of the tree, whose end breaks the group anyway. */
Test(group_share, names_outlive_a_coordinator_without_ranks)
{
    for (unsigned rank = 0; rank < 2; rank++)
        join(open_session(rank, rank, 2), "g@2", rank, 2, LONG);
    await(2);
    publish(&fakes[1], "halo", 9);
    await(1);
    stop(2);
    run_for_ms(100);
    look_up(&fakes[0], "halo", 0);
    publish(&fakes[1], "other", 3);
    await(2);
    cr_assert_eq(fakes[0].status, 0, "%s", fakes[0].text);
    cr_assert_eq(fakes[0].answer->found->handle.data[0], 9);
    cr_assert_eq(fakes[1].status, 0, "%s", fakes[1].text);
}

Test(group_share, a_group_publishes_so_much)
{
    char name[16];
    make_group(2);
    test.nodes[0].conf.limits.published_per_group = 3;
    for (unsigned i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "h%u", i);
        publish(&fakes[i % 2], name, 1);
        await(1);
    }
    expect_fail(&fakes[1], -EDQUOT,
                "group g has 3 handles published, the limit (limits.published_per_group)");
}

/* The root knows which session published each name. */
Test(group_share, the_end_of_a_session_withdraws_its_names_with_one_message)
{
    enum { NAMES = 500 };
    struct peer_info before, after;
    char name[16];
    make_group(3);
    test.nodes[0].conf.limits.published_per_group = NAMES + 1;
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "h%u", i);
        publish(&fakes[1], name, 1);
        await(1);
    }
    publish(&fakes[2], "other", 3);
    await(1);
    cr_assert_eq(board()->names.count, NAMES + 1);
    cr_assert_eq(peers_info(test.nodes[1].tcad.peers, 0, &before), 0);
    die(&fakes[1]);
    run_until(one_published);
    cr_assert_eq(peers_info(test.nodes[1].tcad.peers, 0, &after), 0);
    cr_assert_lt(after.sent_bytes - before.sent_bytes, NAMES);
    look_up(&fakes[2], "h7", 0);
    await(1);
    expect_fail(&fakes[2], -ENOENT, "\"h7\"");
    look_up(&fakes[0], "other", 0);
    await(1);
    cr_assert_eq(fakes[0].answer->found->handle.data[0], 3);
}

/* Many wait for names, and one lookup finds the waiting one. */
Test(group_share, whoever_waits_for_a_name_is_found_among_others)
{
    enum { ROUNDS = 60 };
    char name[16];
    make_group(3);
    test.nodes[0].conf.limits.published_per_group = ROUNDS;
    for (unsigned i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof(name), "h%u", i);
        look_up(&fakes[0], name, LONG);
        look_up(&fakes[2], name, LONG);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof(name), "h%u", i);
        publish(&fakes[1], name, (uint8_t)(i + 1));
        await(3);
        cr_assert_eq(fakes[0].answer->found->handle.data[0], i + 1);
        cr_assert_eq(fakes[2].answer->found->handle.data[0], i + 1);
    }
    cr_assert_eq(board()->sought.count, 0);
}

Test(group_share, what_a_session_published_goes_with_it)
{
    make_group(3);
    publish(&fakes[1], "halo", 9);
    await(1);
    die(&fakes[1]);
    run_until(nothing_published);
    look_up(&fakes[2], "halo", 0);
    await(1);
    expect_fail(&fakes[2], -ENOENT, "\"halo\"");
}

Test(group_share, a_session_waits_for_so_many_answers)
{
    enum { MOST = 64 };
    make_group(2);
    for (unsigned i = 0; i < MOST; i++)
        look_up(&fakes[0], "later", LONG);
    cr_assert_eq(fakes[0].answers, 0);
    look_up(&fakes[0], "later", LONG);
    cr_assert_eq(fakes[0].answers, 1);
    expect_fail(&fakes[0], -EBUSY, "waits for 64 answers of group g");
    publish(&fakes[1], "later", 9);
    await(1 + MOST + 1);
    look_up(&fakes[0], "later", 0);
    await(1);
    cr_assert_eq(fakes[0].status, 0, "there is room again: %s", fakes[0].text);
}
