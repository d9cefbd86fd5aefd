/* Parts of a group: splitting, calling, ending, releasing. */
#define GROUP_RANKS 24
#include "groups.h"

#include <criterion/parameterized.h>

#include "daemon/groups/divide.h"

TestSuite(group_split, .init = setup, .fini = teardown, .timeout = 100);

enum { ALL = GROUP_RANKS };

static uint64_t seed;

static uint32_t pick(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

static void split(struct fake *fake, uint64_t group, uint64_t sequence, uint32_t colour,
                  int32_t key)
{
    Tca__GroupSplit body = BODY_OF(group_split, .group = group, .sequence = sequence,
                                   .colour = colour, .key = key, .timeout_ns = LONG);
    group_split(&fake->session, 81, &body);
}

static void gather_in(struct fake *fake, uint64_t group, uint64_t sequence, uint32_t value)
{
    Tca__Gather body =
        BODY_OF(gather, .group = group, .sequence = sequence, .timeout_ns = LONG,
                .blob = (ProtobufCBinaryData){.len = sizeof(value), .data = (uint8_t *)&value});
    group_gather(&fake->session, 82, &body);
}

static void release(struct fake *fake, uint64_t group)
{
    Tca__GroupRelease body = BODY_OF(group_release, .group = group);
    group_release(&fake->session, 83, &body);
}

/* What a rank has got of a split. */
struct part {
    uint64_t group;
    uint32_t size, ranks[ALL];
};

static struct part part_of(unsigned rank)
{
    struct part part = {0};
    cr_assert_eq(fakes[rank].status, 0, "%s", fakes[rank].text);
    cr_assert_eq(fakes[rank].answer->body_case, TCA__MESSAGE__BODY_GROUP_PART);
    const Tca__GroupPart *answer = fakes[rank].answer->group_part;
    part.group = answer->group;
    part.size = (uint32_t)answer->n_ranks;
    for (uint32_t i = 0; i < part.size; i++) /* none: NULL */
        part.ranks[i] = answer->ranks[i];
    return part;
}

static void expect_gathered(unsigned rank, const struct part *part, uint32_t base)
{
    cr_assert_eq(fakes[rank].status, 0, "%s", fakes[rank].text);
    const Tca__Gathered *gathered = fakes[rank].answer->gathered;
    cr_assert_eq(gathered->blobs.len, part->size * sizeof(uint32_t));
    for (uint32_t i = 0; i < part->size; i++) {
        const uint32_t value = base + part->ranks[i];
        cr_assert_eq(memcmp(gathered->blobs.data + i * sizeof(value), &value, sizeof(value)), 0);
    }
}

static size_t team_count(void)
{
    size_t count = 0;
    for (unsigned id = 0; id < 3; id++)
        count += test.nodes[id].tcad.groups ? test.nodes[id].tcad.groups->teams.count : 0;
    return count;
}

static bool only_the_whole(void)
{
    return team_count() == 3;
}

/* Ranks 0 to size - 1 in two halves, even and odd. */
static void make_halves(uint32_t size, struct part *parts)
{
    make_group(size);
    for (uint32_t rank = 0; rank < size; rank++)
        split(&fakes[rank], 0, 0, rank % 2, -(int32_t)rank);
    await(size);
    for (uint32_t rank = 0; rank < size; rank++)
        parts[rank] = part_of(rank);
}

Test(group_split, halves_make_different_numbers_of_calls)
{
    struct part parts[7];
    make_halves(7, parts);
    for (uint32_t rank = 0; rank < 7; rank++) {
        cr_assert_eq(parts[rank].group, parts[rank % 2].group);
        cr_assert_eq(parts[rank].size, rank % 2 ? 3 : 4);
        for (uint32_t i = 0; i < parts[rank].size; i++) /* the keys are in descending order */
            cr_assert_eq(parts[rank].ranks[i], 2 * (parts[rank].size - 1 - i) + rank % 2);
    }
    cr_assert_neq(parts[0].group, parts[1].group);
    for (uint32_t call = 0; call < 3; call++) {
        for (uint32_t rank = 1; rank < 7; rank += 2)
            gather_in(&fakes[rank], parts[rank].group, call, 100 * call + rank);
        await(3);
        for (uint32_t rank = 1; rank < 7; rank += 2)
            expect_gathered(rank, &parts[rank], 100 * call);
    }
    for (uint32_t rank = 0; rank < 7; rank++) {
        if (rank % 2 == 0)
            gather_in(&fakes[rank], parts[rank].group, 0, rank);
        else
            gather(&fakes[rank], 1, &rank, sizeof(rank), LONG);
    }
    await(4);
    for (uint32_t rank = 0; rank < 7; rank += 2) {
        expect_gathered(rank, &parts[rank], 0);
        gather(&fakes[rank], 1, &rank, sizeof(rank), LONG);
    }
    await(7);
}

Test(group_split, a_part_can_be_split)
{
    struct part parts[8], quarters[8];
    make_halves(8, parts);
    for (uint32_t rank = 0; rank < 8; rank++)
        split(&fakes[rank], parts[rank].group, 0, rank / 2 % 2, 0);
    await(8);
    for (uint32_t rank = 0; rank < 8; rank++) {
        quarters[rank] = part_of(rank);
        cr_assert_eq(quarters[rank].size, 2);
        cr_assert_eq(quarters[rank].ranks[0], rank % 4 + 4, "ranks of the session's group");
        cr_assert_eq(quarters[rank].ranks[1], rank % 4);
        gather_in(&fakes[rank], quarters[rank].group, 0, rank);
    }
    await(8);
    for (uint32_t rank = 0; rank < 8; rank++) {
        expect_gathered(rank, &quarters[rank], 0);
        release(&fakes[rank], parts[rank].group);
    }
    await(8);
    for (uint32_t rank = 0; rank < 8; rank++)
        gather_in(&fakes[rank], quarters[rank].group, 1, rank);
    await(8);
    for (uint32_t rank = 0; rank < 8; rank++)
        expect_gathered(rank, &quarters[rank], 0);
}

Test(group_split, random_splits_that_are_released)
{
    struct part parts[ALL];
    make_group(ALL);
    for (uint32_t round = 0; round < 12; round++) {
        uint32_t colours[ALL], answered = 0;
        seed = round;
        for (uint32_t rank = 0; rank < ALL; rank++) {
            colours[rank] = pick(6) ? pick(round < 6 ? 3 : ALL / 2) : DIVIDE_NONE;
            split(&fakes[rank], 0, round, colours[rank], (int32_t)pick(3));
        }
        await(ALL);
        for (uint32_t rank = 0; rank < ALL; rank++) {
            parts[rank] = part_of(rank);
            cr_assert(colours[rank] != DIVIDE_NONE || parts[rank].group == 0);
            for (uint32_t i = 0; i < parts[rank].size; i++)
                cr_assert_eq(colours[parts[rank].ranks[i]], colours[rank]);
            if (parts[rank].group)
                gather_in(&fakes[rank], parts[rank].group, 0, rank);
            answered += parts[rank].group != 0;
        }
        await(answered);
        for (uint32_t rank = 0; rank < ALL; rank++)
            if (parts[rank].group) {
                expect_gathered(rank, &parts[rank], 0);
                release(&fakes[rank], parts[rank].group);
            }
        await(answered);
        run_until(only_the_whole);
    }
}

Test(group_split, a_split_and_another_call_fail_for_all)
{
    make_group(3);
    split(&fakes[0], 0, 4, 1, 1);
    run_until(one_gathers);
    gather(&fakes[1], 4, "12345678", 8, LONG);
    await(2);
    expect_fail(&fakes[0], -EPROTO,
                "rank 0 makes collective call 4, a split, rank 1 call 4 with 8 bytes");
    for (uint32_t rank = 0; rank < 3; rank++)
        split(&fakes[rank], 0, 4, 1, 1);
    await(3);
    cr_assert_eq(part_of(2).size, 3);
}

Test(group_split, a_node_without_quota_fails_the_split_for_all)
{
    make_group(6);
    const uint64_t limit = test.nodes[2].conf.limits.bytes_per_user;
    test.nodes[2].conf.limits.bytes_per_user = user_find(&test.nodes[2].tcad, 1000)->total + 1000;
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t rank = 0; rank < 6; rank++)
            split(&fakes[rank], 0, 0, rank / 3, 0);
        await(6);
        for (uint32_t rank = 0; rank < 6; rank++)
            expect_fail(&fakes[rank], -EDQUOT, "limits.bytes_per_user");
        run_until(only_the_whole);
    }
    test.nodes[2].conf.limits.bytes_per_user = limit;
    for (uint32_t rank = 0; rank < 6; rank++)
        split(&fakes[rank], 0, 0, rank / 3, 0);
    await(6);
    for (uint32_t rank = 0; rank < 6; rank++)
        cr_assert_eq(part_of(rank).size, 3);
}

Test(group_split, who_releases_a_part_ends_its_calls)
{
    struct part parts[7];
    make_halves(7, parts);
    gather_in(&fakes[0], parts[0].group, 0, 0);
    release(&fakes[4], parts[4].group);
    await(2);
    expect_fail(&fakes[0], -ECANCELED,
                "group g/0: rank 1 (session 2 of node n1) has released the group");
    for (uint32_t rank = 0; rank < 7; rank++)
        if (rank != 4)
            gather_in(&fakes[rank], parts[rank].group, 0, rank);
    await(6);
    expect_fail(&fakes[6], -ECANCELED, "has released the group");
    expect_gathered(3, &parts[3], 0);
    release(&fakes[4], parts[4].group);
    await(1);
    expect_fail(&fakes[4], -ENOENT, "has no group");
}

Test(group_split, a_death_disturbs_only_parts_that_have_the_rank)
{
    struct part parts[7];
    make_halves(7, parts);
    gather_in(&fakes[5], parts[5].group, 0, 5);
    gather_in(&fakes[3], parts[3].group, 0, 3);
    gather_in(&fakes[2], parts[2].group, 0, 2);
    die(&fakes[4]);
    await(1);
    expect_fail(&fakes[2], -EOWNERDEAD, "group g/0: rank 1 (session 2 of node n1) has ended");
    gather_in(&fakes[1], parts[1].group, 0, 1);
    await(3);
    expect_gathered(3, &parts[3], 0);
    for (uint32_t rank = 1; rank < 7; rank += 2)
        split(&fakes[rank], parts[rank].group, 1, 9, 0);
    await(3);
    const struct part again = part_of(5);
    cr_assert_eq(again.size, 3);
    for (uint32_t rank = 1; rank < 7; rank += 2)
        gather_in(&fakes[rank], again.group, 0, rank);
    await(3);
    expect_gathered(1, &again, 0);
    split(&fakes[1], 0, 1, 9, 0);
    await(1);
    expect_fail(&fakes[1], -EOWNERDEAD, "has ended");
}

Test(group_split, a_node_down_disturbs_only_parts_that_it_has)
{
    struct part parts[ALL];
    make_group(12);
    for (uint32_t rank = 0; rank < 12; rank++) /* a part without node 1, and one with it */
        split(&fakes[rank], 0, 0, rank % 3 == 1 || rank > 5, 0);
    await(12);
    for (uint32_t rank = 0; rank < 12; rank++)
        parts[rank] = part_of(rank);
    gather_in(&fakes[11], parts[11].group, 0, 11);
    for (uint32_t rank = 1; rank < 12; rank += 3)
        forget(&fakes[rank]);
    stop(1);
    await(1);
    expect_fail(&fakes[11], -EHOSTDOWN, "has ended: its node is down");
    for (uint32_t rank = 0; rank < 6; rank++)
        if (rank % 3 != 1)
            gather_in(&fakes[rank], parts[rank].group, 0, rank);
    await(4);
    expect_gathered(5, &parts[5], 0);
    gather_in(&fakes[6], parts[6].group, 0, 6);
    await(1);
    expect_fail(&fakes[6], -EHOSTDOWN, "has ended: its node is down");
}

/* ---- ends during a split, after any number of messages ---- */

static unsigned fuse;

static unsigned alive(void)
{
    unsigned count = 0;
    for (unsigned rank = 0; rank < ALL; rank++)
        count += fakes[rank].session.tcad != NULL;
    return count;
}

static bool burnt(void)
{
    unsigned messages = 0;
    for (unsigned id = 0; id < 3; id++)
        messages += test.nodes[id].asked;
    return messages >= fuse || answers() >= alive();
}

static void trip(unsigned messages)
{
    fuse = messages;
    for (unsigned id = 0; id < 3; id++) {
        fuse += test.nodes[id].asked;
        test.nodes[id].stop_after = &burnt;
    }
    run_until_for(burnt, PATIENCE_S * SECOND);
    for (unsigned id = 0; id < 3; id++)
        test.nodes[id].stop_after = NULL;
}

/* Whoever has got a part gets an answer in it, whenever the rank has ended. */
static void end_during(unsigned messages, bool node_down)
{
    struct part parts[ALL] = {0};
    const unsigned dead = node_down ? 1 : pick(ALL);
    unsigned callers = 0;

    for (uint32_t rank = 0; rank < ALL; rank++)
        split(&fakes[rank], 0, 0, rank % 4, 0);
    trip(messages);
    unsigned ended = 0;
    for (uint32_t rank = 0; rank < ALL; rank++)
        if (node_down ? rank % 3 == dead : rank == dead) {
            ended++;
            if (node_down)
                forget(&fakes[rank]);
            else
                die(&fakes[rank]);
        }
    if (node_down)
        stop(dead);
    await(ALL - ended);
    for (uint32_t rank = 0; rank < ALL; rank++)
        if (fakes[rank].session.tcad && fakes[rank].status == 0) {
            parts[rank] = part_of(rank);
            gather_in(&fakes[rank], parts[rank].group, 0, rank);
            callers++;
        }
    cr_assert(callers == 0 || callers == ALL - ended, "alike at all ranks");
    await(callers);
    for (uint32_t rank = 0; rank < ALL; rank++)
        if (fakes[rank].session.tcad && parts[rank].group && fakes[rank].status != 0)
            cr_assert(fakes[rank].status == -EOWNERDEAD || fakes[rank].status == -EHOSTDOWN, "%s",
                      fakes[rank].text);
}

Test(group_split, a_rank_ends_during_a_split)
{
    for (unsigned messages = 1; messages < 12; messages++) {
        seed = messages;
        make_group(ALL);
        end_during(messages, false);
        for (uint32_t rank = 0; rank < ALL; rank++)
            if (fakes[rank].session.tcad)
                die(&fakes[rank]);
        run_until(no_group);
    }
}

ParameterizedTestParameters(group_split, a_node_is_lost_during_a_split)
{
    static unsigned messages[] = {1, 2, 3, 4, 5, 6, 7, 8};
    return cr_make_param_array(unsigned, messages, 8);
}

ParameterizedTest(const unsigned *messages, group_split, a_node_is_lost_during_a_split)
{
    seed = *messages;
    make_group(ALL);
    end_during(*messages, true);
}

/* ---- the survivors go on ---- */

static void shrink(struct fake *fake, uint64_t group, uint64_t timeout_ns)
{
    Tca__GroupShrink body = BODY_OF(group_shrink, .group = group, .timeout_ns = timeout_ns);
    group_shrink(&fake->session, 84, &body);
}

/* All get a group of all of them, in which a call succeeds. */
static void expect_shrunk(struct part *ret_part)
{
    const unsigned count = alive();
    await(count);
    for (unsigned rank = 0; rank < ALL; rank++) {
        if (!fakes[rank].session.tcad)
            continue;
        *ret_part = part_of(rank);
        cr_assert_eq(ret_part->size, count, "rank %u: %u of %u", rank, ret_part->size, count);
        gather_in(&fakes[rank], ret_part->group, 0, rank);
    }
    await(count);
    for (unsigned rank = 0; rank < ALL; rank++)
        if (fakes[rank].session.tcad)
            expect_gathered(rank, ret_part, 0);
}

static void shrink_all(uint64_t group)
{
    for (unsigned rank = 0; rank < ALL; rank++)
        if (fakes[rank].session.tcad)
            shrink(&fakes[rank], group, LONG);
}

/* Those who have got a group of which ranks have ended shrink that, or the first one, again. */
static bool all_have_survivors(void)
{
    bool all = true;
    for (unsigned rank = 0; rank < ALL; rank++) {
        struct fake *fake = &fakes[rank];
        if (!fake->session.tcad)
            continue;
        if (fake->answers > 0 && part_of(rank).size != alive()) {
            fake->answers = 0;
            shrink(fake, rank % 2 ? part_of(rank).group : 0, LONG);
        }
        all &= fake->answers > 0;
    }
    return all;
}

Test(group_split, survivors_go_on)
{
    struct part part, again;
    make_group(ALL);
    die(&fakes[5]);
    die(&fakes[0]);
    shrink_all(0);
    expect_shrunk(&part);
    for (unsigned rank = 1; rank < 4; rank++)
        shrink(&fakes[rank], rank == 2 ? part.group : 0, SHORT);
    await(3);
    expect_fail(&fakes[1], -ETIMEDOUT, "no further rank has ended");
    expect_fail(&fakes[2], -ETIMEDOUT, "no further rank has ended");
    die(&fakes[7]);
    for (unsigned rank = 1; rank < ALL; rank++) /* of the first or of the second group */
        if (fakes[rank].session.tcad)
            shrink(&fakes[rank], rank % 2 ? part.group : 0, LONG);
    expect_shrunk(&again);
    cr_assert_neq(part.group, again.group);
    for (unsigned rank = 1; rank < ALL; rank++)
        if (fakes[rank].session.tcad)
            split(&fakes[rank], again.group, 1, rank % 2, 0);
    await(alive());
    cr_assert_eq(part_of(1).size, 10);
}

Test(group_split, ranks_end_while_the_others_shrink)
{
    for (unsigned messages = 1; messages < 30; messages += 2) {
        struct part part;
        seed = messages;
        make_group(ALL);
        die(&fakes[pick(ALL)]);
        shrink_all(0);
        trip(messages);
        for (unsigned more = 0; more < 3; more++) {
            const unsigned rank = pick(ALL);
            if (fakes[rank].session.tcad)
                die(&fakes[rank]);
        }
        run_until(all_have_survivors);
        expect_shrunk(&part);
        for (unsigned rank = 0; rank < ALL; rank++)
            if (fakes[rank].session.tcad)
                die(&fakes[rank]);
        run_until(no_group);
    }
}

Test(group_split, a_node_is_lost_and_the_others_shrink)
{
    struct part part;
    make_group(ALL);
    for (unsigned rank = 0; rank < ALL; rank += 3) /* the root of the tree */
        forget(&fakes[rank]);
    shrink_all(0);
    stop(0);
    expect_shrunk(&part);
}

Test(group_split, who_does_not_shrink_holds_up_the_others)
{
    make_group(4);
    die(&fakes[3]);
    shrink(&fakes[0], 0, SHORT);
    shrink(&fakes[1], 0, SHORT);
    await(2);
    expect_fail(&fakes[0], -ETIMEDOUT, "have not called tca_group_shrink()");
    expect_fail(&fakes[1], -ETIMEDOUT, "have not called tca_group_shrink()");
    for (unsigned rank = 0; rank < 3; rank++)
        shrink(&fakes[rank], 0, LONG);
    struct part part;
    expect_shrunk(&part);
}

/* The others wait for it in vain, and go on with it when they repeat the call. */
Test(group_split, a_node_without_quota_holds_up_a_shrink)
{
    struct part part;
    make_group(7);
    const uint64_t limit = test.nodes[2].conf.limits.bytes_per_user;
    die(&fakes[6]);
    test.nodes[2].conf.limits.bytes_per_user = user_find(&test.nodes[2].tcad, 1000)->total + 1000;
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned rank = 0; rank < 6; rank++)
            shrink(&fakes[rank], 0, SHORT);
        await(6);
        for (unsigned rank = 0; rank < 6; rank++)
            if (rank % 3 == 2)
                expect_fail(&fakes[rank], -EDQUOT, "limits.bytes_per_user");
            else
                expect_fail(&fakes[rank], -ETIMEDOUT, "have not called tca_group_shrink()");
    }
    test.nodes[2].conf.limits.bytes_per_user = limit;
    shrink_all(0);
    expect_shrunk(&part);
}

/* A call that has timed out still counts: those who come later meet it, and go on without it when
 * it ends. */
Test(group_split, a_rank_does_not_repeat_its_shrink)
{
    struct part part, again;
    make_group(5);
    die(&fakes[4]);
    shrink(&fakes[0], 0, SHORT);
    shrink(&fakes[3], 0, SHORT);
    await(2);
    expect_fail(&fakes[0], -ETIMEDOUT, "have not called tca_group_shrink()");
    expect_fail(&fakes[3], -ETIMEDOUT, "have not called tca_group_shrink()");
    for (unsigned rank = 1; rank < 4; rank++)
        shrink(&fakes[rank], 0, LONG);
    await(3);
    part = part_of(1);
    cr_assert_eq(part.size, 4);
    for (unsigned rank = 1; rank < 4; rank++)
        gather_in(&fakes[rank], part.group, 0, rank);
    die(&fakes[0]);
    await(3);
    expect_fail(&fakes[3], -EOWNERDEAD, "rank 0");
    for (unsigned rank = 1; rank < 4; rank++)
        shrink(&fakes[rank], rank == 2 ? 0 : part.group, LONG);
    expect_shrunk(&again);
}

/* ---- hostile sessions ---- */

Test(group_split, numbers_that_were_not_given)
{
    struct part parts[7];
    make_halves(7, parts);
    const uint64_t whole = test.nodes[1].tcad.groups->places->caller.team->id;
    const uint64_t wrong[] = {parts[0].group, whole, 1, UINT64_MAX};
    for (unsigned i = 0; i < 4; i++) {
        gather_in(&fakes[1], wrong[i], 0, 0);
        split(&fakes[1], wrong[i], 0, 0, 0);
        release(&fakes[1], wrong[i]);
        await(3);
        expect_fail(&fakes[1], -ENOENT, "has no group");
    }
    release(&fakes[1], 0);
    await(1);
    expect_fail(&fakes[1], -EINVAL, "leaves its own group when it ends");
    const uint64_t numbers[] = {GATHER_SPLITS, GATHER_MEETS | 5, GROUP_JOIN_SEQUENCE};
    for (unsigned i = 0; i < 3; i++) {
        gather_in(&fakes[1], parts[1].group, numbers[i], 0);
        split(&fakes[1], parts[1].group, numbers[i], 0, 0);
        await(2);
        expect_fail(&fakes[1], -EINVAL, "not the number of a collective call");
    }
    gather_in(&fakes[1], parts[1].group, 0, 1);
    release(&fakes[1], parts[1].group);
    split(&fakes[1], parts[1].group, 0, 0, 0);
    await(2);
    expect_fail(&fakes[1], -EBUSY, "in a collective call");
    gather_in(&fakes[3], parts[1].group, 0, 3);
    gather_in(&fakes[5], parts[1].group, 0, 5);
    await(3);
    expect_gathered(1, &parts[1], 0);
}

Test(group_split, a_session_alone)
{
    open_session(0, 1, 1);
    split(&fakes[0], 0, 0, 5, 0);
    await(1);
    cr_assert_eq(part_of(0).group, 0);
    gather_in(&fakes[0], 77, 0, 0);
    await(1);
    expect_fail(&fakes[0], -ENOENT, "has no group");
}
