/* Daemons that report what they must not. */
#include "groups.h"

TestSuite(group_hostile, .init = setup, .fini = teardown, .timeout = 100);

static struct reply reply;

static bool replied(void)
{
    return reply.count == 1;
}

static void expect_reply(unsigned from, const Tca__Message *question, int status)
{
    reply = (struct reply){0};
    peers_request(test.nodes[from].tcad.peers, 0, question, LONG, reply_take, &reply);
    run_until(replied);
    cr_assert_eq(reply.status, status, "%s", reply.text);
}

static struct team *team_at(unsigned node)
{
    return test.nodes[node].tcad.groups->places->caller.team;
}

Test(group_hostile, the_root_believes_nothing)
{
    make_group(3);
    static uint8_t blob[64];
    Tca__Message message;

    uint32_t ranks[] = {0, 0};
    uint64_t sessions[] = {1, 2}, timeouts[] = {LONG, LONG};
    Tca__PeerGroupJoin ask_join = BODY_OF(
        peer_group_join, .name = (char *)"x", .size = UINT32_MAX, .n_ranks = 1, .ranks = ranks,
        .n_sessions = 1, .sessions = sessions, .n_timeouts_ns = 1, .timeouts_ns = timeouts);
    message = (Tca__Message)MESSAGE_OF(PEER_GROUP_JOIN, peer_group_join, &ask_join);
    expect_reply(2, &message, -EINVAL);
    ask_join.size = 2;
    ranks[0] = 2;
    expect_reply(2, &message, -EINVAL);
    ranks[0] = 0;
    ask_join.n_sessions = 2; /* more sessions than ranks, and fewer; no time-outs; nobody */
    expect_reply(2, &message, -EINVAL);
    ask_join.n_ranks = ask_join.n_timeouts_ns = 2;
    ask_join.n_sessions = 1;
    expect_reply(2, &message, -EINVAL);
    ask_join.n_sessions = 2;
    ask_join.n_timeouts_ns = 0;
    expect_reply(2, &message, -EINVAL);
    ask_join.n_ranks = ask_join.n_sessions = 0;
    expect_reply(2, &message, -EINVAL);
    ask_join.n_ranks = ask_join.n_sessions = ask_join.n_timeouts_ns = 1;
    sessions[0] = 0;
    expect_reply(2, &message, -EINVAL);
    sessions[0] = 1;
    ask_join.name = (char *)"0123456789012345678901234567890123456789012345678901234567890123";
    expect_reply(2, &message, -EINVAL);
    cr_assert_eq(groups_count(test.nodes[0].tcad.groups), 1);

    Tca__PeerPublish ask_publish = TCA__PEER_PUBLISH__INIT;
    message = (Tca__Message)MESSAGE_OF(PEER_PUBLISH, peer_publish, &ask_publish);
    ask_publish.team = team_at(0)->id + 1;
    ask_publish.name = (char *)"halo";
    ask_publish.handle = (ProtobufCBinaryData){.len = 63, .data = blob};
    expect_reply(2, &message, -ENOENT);
    ask_publish.team--;
    expect_reply(2, &message, -ENOENT); /* rank 0 is not of that node */
    ask_publish.rank = UINT32_MAX;
    expect_reply(2, &message, -ENOENT);
    ask_publish.rank = 2;
    expect_reply(2, &message, -EINVAL);
    ask_publish.handle.len = 64;
    ask_publish.name = (char *)"";
    expect_reply(2, &message, -EINVAL);

    /* Node 2 reports the end of rank 1, which is not its own. */
    Tca__PeerSessionGone gone = TCA__PEER_SESSION_GONE__INIT;
    message = (Tca__Message)MESSAGE_OF(PEER_SESSION_GONE, peer_session_gone, &gone);
    gone.group = (char *)"g";
    gone.user = 1000;
    gone.rank = 1;
    gone.session = fakes[1].session.id;
    peers_tell(test.nodes[2].tcad.peers, 0, &message);
    gone.rank = UINT32_MAX;
    peers_tell(test.nodes[2].tcad.peers, 0, &message);
    run_for_ms(100);
    for (uint32_t rank = 0; rank < 3; rank++) {
        cr_assert_eq(fakes[rank].gone_ranks, 0);
        gather(&fakes[rank], 0, "", 0, LONG);
    }
    await(3);
    for (uint32_t rank = 0; rank < 3; rank++)
        cr_assert_eq(fakes[rank].status, 0, "%s", fakes[rank].text);
}

/* Node 1 is a neighbour of node 0, the root of the tree, and node 2 not one of node 1. */
Test(group_hostile, a_team_believes_neighbours_only_and_not_all)
{
    make_group(3);
    uint32_t runs[2 * GATHER_RUNS_MAX + 2] = {0, 4};
    Tca__PeerTeam body = BODY_OF(peer_team, .team = team_at(0)->id, .round = 1);
    const Tca__Message message = MESSAGE_OF(PEER_TEAM, peer_team, &body);
    static const struct {
        unsigned from, to;
        uint32_t kind;
        int32_t error;
        size_t n_runs;
    } wrong[] = {
        {2, 1, GATHER_FAILED, -EPERM, 0},
        {2, 1, GATHER_UP, 0, 0},
        {1, 0, GATHER_DOWN, 0, 0},
        {1, 0, GATHER_FAILED, -EPERM, 0},
        {1, 0, GATHER_FAULT, 0, 0},
        {1, 0, GATHER_MISSING, 0, 2},
        {1, 0, GATHER_MISSING, 0, 1},
        {1, 0, GATHER_MISSING, 0, 2 * GATHER_RUNS_MAX + 2},
        {1, 0, 0, 0, 0},
        {1, 0, 12345, 0, 0},
        {0, 1, GATHER_DOWN, 0, 0},
        {0, 1, GATHER_FAILED, 5, 0},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        body.kind = wrong[i].kind;
        body.error = wrong[i].error;
        body.runs = runs;
        body.n_runs = wrong[i].n_runs;
        body.bytes = 8;
        peers_tell(test.nodes[wrong[i].from].tcad.peers, wrong[i].to, &message);
    }
    body.team++;
    peers_tell(test.nodes[1].tcad.peers, 0, &message);
    run_for_ms(100);
    for (uint32_t rank = 0; rank < 3; rank++)
        gather(&fakes[rank], 0, "", 0, LONG);
    await(3);
    for (uint32_t rank = 0; rank < 3; rank++)
        cr_assert_eq(fakes[rank].status, 0, "%s", fakes[rank].text);
}

/* Lists that are none, and that come from where they must not. */
Test(group_hostile, lists_of_members)
{
    uint32_t nodes[] = {0, 1, 2};
    uint64_t sessions[] = {1, 1, 1};
    Tca__PeerGroupFormed body = BODY_OF(peer_group_formed, .team = 77, .name = (char *)"x",
                                        .user = 1000, .nodes = nodes, .sessions = sessions);
    const Tca__Message message = MESSAGE_OF(PEER_GROUP_FORMED, peer_group_formed, &body);
    peers_tell(test.nodes[2].tcad.peers, 1, &message); /* empty */
    body.n_nodes = 3;
    peers_tell(test.nodes[2].tcad.peers, 1, &message); /* without sessions */
    body.n_sessions = 3;
    peers_tell(test.nodes[2].tcad.peers, 1, &message); /* not the parent */
    body.name = (char *)"";
    peers_tell(test.nodes[0].tcad.peers, 1, &message);
    run_for_ms(100);
    for (unsigned id = 0; id < 3; id++)
        cr_assert_eq(test.nodes[id].tcad.groups->teams.count, 0);
    make_group(3);
}

/* Of nodes that have ranks of the group, and never about the receiver's own ranks. */
Test(group_hostile, ends_of_ranks)
{
    make_group(2);
    const uint64_t team = team_at(0)->id;
    uint32_t all[] = {0, 2}, wrong[] = {1, 2};
    Tca__PeerGroupEnds body = BODY_OF(peer_group_ends, .team = team, .n_ended = 2, .ended = all);
    const Tca__Message message = MESSAGE_OF(PEER_GROUP_ENDS, peer_group_ends, &body);
    expect_reply(2, &message, -ENOENT);
    body.team++;
    expect_reply(1, &message, -ENOENT);
    body.team = team;
    body.ended = wrong;
    expect_reply(1, &message, -EPROTO);
    body.n_ended = 1;
    expect_reply(1, &message, -EPROTO);
    cr_assert_eq(fakes[0].gone_ranks + fakes[1].gone_ranks, 0);
    body.n_ended = body.n_down = 2;
    body.ended = body.down = all;
    expect_reply(1, &message, 0);
    cr_assert_eq(fakes[0].gone_ranks, 1);
    cr_assert_eq(fakes[0].gone[0], SOURCE_ALIVE);
    cr_assert_eq(fakes[0].gone[1], SOURCE_NODE_DOWN);
    body.n_down = 0;
    expect_reply(1, &message, -EHOSTDOWN);
}
